/* <surprises-view>: the posted facts that were least expected, live. */

import { get, listen } from "./api.js";
import { el, failed, loading, note, table } from "./dom.js";
import { toLink } from "./question.js";
import { percent } from "./words.js";

export class SurprisesView extends HTMLElement {
  show() {
    this.live = el("span", { class: "live" }, "Connecting");
    this.result = el("div", { "aria-live": "polite" }, loading("Reading surprises"));
    this.replaceChildren(
      el("h1", {}, "Surprises"),
      el(
        "p",
        { class: "lead" },
        "Added facts that were least expected, by the chance they had before they were known. ",
        this.live,
      ),
      this.result,
    );
    this.read();
    this.stop?.abort();
    this.stop = new AbortController();
    listen(
      () => this.read(),
      (on) => {
        this.live.textContent = on ? "Live" : "Not connected";
        this.live.classList.toggle("live-on", on);
      },
      this.stop.signal,
    );
  }

  disconnectedCallback() {
    this.stop?.abort();
  }

  async read() {
    try {
      const { surprises } = await get("/surprises", { limit: 50 });
      this.result.replaceChildren(
        surprises.length
          ? this.told(surprises)
          : note("empty", "No fact has been added yet.", el("p", {}, el("a", { href: "#post" }, "Add facts"))),
      );
    } catch (error) {
      this.result.replaceChildren(failed(error, () => this.read()));
    }
  }

  told(surprises) {
    const rows = surprises.map((one) => [
      percent(one.chance),
      el("a", { href: toLink({ ...one, at: one.at }) }, one.subject, " ", el("em", {}, one.relation), " ", one.object),
      one.at,
      one.rank ?? "–",
      moment(one.posted_at),
    ]);
    return table("Surprises", ["Chance before", "Fact", "Time", "Rank", "Added"], rows);
  }
}

/** When a fact was posted, on this machine's clock. */
function moment(text) {
  const date = new Date(typeof text === "number" ? 1000 * text : text);
  return Number.isNaN(date.getTime())
    ? String(text)
    : el(
        "time",
        { datetime: date.toISOString() },
        date.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }),
      );
}

customElements.define("surprises-view", SurprisesView);
