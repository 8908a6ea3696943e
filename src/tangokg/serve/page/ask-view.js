/* <ask-view>: the first screen. A question, its ranked answers, and what is known of the likeliest one. */

import { names, post } from "./api.js";
import "./answer-list.js";
import "./chance-curve.js";
import { el, failed, loading, note, panel } from "./dom.js";
import "./neighbourhood.js";
import "./pair-timeline.js";
import { asked, factOf, missing, spoken, toBody, toLink } from "./question.js";
import { QuestionForm } from "./question-form.js";
import { nextTime, run } from "./run.js";
import "./take-away.js";
import { isWatched, unwatch, watch } from "./watch-list.js";
import { onPage, percent } from "./words.js";

let latest = "#ask"; // the question asked last, for the way back from another view
export const latestLink = () => latest;

const ORDER =
  "Answers stand in the order of the model’s scores. Their chances also count how each fact came back before, and here a " +
  "later answer has a larger chance.";
const TOLD = 0.01; // a smaller difference of two chances needs no words

/** Whether a later answer has a clearly larger chance than one before it. */
export const outOfOrder = (answers) =>
  answers.some((one, i) => answers.slice(0, i).some((before) => one.chance - before.chance > TOLD));

const make = (name) => document.createElement(name);

export class AskView extends HTMLElement {
  show(question) {
    if (!this.form) this.build();
    const empty = !question.subject && !question.relation && !question.object;
    const example = { object: "", by: false, ...(run().example ?? {}) };
    this.intro.hidden = !empty;
    this.form.question = empty
      ? { subject: "", relation: "", ...example }
      : { ...question, at: question.at || nextTime() };
    if (missing(this.form.question))
      this.result.replaceChildren(
        note("empty", "Ask something: name a subject and a relation, and see who or what is likely."),
      );
    else this.ask(this.form.question);
    if (!empty) latest = toLink(this.form.question);
  }

  build() {
    this.form = QuestionForm.make();
    this.intro = el(
      "p",
      { class: "lead" },
      "Who or what is likely next, how sure the model is, and why. This is an example; ask your own question.",
    );
    this.result = el("div", { class: "result" });
    this.form.addEventListener("ask", ({ detail }) => this.asked(detail));
    this.replaceChildren(el("h1", { class: "hidden" }, "Ask"), this.intro, this.form, this.result);
  }

  asked({ question, complain }) {
    const lacks = missing(question);
    if (lacks) {
      if (complain) this.result.replaceChildren(note("empty", lacks));
      return;
    }
    this.intro.hidden = true;
    history.replaceState(null, "", toLink(question));
    latest = toLink(question);
    this.ask(question);
  }

  async ask(question) {
    this.call?.abort();
    this.call = new AbortController();
    const { signal } = this.call;
    if (!this.list) this.result.replaceChildren(loading("Asking the model"));
    this.result.setAttribute("aria-busy", "true");
    try {
      const forecast = await post("/forecast", toBody(question), {}, signal);
      if (!signal.aborted) this.answered(question, forecast);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.list = null;
      this.result.replaceChildren(
        error.status === 404 ? await this.unknown(question, error) : failed(error, () => this.ask(question)),
      );
    }
    this.result.removeAttribute("aria-busy");
  }

  /** A name that the run does not know, with the nearest that it does. */
  async unknown(question, error) {
    const offers = [];
    for (const role of ["subject", "relation", "object"].filter((one) => question[one])) {
      const near = await names(role === "relation" ? "relation" : "entity", question[role], 5).catch(() => []);
      if (!near.length || near.some((one) => one.name === question[role])) continue;
      const choices = near.map((one) =>
        el("a", { class: "button quiet", href: toLink({ ...question, [role]: one.name }) }, one.name),
      );
      offers.push(el("p", { class: "row" }, el("span", {}, `${role[0].toUpperCase()}${role.slice(1)}:`), choices));
    }
    const lead = offers.length ? "Did you mean one of these?" : "Type the beginning of a name to see those that fit.";
    return note("failed", error.message, el("p", {}, lead), ...offers);
  }

  answered(question, forecast) {
    this.question = question;
    if (!this.list?.isConnected) this.layOut();
    const kind = asked(question);
    const any = (kind === "subject" || kind === "object") && forecast.any !== null && forecast.any !== undefined;
    const whose =
      kind === "subject"
        ? `anyone ${question.relation} ${question.object}`
        : `${question.subject} ${question.relation} anyone`;
    this.heading.textContent = spoken({
      ...question,
      at: forecast.question?.at ?? forecast.question?.by ?? question.at,
    });
    this.any.replaceChildren(
      ...(any
        ? [
            "Chance that ",
            el("q", {}, whose),
            " at all: ",
            el("strong", {}, percent(forecast.any)),
            ". Shares hold if so.",
          ]
        : []),
    );
    this.warnings.replaceChildren(
      ...(forecast.warnings ?? []).map((text) => el("p", { class: "warning" }, onPage(text))),
      ...(outOfOrder(forecast.answers) ? [el("p", { class: "warning" }, ORDER)] : []),
    );
    this.list.show(question, forecast, (answer) => this.explore(question, answer, forecast.position));
    this.away.show(question, forecast);
    if (forecast.answers.length) this.explore(question, forecast.answers[0], forecast.position);
    else this.list.replaceChildren(note("empty", "The model has no answer to this question."));
  }

  layOut() {
    Object.assign(this, {
      list: make("answer-list"),
      away: make("take-away"),
      curve: make("chance-curve"),
      pair: make("pair-timeline"),
      near: make("near-graph"),
    });
    Object.assign(this, {
      heading: el("h2", { class: "spoken" }),
      any: el("p"),
      warnings: el("div"),
      watching: el("div", { class: "row" }),
    });
    this.of = ["curve", "pair"].map(() => el("p", { class: "faint of" }));
    this.nearTitle = el("p", { class: "faint of" });
    this.result.replaceChildren(
      el(
        "section",
        { class: "found", "aria-label": "Answers" },
        el("div", { role: "status" }, this.heading, this.any),
        this.warnings,
        this.list,
        this.watching,
        this.away,
      ),
      el(
        "div",
        { class: "beside" },
        panel("Chance against time", this.of[0], this.curve),
        panel("Facts of the pair", this.of[1], this.pair),
        panel("Neighbourhood", this.nearTitle, this.near),
      ),
    );
  }

  /** Shows the charts of one answer. */
  explore(question, answer, known) {
    const fact = factOf(question, answer);
    this.of[0].textContent = `${fact.subject} ${fact.relation} ${fact.object}`;
    this.of[1].textContent = `${fact.subject} and ${fact.object}`;
    this.nearTitle.textContent = `Around ${fact.subject}`;
    this.curve.show(fact, question.at, known);
    this.pair.show(fact);
    this.near.show(fact.subject);
    this.offer(fact);
  }

  offer(fact) {
    const on = isWatched(fact);
    const act = () => {
      (on ? unwatch : watch)(fact);
      this.offer(fact);
    };
    const words = `${on ? "Stop watching" : "Watch"} ${fact.subject} ${fact.relation} ${fact.object}`;
    const list = on ? [el("a", { href: "#watch" }, "Watch list")] : [];
    this.watching.replaceChildren(
      el("button", { type: "button", class: "quiet", onclick: act }, words),
      ...list,
      el("a", { href: toLink(fact, "what-if") }, "What if …"),
      run().beside ? el("a", { href: toLink(this.question, "compare") }, "Both runs") : "",
    );
  }
}

customElements.define("ask-view", AskView);
