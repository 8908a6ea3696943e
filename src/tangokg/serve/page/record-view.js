/* <record-view>: what was said of posted facts before they were known, and what happened. */

import { get } from "./api.js";
import { el, failed, loading, note, panel, table } from "./dom.js";
import { PlotBox, colour } from "./plot.js";
import { run } from "./run.js";
import { count, percent, quality } from "./words.js";

/** The figures of the evaluation, in per cent. */
function measured() {
  const { test, valid } = run().metrics ?? {};
  return test ?? valid ?? {};
}

export class RecordView extends HTMLElement {
  async show() {
    this.replaceChildren(el("h1", {}, "Track record"), loading("Reading the record"));
    try {
      const record = await get("/record");
      this.replaceChildren(el("h1", {}, "Track record"), ...(record.questions ? this.told(record) : [this.nothing()]));
      this.draw(record);
    } catch (error) {
      this.replaceChildren(
        el("h1", {}, "Track record"),
        failed(error, () => this.show()),
      );
    }
  }

  nothing() {
    return note(
      "empty",
      "No record yet.",
      el(
        "p",
        {},
        "Each batch of added facts is scored before it is applied: what was said, against what happened. The record " +
          "begins with the first batch.",
      ),
      el("p", {}, el("a", { href: "#post" }, "Add facts")),
    );
  }

  told(record) {
    const before = measured();
    const tile = (name, key) =>
      el(
        "div",
        { class: "tile" },
        el("dt", {}, name),
        el(
          "dd",
          {},
          quality(record[key]),
          before[key] === undefined ? null : el("span", { class: "faint" }, `evaluation ${before[key].toFixed(1)} %`),
        ),
      );
    this.reliability = new PlotBox();
    this.time = new PlotBox();
    return [
      el(
        "p",
        { class: "lead" },
        "Each batch of added facts was scored before it was applied, so nothing here was known when it was said.",
      ),
      el(
        "dl",
        { class: "tiles" },
        el(
          "div",
          { class: "tile" },
          el("dt", {}, "Questions"),
          el(
            "dd",
            {},
            record.questions.toLocaleString("en"),
            el("span", { class: "faint" }, `in ${count(record.batches, "batch", "batches")}`),
          ),
        ),
        tile("Mean reciprocal rank", "mrr"),
        tile("Right at once", "hits@1"),
        tile("Among the first ten", "hits@10"),
      ),
      el(
        "div",
        { class: "pair" },
        panel(
          "Said against happened",
          el(
            "p",
            { class: "faint" },
            "Shares of questions with an answer. On the dotted line, what was said with 70 % happened 70 times in 100.",
          ),
          this.reliability,
          el(
            "details",
            {},
            el("summary", {}, "The figures"),
            table(
              "Said against happened",
              ["Said", "Happened", "Count"],
              record.reliability.map((bin) => [percent(bin.said), percent(bin.happened), bin.count]),
            ),
          ),
        ),
        panel(
          "Over time",
          el("p", { class: "faint" }, "Mean reciprocal rank at each time; the dotted line is that of the evaluation."),
          this.time,
          el(
            "details",
            {},
            el("summary", {}, "The figures"),
            table(
              "Over time",
              ["Time", "MRR", "Questions"],
              record.over_time.map((one) => [one.at, quality(one.mrr), one.count]),
            ),
          ),
        ),
      ),
    ];
  }

  draw(record) {
    const bins = record.reliability.filter((bin) => bin.count > 0);
    if (!this.time?.isConnected) return;
    const words = bins.map((bin) => `said ${percent(bin.said)}, happened ${percent(bin.happened)}`).join("; ");
    if (bins.length)
      this.reliability.show(`What was said against what happened: ${words}`, () => reliabilityChart(bins));
    else this.reliability.replaceChildren(el("p", { class: "faint" }, "No chances were said yet."));
    if (record.over_time.length)
      this.time.show("Mean reciprocal rank over time; the figures follow below", () =>
        overTime(record.over_time, measured().mrr),
      );
  }
}

function reliabilityChart(bins) {
  const most = Math.max(...bins.map((bin) => bin.count));
  const points = {
    x: bins.map((bin) => bin.said),
    y: bins.map((bin) => bin.happened),
    customdata: bins.map((bin) => bin.count),
    mode: "lines+markers",
    line: { color: colour("accent"), width: 1.5 },
    marker: { color: colour("accent"), size: bins.map((bin) => 6 + 10 * Math.sqrt(bin.count / most)) },
    hovertemplate: "said %{x:.0%}, happened %{y:.0%}<br>%{customdata} times<extra></extra>",
  };
  const even = { type: "line", x0: 0, y0: 0, x1: 1, y1: 1, line: { color: colour("second"), width: 1.5, dash: "dot" } };
  const axis = (title) => ({
    range: [-0.02, 1.04],
    tickformat: ".0%",
    nticks: 6,
    title: { text: title, font: { color: colour("muted"), size: 12.5 } },
  });
  return {
    traces: [points],
    layout: { shapes: [even], xaxis: axis("said"), yaxis: axis("happened"), margin: { l: 56, r: 14, t: 12, b: 48 } },
  };
}

function overTime(rows, evaluation) {
  const line = {
    x: rows.map((one) => one.at),
    y: rows.map((one) => one.mrr / 100),
    customdata: rows.map((one) => one.count),
    mode: "lines+markers",
    line: { color: colour("accent"), width: 2 },
    marker: { color: colour("accent"), size: 6 },
    hovertemplate: "%{x}: %{y:.1%}<br>%{customdata} questions<extra></extra>",
  };
  const known =
    evaluation === undefined
      ? []
      : [
          {
            type: "line",
            xref: "paper",
            x0: 0,
            x1: 1,
            y0: evaluation / 100,
            y1: evaluation / 100,
            line: { color: colour("second"), width: 1.5, dash: "dot" },
          },
        ];
  return {
    traces: [line],
    layout: {
      shapes: known,
      yaxis: { range: [0, 1.03], tickformat: ".0%", nticks: 6 },
      xaxis: rows.length < 3 ? { type: "category" } : rows.length < 7 ? { tickvals: line.x } : { nticks: 6 }, // no hours
    },
  };
}

customElements.define("record-view", RecordView);
