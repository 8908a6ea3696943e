/* <name-box>: a text field that completes names of the run (the ARIA combobox pattern with a list). */

import { names } from "./api.js";
import { el, freshId } from "./dom.js";
import { count } from "./words.js";

const WAIT = 90; // milliseconds after the last key before the service is asked

export class NameBox extends HTMLElement {
  /** `kind` is "entity" or "relation"; `blank` says what an empty field stands for. */
  static make(label, kind, blank = "", more = {}) {
    const box = document.createElement("name-box");
    Object.assign(box, { label, kind, blank });
    for (const [name, value] of Object.entries(more)) box.setAttribute(name, value);
    box.build();
    return box;
  }

  get value() {
    return this.field.value.trim();
  }
  set value(text) {
    this.field.value = text ?? "";
    this.close();
  }

  build() {
    const [input, list] = [freshId("name"), freshId("names")];
    this.active = -1;
    this.found = [];
    this.list = el("ul", { id: list, role: "listbox", "aria-label": `${this.label}: names`, hidden: true });
    this.field = el("input", {
      id: input,
      type: "text",
      role: "combobox",
      "aria-expanded": "false",
      "aria-controls": list,
      "aria-autocomplete": "list",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: this.blank || "Type a name",
      oninput: () => this.later(),
      onfocus: () => this.field.select(),
      onkeydown: (event) => this.key(event),
      onclick: () => this.ask(true),
      onblur: () => this.close(),
    });
    this.said = el("span", { class: "hidden", role: "status" });
    this.append(el("label", { for: input }, this.label), this.field, this.list, this.said);
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), WAIT);
  }

  /** Names for what is typed; `all` shows the commonest, whatever the field holds. */
  async ask(all = false) {
    this.call?.abort();
    this.call = new AbortController();
    try {
      this.found = await names(this.kind, all ? "" : this.value, 8, this.call.signal);
    } catch {
      return; // the form itself says that the service fails
    }
    if (document.activeElement === this.field) this.open();
  }

  open() {
    const marked = this.list.children[this.active]?.firstChild.textContent; // stays so, where it is still there
    const options = this.found.map((name, i) =>
      el(
        "li",
        {
          id: `${this.list.id}-${i}`,
          role: "option",
          "aria-selected": "false",
          onpointerdown: (event) => {
            event.preventDefault();
            this.choose(i);
          },
        },
        el("span", {}, name.name),
        el("span", { class: "faint" }, count(name.facts, "fact")),
      ),
    );
    this.list.replaceChildren(...options);
    this.expand(options.length > 0);
    const again = this.found.findIndex((name) => name.name === marked);
    if (again < 0) this.active = -1;
    else this.mark(again);
    this.said.textContent = options.length ? `${count(options.length, "name")} to choose from` : "No such name";
  }

  close() {
    clearTimeout(this.timer);
    this.call?.abort();
    this.expand(false);
    this.active = -1;
    this.said.textContent = "";
  }

  expand(shown) {
    this.list.hidden = !shown;
    this.field.setAttribute("aria-expanded", String(shown));
    this.field.removeAttribute("aria-activedescendant");
  }

  mark(i) {
    const options = [...this.list.children];
    this.active = (i + options.length) % options.length;
    options.forEach((option, k) => option.setAttribute("aria-selected", String(k === this.active)));
    options[this.active].scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", options[this.active].id);
  }

  choose(i) {
    this.value = this.found[i].name;
    this.dispatchEvent(new Event("change", { bubbles: true }));
  }

  key(event) {
    const shown = !this.list.hidden;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!shown) this.ask(this.value === "");
      else this.mark(event.key === "ArrowDown" ? this.active + 1 : Math.max(this.active, 0) - 1);
    } else if (event.key === "Enter" && shown && this.active >= 0) {
      event.preventDefault();
      this.choose(this.active);
    } else if (event.key === "Escape" && shown) {
      event.preventDefault();
      this.close();
    }
  }
}

customElements.define("name-box", NameBox);
