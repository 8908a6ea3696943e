/* <chance-curve>: the chance of a fact against time, with the time asked about and how far the evaluation reaches. */

import { post } from "./api.js";
import { el, failed, loading, table } from "./dom.js";
import { PlotBox, colour } from "./plot.js";
import { position, run, timeAt, reach, unit } from "./run.js";
import { percent, sentence } from "./words.js";

const AXIS = { step: "linear" }; // every other unit is a calendar's

export class ChanceCurve extends HTMLElement {
  /** Asks for a fact's curve; where fact, span and journal position (`known`) are as before, only the time moves. */
  async show(fact, at, known) {
    const steps = position(at) || 0; // from the last fact to the time asked about
    const span = {
      since: timeAt(Math.min(1, steps - 4)),
      until: timeAt(Math.max(reach(), steps)),
      points: Math.min(60, reach()),
    };
    const key = JSON.stringify([fact, span, known]);
    this.at = at;
    if (key === this.key && this.curve) return this.draw();
    this.key = key;
    this.call?.abort();
    this.call = new AbortController();
    if (!this.curve) this.replaceChildren(loading("Drawing the curve"));
    try {
      this.curve = await post("/curve", { ...fact, ...span }, {}, this.call.signal);
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      this.curve = null;
      this.key = null;
      this.replaceChildren(failed(error));
      return undefined;
    }
    this.fact = fact;
    return this.draw();
  }

  async draw() {
    const { points } = this.curve;
    if (!points.length)
      return this.replaceChildren(el("p", { class: "faint" }, "There is no chance to draw for this fact."));
    if (!this.plot?.isConnected) this.frame();
    const best = points.reduce((a, b) => (b.chance > a.chance ? b : a));
    this.words.textContent = this.summary(best);
    this.figures.replaceChildren(
      table(
        "Chance at each time",
        ["Time", "Chance"],
        points.map((p) => [p.at, percent(p.chance)]),
      ),
    );
    await this.plot.show(`Chance of ${sentence(this.fact)} against time. ${this.words.textContent}`, () =>
      this.chart(),
    );
    return undefined;
  }

  frame() {
    this.plot = new PlotBox();
    this.words = el("p", { class: "faint" });
    this.figures = el("div");
    this.replaceChildren(this.plot, this.words, el("details", {}, el("summary", {}, "The figures"), this.figures));
  }

  summary(best) {
    const { trusted_until: trusted, base } = this.curve;
    const reaches =
      trusted === null
        ? "No evaluation says how far ahead the chances can be trusted."
        : `The shaded band ends at ${trusted}: the evaluation reaches so far.`;
    const highest = `Highest at ${best.at} with ${percent(best.chance)}.`;
    const usual = base === null ? "" : `Base rate ${percent(base)}, dotted.`;
    return `${highest} The upright line is the time asked about. ${usual} ${reaches}`;
  }

  chart() {
    const { points, trusted_until: trusted, base } = this.curve;
    const shapes = [];
    const [x0, x1] = [points[0].at, points.at(-1).at];
    if (trusted !== null)
      shapes.push({
        type: "rect",
        xref: "x",
        yref: "paper",
        x0: run().now,
        x1: trusted,
        y0: 0,
        y1: 1,
        line: { width: 0 },
        fillcolor: colour("band"),
        layer: "below",
      });
    if (base !== null)
      shapes.push({
        type: "line",
        xref: "paper",
        x0: 0,
        x1: 1,
        y0: base,
        y1: base,
        line: { color: colour("second"), width: 1.5, dash: "dot" },
      });
    shapes.push({
      type: "line",
      x0: this.at,
      x1: this.at,
      yref: "paper",
      y0: 0,
      y1: 1,
      line: { color: colour("ink"), width: 1.5 },
    });
    const top = Math.min(1, Math.max(0.02, 1.15 * Math.max(base ?? 0, ...points.map((p) => p.chance))));
    const line = {
      x: points.map((p) => p.at),
      y: points.map((p) => p.chance),
      mode: "lines+markers",
      line: { color: colour("accent"), width: 2, shape: "linear" },
      marker: { size: 4.5, color: colour("accent") },
      hovertemplate: "%{x}: %{y:.1%}<extra></extra>",
    };
    const type = AXIS[unit()] ?? (/^\d+$/.test(String(x0)) ? "linear" : /Q/.test(String(x0)) ? "category" : "date");
    const hover =
      type === "date" ? { hoverformat: unit() === "day" || unit() === "week" ? "%Y-%m-%d" : undefined } : {};
    return {
      traces: [line],
      layout: {
        shapes,
        xaxis: { type, nticks: 6, range: type === "category" ? undefined : [x0, x1], ...hover },
        yaxis: { tickformat: top < 0.06 ? ".1%" : ".0%", range: [0, top], nticks: 5 },
      },
    };
  }
}

customElements.define("chance-curve", ChanceCurve);
