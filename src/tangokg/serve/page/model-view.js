/* <model-view>: the model card: what the run is, how good it was, and what its numbers mean. */

import { el, failed, loading, panel, table } from "./dom.js";
import { readModel, unit } from "./run.js";

const PARTS = { valid: "validation", test: "test" };
const COLUMNS = ["mrr", "hits@1", "hits@3", "hits@10"];

export class ModelView extends HTMLElement {
  async show() {
    this.replaceChildren(el("h1", {}, "Model"), loading("Reading the model card"));
    try {
      this.told(await readModel());
    } catch (error) {
      this.replaceChildren(
        el("h1", {}, "Model"),
        failed(error, () => this.show()),
      );
    }
  }

  told(model) {
    const { data } = model;
    const item = (term, text) => [el("dt", {}, term), el("dd", {}, text)];
    this.replaceChildren(
      el("h1", {}, model.name),
      el(
        "dl",
        { class: "card" },
        item("Run", model.run),
        item("Model", model.model),
        item("Facts", data.facts.toLocaleString("en")),
        item("Entities", data.entities.toLocaleString("en")),
        item("Relations", data.relations.toLocaleString("en")),
        item("Span", `${data.first} to ${data.last}, counted in ${unit()}s`),
        item("Last known time", model.now),
        item("Trusted until", model.trusted_until ?? "no evaluation says"),
        item("Journal position", String(model.position)),
        item("Beside it", model.beside ? `${model.beside.run}, ${model.beside.model}` : "no other run (--beside RUN)"),
      ),
      panel("How good it was", ...this.metrics(model.metrics ?? {})),
      this.meaning(model),
    );
  }

  metrics(metrics) {
    const rows = [];
    for (const [part, name] of Object.entries(PARTS)) {
      const row = metrics[part];
      if (row) rows.push([name, ...COLUMNS.map((column) => row[column]?.toFixed(2))]);
    }
    if (!rows.length)
      return [el("p", { class: "faint" }, "This run keeps no figures: it was trained without evaluation.")];
    return [
      el(
        "p",
        { class: "faint" },
        "In per cent, with the time-aware filter. MRR is the mean of one over the rank of the true answer; Hits@3 is " +
          "how often it stands among the first three. The weights were chosen on validation; the test part played no " +
          "role in training.",
      ),
      table("Figures", ["Part", "MRR", "Hits@1", "Hits@3", "Hits@10"], rows),
    ];
  }

  meaning(model) {
    const item = (term, text) => [el("dt", {}, term), el("dd", {}, text)];
    return panel(
      "What the numbers mean",
      el(
        "dl",
        { class: "meaning" },
        item(
          "Chance",
          model.chances
            ? "The probability that the fact happens in the step asked about, or at least once by then. It is " +
                "calibrated on validation: of facts said with 70 %, about 70 in 100 should happen."
            : "This run has no calibrated chances; shares are shown.",
        ),
        item("Usually", "The base rate: how often the fact was there in all known steps."),
        item("Share", "The probability that this is an answer, if the question has one at all."),
        item(
          "Trusted until",
          "The evaluation asked this far ahead. Later chances may be as good, but nothing measured it.",
        ),
        item(
          "Reasons",
          "Earlier facts, and how much of the answer goes without each. They explain the model, not the world.",
        ),
      ),
    );
  }
}

customElements.define("model-view", ModelView);
