/* <near-graph>: an entity in the centre and those it has facts with; edges formed and dissolved lately are marked. */

import { get } from "./api.js";
import { el, failed, loading, svg } from "./dom.js";
import { count } from "./words.js";

const HEIGHT = 330;
const LETTER = 7; // about the width of one
const KINDS = {
  formed: { mark: "+", words: "formed lately" },
  dissolved: { mark: "×", words: "dissolved" },
  steady: { mark: "", words: "steady" },
};

const kindOf = (neighbour) => (neighbour.dissolved ? "dissolved" : neighbour.formed ? "formed" : "steady");
const short = (name, room) =>
  name.length * LETTER > room ? `${name.slice(0, Math.max(1, Math.floor(room / LETTER) - 1))}…` : name;

export class NearGraph extends HTMLElement {
  async show(entity) {
    if (entity === this.entity && this.querySelector("svg")) return;
    this.call?.abort();
    this.call = new AbortController();
    if (!this.childElementCount) this.replaceChildren(loading("Reading neighbours"));
    try {
      const { neighbours } = await get("/neighbourhood", { entity, limit: 10 }, this.call.signal);
      this.entity = entity;
      this.replaceChildren(
        ...(neighbours.length
          ? [this.drawn(entity, neighbours), this.legend()]
          : [el("p", { class: "faint" }, `${entity} has no facts yet.`)]),
      );
    } catch (error) {
      if (error.name !== "AbortError") this.replaceChildren(failed(error));
    }
  }

  /** Half of the neighbours on either side, on an ellipse, so that their names have room. */
  drawn(entity, neighbours) {
    const width = Math.max(300, Math.min(560, this.clientWidth || 560)); // letters keep their size on a phone
    const radius = 0.165 * width;
    this.width = width;
    this.name = short(entity, width / 2);
    this.pill = 24 + 7.6 * this.name.length; // how wide the centre is
    const half = Math.ceil(neighbours.length / 2);
    const most = Math.max(...neighbours.map((one) => one.facts));
    const spokes = neighbours.map((one, i) => {
      const right = i < half;
      const [place, many] = right ? [i, half] : [i - half, neighbours.length - half];
      const angle = (Math.PI * (place + 0.5)) / many - Math.PI / 2;
      const level = Math.abs(Math.sin(angle)) < 0.1; // beside the centre, which must not cover it
      const out = level ? Math.max(radius, this.pill / 2 + 30) : radius * Math.cos(angle);
      return {
        one,
        right,
        x: width / 2 + (right ? out : -out),
        y: HEIGHT / 2 + (HEIGHT / 2 - 22) * Math.sin(angle),
        room: width / 2 - out - 12,
        marked: level ? 1 - 15 / out : 0.58, // where on the edge its mark stands
        wide: 1 + (3 * one.facts) / most,
      };
    });
    return svg(
      "svg",
      { viewBox: `0 0 ${width} ${HEIGHT}`, class: "near", role: "group", "aria-label": `Neighbours of ${entity}` },
      spokes.map((spoke) => this.edge(spoke)),
      spokes.map((spoke) => this.node(spoke)),
      this.centre(),
    );
  }

  centre() {
    const width = this.pill;
    return svg(
      "g",
      { class: "near-centre" },
      svg("rect", { x: (this.width - width) / 2, y: HEIGHT / 2 - 15, width, height: 30, rx: 15 }),
      svg("text", { x: this.width / 2, y: HEIGHT / 2 + 5, "text-anchor": "middle" }, this.name),
    );
  }

  edge({ one, x, y, wide, marked }) {
    const kind = kindOf(one);
    const [mx, my] = [this.width, HEIGHT].map((size, i) => ((1 - marked) * size) / 2 + marked * [x, y][i]);
    const mark = KINDS[kind].mark;
    return svg(
      "g",
      { class: `edge edge-${kind}` },
      svg("line", { x1: this.width / 2, y1: HEIGHT / 2, x2: x, y2: y, "stroke-width": wide }),
      mark ? svg("circle", { cx: mx, cy: my, r: 8 }) : null,
      mark ? svg("text", { x: mx, y: my + 4.5, "text-anchor": "middle" }, mark) : null,
    );
  }

  node({ one, right, x, y, room }) {
    const words = `${one.name}: ${count(one.facts, "fact")}, last ${one.last}, ${KINDS[kindOf(one)].words}`;
    return svg(
      "a",
      { href: `#entity?name=${encodeURIComponent(one.name)}`, "aria-label": words },
      svg("title", {}, `${words}\n${one.relations.join(", ")}`),
      svg("circle", { cx: x, cy: y, r: 5 }),
      svg(
        "text",
        { x: x + (right ? 11 : -11), y: y + 4.5, "text-anchor": right ? "start" : "end" },
        short(one.name, room),
      ),
    );
  }

  legend() {
    const entries = Object.entries(KINDS).map(([kind, { mark, words }]) =>
      el(
        "li",
        {},
        svg(
          "svg",
          { viewBox: "0 0 34 18", class: "near", "aria-hidden": "true" },
          svg(
            "g",
            { class: `edge edge-${kind}` },
            svg("line", { x1: 0, y1: 9, x2: 34, y2: 9, "stroke-width": 2 }),
            mark ? svg("circle", { cx: 17, cy: 9, r: 8 }) : null,
            mark ? svg("text", { x: 17, y: 13.5, "text-anchor": "middle" }, mark) : null,
          ),
        ),
        words,
      ),
    );
    return el("ul", { class: "legend" }, entries, el("li", {}, "thicker: more facts"));
  }
}

customElements.define("near-graph", NearGraph);
