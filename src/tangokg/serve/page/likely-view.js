/* <likely-view>: the likeliest events of all at a time. */

import { get } from "./api.js";
import { el, failed, loading, note } from "./dom.js";
import { TimeField } from "./question-form.js";
import { toLink } from "./question.js";
import { nextTime } from "./run.js";
import { percent } from "./words.js";

export class LikelyView extends HTMLElement {
  show(query) {
    this.when = new TimeField(false);
    this.when.time = { at: query.get("at") || nextTime(), by: false };
    this.when.onmove = () => this.read();
    this.result = el("div", { "aria-live": "polite" });
    this.replaceChildren(
      el("h1", {}, "Likeliest events"),
      el("p", { class: "lead" }, "Of all pairs that were active lately: what is likely at this time."),
      el("div", { class: "when only-time" }, this.when),
      this.result,
    );
    this.read();
  }

  async read() {
    const { at } = this.when.time;
    this.call?.abort();
    this.call = new AbortController();
    if (!this.result.childElementCount) this.result.replaceChildren(loading("Looking for likely events"));
    try {
      const { events } = await get("/likely", { at, top: 30 }, this.call.signal);
      this.result.replaceChildren(
        events.length
          ? el(
              "ol",
              { class: "events" },
              events.map((event) => this.row(event, at)),
            )
          : note("empty", "No event is likely then."),
      );
    } catch (error) {
      if (error.name !== "AbortError") this.result.replaceChildren(failed(error, () => this.read()));
    }
  }

  row(event, at) {
    const bar = el(
      "span",
      { class: "bar", "aria-hidden": "true" },
      el("span", { class: "bar-fill", style: `width:${100 * event.chance}%` }),
    );
    return el(
      "li",
      {},
      el("strong", { class: "number" }, percent(event.chance)),
      bar,
      el("a", { href: toLink({ ...event, at }) }, event.subject, " ", el("em", {}, event.relation), " ", event.object),
    );
  }
}

customElements.define("likely-view", LikelyView);
