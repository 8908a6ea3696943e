/* <entity-view>: all that is known of one name: its facts, latest first, and its neighbours. */

import { get, names } from "./api.js";
import { el, failed, loading, note, panel, table } from "./dom.js";
import { NameBox } from "./name-box.js";
import "./neighbourhood.js";
import { nextTime } from "./run.js";
import { toLink } from "./question.js";
import { count } from "./words.js";

const STEP = 30; // facts that are shown at first, and more each time

const linkOf = (name) => `#entity?name=${encodeURIComponent(name)}`;
const linked = (name, own) => (name === own ? name : el("a", { href: linkOf(name) }, name));

export class EntityView extends HTMLElement {
  show(name) {
    if (!this.box) this.build();
    this.box.value = name;
    this.relation.value = "";
    this.since.value = "";
    this.most = STEP;
    if (name) this.read(name);
    else this.result.replaceChildren(note("empty", "Type a name to see all its facts."));
  }

  build() {
    this.box = NameBox.make("Entity", "entity");
    this.relation = NameBox.make("Relation (optional)", "relation", "any");
    this.since = el("input", {
      id: "since",
      type: "text",
      autocomplete: "off",
      placeholder: "the beginning",
      onchange: () => this.read(this.box.value),
    });
    this.box.addEventListener("change", (event) => {
      if (event.target === this.box) location.hash = linkOf(this.box.value);
    });
    this.relation.addEventListener("change", () => this.read(this.box.value));
    this.result = el("div", { class: "result" });
    const form = el(
      "form",
      {
        class: "question",
        onsubmit: (event) => {
          event.preventDefault();
          this.go();
        },
      },
      el(
        "div",
        { class: "triple" },
        this.box,
        this.relation,
        el("div", {}, el("label", { for: "since" }, "Since (optional)"), this.since),
      ),
      el("div", { class: "row" }, el("button", { type: "submit", class: "main" }, "Show")),
    );
    this.replaceChildren(el("h1", {}, "Entity"), form, this.result);
  }

  go() {
    if (location.hash === linkOf(this.box.value)) this.read(this.box.value);
    else location.hash = linkOf(this.box.value);
  }

  async read(entity) {
    if (!entity) return;
    this.result.replaceChildren(loading("Reading facts"));
    try {
      const { facts, total } = await get("/facts", {
        entity,
        relation: this.relation.value,
        since: this.since.value,
        limit: this.most,
      });
      this.tell(entity, facts, total);
    } catch (error) {
      this.result.replaceChildren(
        error.status === 404 ? await this.unknown(entity, error) : failed(error, () => this.read(entity)),
      );
    }
  }

  async unknown(entity, error) {
    const near = await names("entity", entity, 5).catch(() => []);
    const choices = near.map((one) => el("a", { class: "button quiet", href: linkOf(one.name) }, one.name));
    return note(
      "failed",
      error.message,
      choices.length ? el("p", { class: "row" }, el("span", {}, "Nearest names:"), choices) : null,
    );
  }

  tell(entity, facts, total) {
    const near = document.createElement("near-graph");
    const rows = facts.map((fact) => [
      fact.at,
      linked(fact.subject, entity),
      this.ask(fact),
      linked(fact.object, entity),
    ]);
    const shown =
      facts.length < total
        ? `The latest ${facts.length.toLocaleString("en")} of ${count(total, "fact")}.`
        : `${count(total, "fact")}.`;
    const more =
      facts.length < total &&
      el(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: () => {
            this.most += 10 * STEP;
            this.read(entity);
          },
        },
        "Show more",
      );
    this.result.replaceChildren(
      el(
        "section",
        { class: "found", "aria-label": "Facts" },
        el("h2", { class: "spoken" }, entity),
        el("p", { role: "status" }, shown),
        facts.length
          ? table(`Facts of ${entity}`, ["Time", "Subject", "Relation", "Object"], rows)
          : note("empty", "No fact fits."),
        more || null,
      ),
      el("div", { class: "beside" }, panel("Neighbourhood", near)),
    );
    near.show(entity);
  }

  ask(fact) {
    const question = { subject: fact.subject, relation: fact.relation, object: "", at: nextTime() };
    return el("a", { href: toLink(question), "aria-label": `Ask: ${fact.subject} ${fact.relation}` }, fact.relation);
  }
}

customElements.define("entity-view", EntityView);
