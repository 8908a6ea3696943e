/* <compare-view>: the same question to both runs, side by side. */

import { post } from "./api.js";
import { el, failed, loading, note, panel, table } from "./dom.js";
import { missing, spoken, toBody, toLink } from "./question.js";
import { QuestionForm } from "./question-form.js";
import { nextTime, run } from "./run.js";
import { onPage, percent, quality } from "./words.js";

const FIGURES = [
  ["mrr", "MRR"],
  ["hits@1", "Hits@1"],
  ["hits@10", "Hits@10"],
];

/** The names of the two runs; where they are the same, numbered. */
function titles() {
  const both = [run(), run().beside].map((one) => one.run);
  return both[0] === both[1] ? both.map((name, i) => `${name} (${i + 1})`) : both;
}

const SUFFIXES = { one: "st", two: "nd", few: "rd", other: "th" };
const ordinal = (n) => `${n}${SUFFIXES[new Intl.PluralRules("en", { type: "ordinal" }).select(n)]}`;

export class CompareView extends HTMLElement {
  show(question) {
    if (!run().beside)
      return this.replaceChildren(
        el("h1", {}, "Two runs"),
        note("empty", "Only one run is served.", el("p", {}, "Start the service with ", el("code", {}, "--beside RUN"))),
      );
    if (!this.form) this.build();
    const empty = !question.subject && !question.relation && !question.object;
    this.form.question = empty
      ? { object: "", by: false, ...run().example }
      : { ...question, at: question.at || nextTime() };
    return this.ask(this.form.question);
  }

  build() {
    this.form = QuestionForm.make("Compare");
    this.form.addEventListener("ask", ({ detail: { question, complain } }) => {
      if (missing(question) && !complain) return;
      if (!missing(question)) history.replaceState(null, "", toLink(question, "compare"));
      this.ask(question);
    });
    this.result = el("div", { class: "result", "aria-live": "polite" });
    this.replaceChildren(
      el("h1", {}, "Two runs"),
      el("p", { class: "lead" }, `The same question to ${titles().join(" and ")}, which know the same added facts.`),
      this.form,
      this.result,
      panel("How good they were", ...this.figures()),
    );
  }

  /** The figures of the last part that both were measured on. */
  figures() {
    const both = [run(), run().beside];
    const part = ["test", "valid"].find((name) => both.every((one) => one.metrics[name]));
    if (!part) return [el("p", { class: "faint" }, "The runs keep no figures of the same part.")];
    const rows = both.map((one, i) => [
      titles()[i],
      one.model,
      ...FIGURES.map(([key]) => quality(one.metrics[part][key])),
    ]);
    const name = { test: "test", valid: "validation" }[part];
    return [
      el("p", { class: "faint" }, `On the ${name} part of each, with the time-aware filter.`),
      table("Figures of both runs", ["Run", "Model", ...FIGURES.map(([, title]) => title)], rows),
    ];
  }

  async ask(question) {
    const lacks = missing(question);
    if (lacks) return this.result.replaceChildren(note("empty", lacks));
    this.call?.abort();
    this.call = new AbortController();
    const { signal } = this.call;
    if (!this.result.childElementCount) this.result.replaceChildren(loading("Asking both"));
    this.result.setAttribute("aria-busy", "true");
    try {
      const { runs } = await post("/compare", toBody(question), {}, signal);
      if (!signal.aborted) this.result.replaceChildren(...this.told(question, runs));
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      this.result.replaceChildren(failed(error, () => this.ask(question)));
    }
    this.result.removeAttribute("aria-busy");
    return undefined;
  }

  told(question, runs) {
    const answers = runs.map(({ forecast }) => new Map((forecast?.answers ?? []).map((one) => [one.name, one])));
    const any = runs
      .map(({ forecast }, i) => [titles()[i], forecast?.any])
      .filter(([, chance]) => chance !== null && chance !== undefined)
      .map(([title, chance]) => `${percent(chance)} (${title})`);
    const cell = (one) => (one ? `${percent(one.chance)}, ${ordinal(one.rank)}` : "–");
    const rows = [...new Set(answers.flatMap((some) => [...some.keys()]))].map((name) => [
      name,
      ...answers.map((some) => cell(some.get(name))),
    ]);
    const warnings = new Set(runs.flatMap(({ forecast }) => forecast?.warnings ?? []));
    return [
      el("h2", { class: "spoken" }, spoken(question)),
      any.length ? el("p", {}, `The chance that there is an answer at all: ${any.join(", ")}.`) : "",
      ...runs.flatMap(({ error }, i) => (error ? [note("failed", `${titles()[i]}: ${error.message}`)] : [])),
      ...[...warnings].map((text) => el("p", { class: "warning" }, onPage(text))),
      rows.length ? table("Chance and place of each answer", ["Answer", ...titles()], rows) : "",
      el("p", { class: "faint" }, "A dash: not among the first ten of this run."),
      el("p", { class: "links" }, el("a", { href: toLink(question) }, `Reasons and charts of ${titles()[0]}`)),
    ];
  }
}

customElements.define("compare-view", CompareView);
