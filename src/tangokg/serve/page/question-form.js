/* <question-form>: subject, relation, object and a time with its slider. Fires "ask" with the question. */

import { el, freshId } from "./dom.js";
import { NameBox } from "./name-box.js";
import { nextTime, position, reach, run, timeAt, unit } from "./run.js";
import { distance } from "./times.js";

const WAIT = 140; // milliseconds that the slider rests before the question is asked

export class QuestionForm extends HTMLElement {
  static make(button = "Ask") {
    const form = document.createElement("question-form");
    form.build(button);
    return form;
  }

  build(button) {
    this.subject = NameBox.make("Subject", "entity", "anyone");
    this.relation = NameBox.make("Relation", "relation", "any, between two names");
    this.object = NameBox.make("Object (optional)", "entity", "anyone");
    this.when = new TimeField();
    const form = el(
      "form",
      {
        class: "question",
        onsubmit: (event) => {
          event.preventDefault();
          this.send();
        },
      },
      el("div", { class: "triple" }, this.subject, this.relation, this.object),
      el("div", { class: "when" }, this.when, el("button", { type: "submit", class: "main" }, button)),
    );
    this.addEventListener("change", (event) => {
      if (event.target.tagName === "NAME-BOX") this.send(false);
    });
    this.when.onmove = () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.send(), WAIT);
    };
    this.append(form);
  }

  get question() {
    const { subject, relation, object } = this;
    return { subject: subject.value, relation: relation.value, object: object.value, ...this.when.time };
  }

  set question(question) {
    for (const name of ["subject", "relation", "object"]) this[name].value = question[name];
    this.when.time = question;
  }

  /** `complain` is false where a name was chosen and others may still follow. */
  send(complain = true) {
    clearTimeout(this.timer);
    this.dispatchEvent(new CustomEvent("ask", { detail: { question: this.question, complain } }));
  }
}

/** <time-field>: a time as text, whether it ends a span, and a slider into the future. */
export class TimeField extends HTMLElement {
  /** `spans` is false where only a single time can be asked about. */
  constructor(spans = true) {
    super();
    this.spans = spans;
    this.onmove = () => {};
  }

  connectedCallback() {
    if (!this.field) this.build();
  }

  build() {
    const [field, slider, kind, far] = ["time", "slider", "kind", "far"].map(freshId);
    this.field = el("input", {
      id: field,
      type: "text",
      class: "time",
      autocomplete: "off",
      spellcheck: "false",
      required: true,
      "aria-describedby": far,
      oninput: () => this.follow(),
      onchange: () => this.onmove(),
    });
    this.kind = el(
      "select",
      { id: kind, onchange: () => this.onmove() },
      el("option", { value: "at" }, `${unit() === "day" ? "on" : "in"} that ${unit()}`),
      el("option", { value: "by" }, "at least once by then"),
    );
    this.slider = el("input", {
      id: slider,
      type: "range",
      min: "1",
      max: String(reach()),
      step: "1",
      oninput: () => {
        this.field.value = timeAt(Number(this.slider.value));
        this.follow();
        this.onmove();
      },
    });
    this.far = el("p", { class: "faint", id: far });
    this.append(
      el("div", {}, el("label", { for: field }, "Time"), this.field),
      ...(this.spans ? [el("div", {}, el("label", { for: kind }, "When"), this.kind)] : []),
      el("div", { class: "slide" }, el("label", { for: slider }, "Into the future"), this.slider, this.far),
    );
    this.classList.toggle("no-span", !this.spans);
    this.time = this.given ?? { at: nextTime(), by: false };
  }

  get time() {
    return { at: this.field.value.trim(), by: this.kind.value === "by" };
  }

  set time({ at, by }) {
    this.given = { at, by };
    if (!this.field) return;
    this.field.value = at || nextTime();
    this.kind.value = by ? "by" : "at";
    this.follow();
  }

  /** Puts the slider where the text says. */
  follow() {
    const time = this.field.value.trim();
    this.slider.value = String(position(time) || 1);
    const far = distance(time, run().now, unit());
    this.slider.setAttribute("aria-valuetext", `${time}, ${far}`);
    this.far.textContent = far;
  }
}

customElements.define("time-field", TimeField);
customElements.define("question-form", QuestionForm);
