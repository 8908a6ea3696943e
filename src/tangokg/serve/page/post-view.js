/* <post-view>: adds facts to what the run knows. The token stays in memory. */

import { hasToken, post, setToken } from "./api.js";
import { el, failed, loading, note, table } from "./dom.js";
import { FactForm } from "./fact-form.js";
import { toLink } from "./question.js";
import { run, timeAt } from "./run.js";
import { count, percent } from "./words.js";

/** Facts from lines of "subject, relation, object, time"; cells may be quoted. */
export function factsFrom(text) {
  return text
    .split(/\r?\n/)
    .map((line, i) => [line.trim(), i + 1])
    .filter(([line]) => line !== "")
    .map(([line, number]) => {
      const cells = [...line.matchAll(/\s*(?:"((?:[^"]|"")*)"|([^,]*))\s*(?:,|$)/g)].map(([, quoted, plain]) =>
        (quoted?.replaceAll('""', '"') ?? plain).trim(),
      );
      const [subject, relation, object, at] = cells;
      if (!at) throw new Error(`Line ${number} does not have four cells: write subject, relation, object, time.`);
      return { subject, relation, object, at };
    });
}

export class PostView extends HTMLElement {
  show(fact) {
    this.form = FactForm.make();
    if (fact.subject || fact.relation) this.form.fact = fact;
    this.many = el("textarea", {
      id: "many",
      rows: "5",
      spellcheck: "false",
      placeholder: "subject, relation, object, time",
    });
    this.token = el("input", {
      id: "write-token",
      type: "password",
      autocomplete: "off",
      "aria-describedby": "token-note",
      oninput: () => setToken(this.token.value),
    });
    this.result = el("div", { "aria-live": "polite" });
    const open = run().write && !hasToken(); // this service takes facts from here without a token
    const held = hasToken()
      ? "One is in memory; another one replaces it."
      : "New facts need a token that may write. It is kept in memory alone.";
    this.replaceChildren(
      el("h1", {}, "Add facts"),
      el(
        "p",
        { class: "lead" },
        "Each batch is first scored against what the model would have said, then applied: forecasts change at once, " +
          "weights do not.",
      ),
      el(
        "form",
        {
          class: "panel",
          onsubmit: (event) => {
            event.preventDefault();
            this.send();
          },
        },
        this.form,
        el(
          "details",
          {},
          el("summary", {}, "Several facts at once"),
          el("label", { for: "many" }, "One fact a line; these are added instead of the one above"),
          this.many,
        ),
        open
          ? null
          : el(
              "div",
              {},
              el("label", { for: "write-token" }, "Token"),
              this.token,
              el("p", { class: "faint", id: "token-note" }, held),
            ),
        el("button", { type: "submit", class: "main" }, "Add"),
      ),
      this.result,
    );
  }

  async send() {
    let facts;
    try {
      facts = this.many.value.trim() ? factsFrom(this.many.value) : [this.form.fact].filter(Boolean);
    } catch (error) {
      return this.result.replaceChildren(failed(error));
    }
    if (!facts.length)
      return this.result.replaceChildren(note("empty", "A fact needs a subject, a relation, an object and a time."));
    this.result.replaceChildren(loading("Adding"));
    const body = JSON.stringify(facts);
    if (body !== this.body) [this.body, this.key] = [body, newKey()]; // sent twice, a batch counts once
    try {
      const answer = await post("/facts", { facts }, { "Idempotency-Key": this.key });
      this.body = null;
      this.result.replaceChildren(this.told(answer, facts));
      return dispatchEvent(new Event("facts-known"));
    } catch (error) {
      const told =
        error.status === 401 || error.status === 403
          ? Object.assign(error, { hint: "Enter a token that may write in the field above." })
          : error;
      return this.result.replaceChildren(failed(told));
    }
  }

  told(answer, facts) {
    const known = answer.known ? `, ${answer.known} already known` : "";
    const [{ subject, relation, at }] = facts;
    const rows = (answer.surprise ?? []).map((one) => [
      one.subject,
      one.relation,
      one.object,
      one.at,
      one.rank ?? "–",
      percent(one.chance),
    ]);
    return el(
      "section",
      { class: "panel", "aria-label": "What was added" },
      el("h2", {}, `${count(answer.added, "fact")} added${known}`),
      el("p", {}, `The journal is at position ${answer.position}.`),
      rows.length
        ? table("What the model expected", ["Subject", "Relation", "Object", "Time", "Rank", "Chance before"], rows)
        : "",
      answer.new_names?.length
        ? el(
            "p",
            { class: "warning" },
            `New names: ${answer.new_names.join(", ")}. Facts with a new name are not scored.`,
          )
        : "",
      el(
        "p",
        { class: "links" },
        el(
          "a",
          { href: toLink({ subject, relation, object: "", at: at < run().now ? timeAt(1) : "" }) },
          `${subject} ${relation} whom or what next?`,
        ),
        el("a", { href: "#record" }, "Track record"),
      ),
    );
  }
}

const newKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

customElements.define("post-view", PostView);
