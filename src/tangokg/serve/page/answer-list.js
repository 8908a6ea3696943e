/* <answer-list>: ranked answers, each with its chance beside the base rate, its share, and reasons that open. */

import { post } from "./api.js";
import { el, failed, freshId, loading } from "./dom.js";
import { asked, factOf, toBody } from "./question.js";
import { count, often, percent } from "./words.js";

const [FIRST, SMALL] = [3, 0.001]; // answers that are always shown, and the share below which others are folded away

export class AnswerList extends HTMLElement {
  /** `choose` receives the answer that a person picks for the charts. */
  show(question, forecast, choose) {
    Object.assign(this, { question, forecast, choose });
    const chances = forecast.answers.some((answer) => answer.chance !== null && answer.chance !== undefined);
    const shown = Math.max(FIRST, 1 + forecast.answers.findLastIndex((answer) => answer.share >= SMALL));
    const [rows, others] = [forecast.answers.slice(0, shown), forecast.answers.slice(shown)].map((some) =>
      some.map((answer) => this.row(answer, chances)),
    );
    const start = String(shown + 1);
    this.replaceChildren(
      el("ol", { class: "answers" }, rows),
      ...(others.length
        ? [
            el(
              "details",
              { class: "others" },
              el("summary", {}, `${count(others.length, "further answer")}, each with a share below ${percent(SMALL)}`),
              el("ol", { class: "answers", start }, others),
            ),
          ]
        : []),
    );
    this.mark(0);
  }

  mark(place) {
    this.querySelectorAll(".pick").forEach((button, i) => button.setAttribute("aria-pressed", String(i === place)));
  }

  row(answer, chances) {
    const place = answer.rank - 1;
    const name =
      asked(this.question) === "fact"
        ? `${answer.subject ?? this.question.subject} ${this.question.relation} ${this.question.object}`
        : answer.name;
    const pick = el(
      "button",
      {
        type: "button",
        class: "pick",
        title: "Show in the charts",
        onclick: () => {
          this.mark(place);
          this.choose(answer);
        },
      },
      name,
    );
    const why = el("div", { class: "why", id: freshId("why"), hidden: true });
    const open = el(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-expanded": "false",
        "aria-controls": why.id,
        "aria-label": `Why ${name}`,
      },
      "Why",
    );
    open.addEventListener("click", () => this.toggle(open, why, answer));
    return el(
      "li",
      { class: "answer" },
      el(
        "div",
        { class: "answer-line" },
        el("span", { class: "rank", "aria-hidden": "true" }, answer.rank),
        el("div", { class: "answer-name" }, pick, el("p", { class: "faint" }, often(answer.seen))),
        chances ? this.chance(answer) : null,
        this.share(answer),
        open,
      ),
      why,
    );
  }

  chance(answer) {
    const base = answer.base === null || answer.base === undefined ? "no base rate" : `usually ${percent(answer.base)}`;
    return el(
      "div",
      { class: "chance" },
      el("strong", {}, percent(answer.chance)),
      el("span", { class: "faint" }, base),
    );
  }

  share(answer) {
    const bar = el(
      "span",
      { class: "bar", "aria-hidden": "true" },
      el("span", { class: "bar-fill", style: `width:${Math.min(100, 100 * answer.share)}%` }),
    );
    return el("div", { class: "share" }, bar, el("span", { class: "faint" }, `${percent(answer.share)} share`));
  }

  async toggle(button, box, answer) {
    const open = box.hidden;
    box.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    if (!open || box.childElementCount) return;
    box.replaceChildren(loading("Looking for reasons"));
    try {
      box.replaceChildren(...this.reasons(answer, await this.ask(answer)));
    } catch (error) {
      box.replaceChildren(failed(error));
    }
  }

  /** The reasons of one answer: the whole fact is asked about, at the same time. */
  async ask(answer) {
    const { answers } = await post(
      "/forecast",
      toBody({ ...this.question, ...factOf(this.question, answer) }, { why: true }),
    );
    return answers[0]?.why ?? [];
  }

  reasons(answer, why) {
    const fact = factOf(this.question, answer);
    const links = [fact.subject, fact.object].map((name) =>
      el("a", { href: `#entity?name=${encodeURIComponent(name)}` }, `All facts of ${name}`),
    );
    const more = el("p", { class: "links" }, links);
    if (!why.length)
      return [el("p", {}, "No single earlier fact raised this answer; it follows from the model's weights."), more];
    const lines = why.map((reason) =>
      el(
        "li",
        {},
        el(
          "span",
          { class: "bar", "aria-hidden": "true" },
          el("span", { class: "bar-fill", style: `width:${100 * reason.share}%` }),
        ),
        el("span", {}, reason.sentence),
      ),
    );
    return [
      el("p", { class: "faint" }, "Earlier facts that raised this answer, and how much of it each explains:"),
      el("ul", { class: "reasons" }, lines),
      more,
    ];
  }
}

customElements.define("answer-list", AnswerList);
