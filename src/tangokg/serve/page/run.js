/* What the page knows of the run it asks: the answer of GET /model, read once and read again after new facts. */

import { get } from "./api.js";
import { addSteps, toSteps } from "./times.js";

let model = null;

export async function readModel() {
  model = await get("/model");
  return model;
}

export const run = () => model;
export const unit = () => model.data.unit ?? "step";

/** The time asked about where none is given: one usual gap after the last fact. */
export const nextTime = () => String(model.next ?? addSteps(model.now, 1, unit()));

/** How many steps the slider reaches into the future: thirty, or twice as far as the evaluation reaches. */
export function reach() {
  const trusted =
    model.trusted_until === null ? NaN : toSteps(model.trusted_until, unit()) - toSteps(model.now, unit());
  return Math.max(30, Number.isNaN(trusted) ? 0 : Math.min(365, 2 * Math.round(trusted)));
}

/** Where the slider stands for a time, and the time for where it stands. */
export const position = (time) => Math.round(toSteps(time, unit()) - toSteps(model.now, unit()));
export const timeAt = (steps) => addSteps(model.now, steps, unit());
