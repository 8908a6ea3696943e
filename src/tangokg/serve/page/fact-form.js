/* <fact-form>: one fact: subject, relation, object and a time. `fact` is null while something is missing. */

import { el, freshId } from "./dom.js";
import { NameBox } from "./name-box.js";
import { timeAt } from "./run.js";

export class FactForm extends HTMLElement {
  static make() {
    const form = document.createElement("fact-form");
    form.build();
    return form;
  }

  build() {
    const id = freshId("fact-time");
    this.subject = NameBox.make("Subject", "entity", "", { class: "fact-subject" });
    this.relation = NameBox.make("Relation", "relation", "", { class: "fact-relation" });
    this.object = NameBox.make("Object", "entity", "", { class: "fact-object" });
    this.time = el("input", { id, type: "text", autocomplete: "off", class: "time", value: timeAt(1) });
    this.append(
      el(
        "div",
        { class: "quad" },
        this.subject,
        this.relation,
        this.object,
        el("div", {}, el("label", { for: id }, "Time"), this.time),
      ),
    );
  }

  get fact() {
    const fact = {
      subject: this.subject.value,
      relation: this.relation.value,
      object: this.object.value,
      at: this.time.value.trim(),
    };
    return Object.values(fact).every((text) => text !== "") ? fact : null;
  }

  set fact(fact) {
    for (const name of ["subject", "relation", "object"]) this[name].value = fact[name];
    this.time.value = fact.at || timeAt(1);
  }
}

customElements.define("fact-form", FactForm);
