/* <watch-view>: watched facts, their chance now, and whether it is above the threshold; kept up with new facts. */

import { listen, post } from "./api.js";
import { el, failed, freshId, loading, note } from "./dom.js";
import { toBody, toLink } from "./question.js";
import { nextTime, readModel } from "./run.js";
import { setThreshold, unwatch, watched } from "./watch-list.js";
import { percent } from "./words.js";

const WRONG = [400, 404]; // of a question: another one may be answered

/** All at once; where one of them cannot be answered, one by one: then a forecast, or what is wrong with it. */
async function ask(questions) {
  try {
    return (await post("/forecasts", { questions })).forecasts;
  } catch (error) {
    if (!WRONG.includes(error.status)) throw error;
  }
  const found = [];
  for (const question of questions)
    found.push(
      await post("/forecast", question).catch((error) => {
        if (!WRONG.includes(error.status)) throw error;
        return { error };
      }),
    );
  return found;
}

export class WatchView extends HTMLElement {
  show() {
    this.result = el("div", { "aria-live": "polite" });
    this.replaceChildren(
      el("h1", {}, "Watch list"),
      el(
        "p",
        { class: "lead" },
        "Facts that you watch, with their chance in the next step. The list is kept by this browser.",
      ),
      this.result,
    );
    this.read();
    this.stop?.abort();
    this.stop = new AbortController();
    listen(
      () =>
        readModel()
          .then(() => this.read())
          .catch(() => {}),
      () => {},
      this.stop.signal,
    );
  }

  disconnectedCallback() {
    this.stop?.abort();
  }

  async read() {
    const facts = watched();
    if (!facts.length)
      return this.result.replaceChildren(
        note("empty", "You watch nothing yet.", el("p", {}, "Ask a question, then press Watch below its answers.")),
      );
    if (!this.result.childElementCount) this.result.replaceChildren(loading("Asking for chances"));
    try {
      const forecasts = await ask(facts.map((fact) => toBody({ ...fact, at: nextTime() })));
      const rows = facts.map((fact, i) => this.row(fact, forecasts[i].answers?.[0], forecasts[i].error));
      return this.result.replaceChildren(
        el("p", { class: "faint" }, `At ${nextTime()}.`),
        el("ul", { class: "watched" }, rows),
      );
    } catch (error) {
      return this.result.replaceChildren(
        failed(error, () => this.read()),
        el(
          "ul",
          { class: "watched" },
          facts.map((fact) => this.row(fact)),
        ),
      );
    }
  }

  row(fact, answer, error = null) {
    const id = freshId("threshold");
    const chance = answer?.chance ?? answer?.share ?? null;
    const state = el("span");
    const judge = (threshold) => {
      const above = chance !== null && chance >= threshold;
      state.textContent = chance === null ? (error?.message ?? "unknown") : above ? "▲ above" : "below";
      state.className = above ? "state state-above" : "state";
    };
    judge(fact.threshold);
    const field = el("input", {
      id,
      type: "number",
      min: "0",
      max: "100",
      step: "1",
      value: String(Math.round(100 * fact.threshold)),
      onchange: () => {
        const threshold = Math.min(1, Math.max(0, Number(field.value) / 100));
        setThreshold(fact, threshold);
        judge(threshold);
      },
    });
    const words = `${fact.subject} ${fact.relation} ${fact.object}`;
    return el(
      "li",
      {},
      el(
        "a",
        { href: toLink({ ...fact, at: nextTime() }) },
        fact.subject,
        " ",
        el("em", {}, fact.relation),
        " ",
        fact.object,
      ),
      el("strong", { class: "number" }, percent(chance)),
      state,
      el("span", { class: "threshold" }, el("label", { for: id }, "Threshold, %"), field),
      el(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": `Stop watching ${words}`,
          onclick: () => {
            unwatch(fact);
            this.read();
          },
        },
        "Remove",
      ),
    );
  }
}

customElements.define("watch-view", WatchView);
