/* Charts by plotly, whose script is fetched from the service when the first chart is drawn. */

import { el } from "./dom.js";

let script = null;

function plotly() {
  script ??= new Promise((done, fail) => {
    document.head.append(
      el("script", {
        src: "/page/plotly.min.js",
        onload: () => done(window.Plotly),
        onerror: () => {
          script = null;
          fail(new Error("The chart's script could not be loaded."));
        },
      }),
    );
  });
  return script;
}

/** A colour of the page, as it is now: light or dark. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function layout(more) {
  const axis = {
    gridcolor: colour("line"),
    linecolor: colour("line"),
    zeroline: false,
    fixedrange: true,
    automargin: true,
    tickfont: { color: colour("muted") },
  };
  return {
    autosize: true,
    showlegend: false,
    margin: { l: 44, r: 14, t: 12, b: 34 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12.5, color: colour("ink") },
    hoverlabel: { bgcolor: colour("surface"), font: { color: colour("ink") } },
    ...more,
    xaxis: { ...axis, ...more.xaxis },
    yaxis: { ...axis, ...more.yaxis },
  };
}

/** <plot-box>: draws what `make` returns ({traces, layout}), and again when light turns to dark. */
export class PlotBox extends HTMLElement {
  connectedCallback() {
    this.dark ??= matchMedia("(prefers-color-scheme: dark)");
    this.again ??= () => this.draw();
    this.dark.addEventListener("change", this.again);
  }

  disconnectedCallback() {
    this.dark.removeEventListener("change", this.again);
    if (this.plot) window.Plotly.purge(this.plot);
    this.plot = null;
  }

  /** `label` says in words what the chart shows, for those who do not see it. */
  async show(label, make) {
    this.setAttribute("role", "img");
    this.setAttribute("aria-label", label);
    this.make = make;
    await this.draw();
  }

  async draw() {
    if (!this.make) return;
    try {
      const library = await plotly();
      if (!this.isConnected) return;
      if (!this.plot) this.replaceChildren((this.plot = el("div", { class: "plot" })));
      const { traces, layout: own } = this.make();
      await library.react(this.plot, traces, layout(own), { displayModeBar: false, responsive: true });
    } catch (error) {
      this.replaceChildren(el("p", { class: "faint" }, error.message));
    }
  }
}

customElements.define("plot-box", PlotBox);
