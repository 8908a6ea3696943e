/* <what-if-view>: the same question with and without supposed facts, which the service never keeps. */

import { post } from "./api.js";
import { el, failed, loading, note, table } from "./dom.js";
import { FactForm } from "./fact-form.js";
import { missing, spoken, toBody } from "./question.js";
import { QuestionForm } from "./question-form.js";
import { nextTime, position, run, timeAt } from "./run.js";
import { onPage, percent, sentence } from "./words.js";

export class WhatIfView extends HTMLElement {
  show(question) {
    this.facts = [];
    this.fact = FactForm.make();
    this.form = QuestionForm.make("Compare");
    this.list = el("ul", { class: "facts" });
    this.result = el("div", { "aria-live": "polite" });
    const start = question.relation ? question : { object: "", ...run().example };
    this.form.question = {
      ...start,
      object: "",
      at: position(start.at || nextTime()) > 1 ? start.at || nextTime() : timeAt(2),
      by: false,
    };
    this.fact.fact = { subject: start.subject ?? "", relation: start.relation, object: question.object, at: timeAt(1) };
    this.form.addEventListener("ask", ({ detail }) => {
      if (detail.complain) this.compare(detail.question);
    });
    this.replaceChildren(
      el("h1", {}, "What if"),
      el(
        "p",
        { class: "lead" },
        "Suppose facts that have not happened, and see how the answers change. Nothing is kept.",
      ),
      el(
        "section",
        { class: "panel", "aria-label": "Supposed facts" },
        el("h2", {}, "Suppose that"),
        this.fact,
        el(
          "div",
          { class: "row" },
          el("button", { type: "button", class: "main", onclick: () => this.add() }, "Suppose this"),
        ),
        this.list,
      ),
      el("h2", {}, "What is then likely"),
      this.form,
      this.result,
    );
    this.tell();
  }

  add() {
    const { fact } = this.fact;
    if (!fact)
      return this.result.replaceChildren(note("empty", "A fact needs a subject, a relation, an object and a time."));
    if (!this.facts.some((one) => sentence(one) === sentence(fact))) this.facts.push(fact);
    this.tell();
    return this.compare(this.form.question);
  }

  tell() {
    const remove = (fact) => {
      this.facts = this.facts.filter((one) => one !== fact);
      this.tell();
      this.compare(this.form.question);
    };
    this.list.replaceChildren(
      ...this.facts.map((fact) =>
        el(
          "li",
          {},
          el("span", {}, sentence(fact)),
          el(
            "button",
            { type: "button", class: "quiet", "aria-label": `Remove ${sentence(fact)}`, onclick: () => remove(fact) },
            "Remove",
          ),
        ),
      ),
    );
  }

  async compare(question) {
    const lacks = missing(question) ?? (this.facts.length ? null : "Suppose at least one fact.");
    if (lacks) return this.result.replaceChildren(note("empty", lacks));
    this.result.replaceChildren(loading("Asking twice"));
    try {
      const [now, then] = await Promise.all([
        post("/forecast", toBody(question)),
        post("/forecast", toBody(question, { suppose: this.facts })),
      ]);
      return this.result.replaceChildren(...this.compared(question, now, then));
    } catch (error) {
      return this.result.replaceChildren(failed(error, () => this.compare(question)));
    }
  }

  compared(question, now, then) {
    const before = new Map(now.answers.map((answer) => [answer.name, answer]));
    const after = new Map(then.answers.map((answer) => [answer.name, answer]));
    const known = then.answers.some((answer) => answer.chance !== null);
    const value = (answer) => (known ? answer?.chance : answer?.share);
    const rows = [...new Set([...after.keys(), ...before.keys()])].map((name) => {
      const [a, b] = [value(before.get(name)), value(after.get(name))];
      return [name, percent(a), percent(b), a === undefined || b === undefined ? "–" : this.change(b - a)];
    });
    const any =
      now.any === null || now.any === undefined
        ? null
        : el(
            "p",
            {},
            `The chance that there is an answer at all: ${percent(now.any)} as things are, ${percent(then.any)} if so.`,
          );
    const head = known ? "Chance" : "Share";
    return [
      el("h3", { class: "spoken" }, spoken(question)),
      any ?? "",
      ...(then.warnings ?? []).map((text) => el("p", { class: "warning" }, onPage(text))),
      table(
        "Answers with and without the supposed facts",
        ["Answer", `${head} as things are`, `${head} if so`, "Change"],
        rows,
      ),
    ];
  }

  change(difference) {
    const points = 100 * difference;
    if (Math.abs(points) < 0.05) return "no change";
    return el(
      "span",
      { class: points > 0 ? "up" : "down" },
      `${points > 0 ? "▲ +" : "▼ −"}${Math.abs(points).toFixed(1)} points`,
    );
  }
}

customElements.define("what-if-view", WhatIfView);
