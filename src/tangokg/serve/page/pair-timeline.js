/* <pair-timeline>: when a pair had facts, one row for each relation, and the latest of them in words. */

import { get } from "./api.js";
import { el, failed, loading, svg, table } from "./dom.js";
import { run, unit } from "./run.js";
import { toSteps } from "./times.js";
import { count } from "./words.js";

const [ROW, LEFT] = [34, 2];
const MOST = 1000; // facts that are read
const ROWS = 6; // relations that are drawn

export class PairTimeline extends HTMLElement {
  async show({ subject, relation, object }) {
    this.call?.abort();
    this.call = new AbortController();
    if (!this.childElementCount) this.replaceChildren(loading("Reading facts"));
    try {
      const { facts, total } = await get("/facts", { entity: subject, other: object, limit: MOST }, this.call.signal);
      this.replaceChildren(
        ...(facts.length
          ? this.drawn(facts, total, relation)
          : [el("p", { class: "faint" }, `${subject} and ${object} have no fact together yet.`)]),
      );
    } catch (error) {
      if (error.name !== "AbortError") this.replaceChildren(failed(error));
    }
  }

  drawn(facts, total, asked) {
    const rows = Map.groupBy ? Map.groupBy(facts, (fact) => fact.relation) : group(facts);
    const order = [...rows.keys()]
      .sort((a, b) => (b === asked) - (a === asked) || rows.get(b).length - rows.get(a).length)
      .slice(0, ROWS);
    const first = Math.min(toSteps(run().data.first, unit()), toSteps(facts.at(-1).at, unit()));
    const last = Math.max(toSteps(run().now, unit()), toSteps(facts[0].at, unit()));
    const right = Math.max(300, Math.min(560, this.clientWidth || 560)) - LEFT; // letters keep their size on a phone
    const x = (time) => LEFT + ((right - LEFT) * (toSteps(time, unit()) - first)) / Math.max(last - first, 1);
    const height = ROW * order.length + 22;
    const words = order
      .map((name) => `${name}: ${count(rows.get(name).length, "fact")}, last ${rows.get(name)[0].at}`)
      .join("; ");
    const drawing = svg(
      "svg",
      {
        viewBox: `0 0 ${right + LEFT} ${height}`,
        class: "timeline",
        role: "img",
        "aria-label": `Facts of the pair. ${words}.`,
      },
      order.map((name, i) => this.line(name, rows.get(name), ROW * i, x, right, name === asked)),
      svg("text", { x: LEFT, y: height - 5 }, run().data.first),
      svg("text", { x: right, y: height - 5, "text-anchor": "end" }, run().now),
    );
    const cells = facts.slice(0, 20).map((fact) => [fact.at, fact.subject, fact.relation, fact.object]);
    return [
      drawing,
      el(
        "details",
        {},
        el("summary", {}, total > 20 ? `The latest 20 of ${total.toLocaleString("en")} facts` : count(total, "fact")),
        table("Facts of the pair", ["Time", "Subject", "Relation", "Object"], cells),
      ),
    ];
  }

  line(name, facts, top, x, right, strong) {
    const y = top + 24;
    const ticks = facts.map((fact) =>
      svg(
        "line",
        { x1: x(fact.at), x2: x(fact.at), y1: y - 6, y2: y + 6, class: strong ? "tick tick-asked" : "tick" },
        svg("title", {}, `${fact.subject} ${name} ${fact.object}, ${fact.at}`),
      ),
    );
    return svg(
      "g",
      {},
      svg(
        "text",
        { x: LEFT, y: top + 13, class: strong ? "row-asked" : "" },
        `${name} (${facts.length.toLocaleString("en")})`,
      ),
      svg("line", { x1: LEFT, x2: right, y1: y, y2: y, class: "axis" }),
      ticks,
    );
  }
}

function group(facts) {
  const rows = new Map();
  for (const fact of facts) rows.set(fact.relation, [...(rows.get(fact.relation) ?? []), fact]);
  return rows;
}

customElements.define("pair-timeline", PairTimeline);
