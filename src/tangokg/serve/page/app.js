/* The frame of the page: which view is shown, and the token where the service asks for one. */

import { hasToken, setToken } from "./api.js";
import { latestLink } from "./ask-view.js";
import { el, failed, loading } from "./dom.js";
import "./compare-view.js";
import "./entity-view.js";
import "./likely-view.js";
import "./model-view.js";
import "./post-view.js";
import { fromQuery } from "./question.js";
import "./record-view.js";
import { readModel, run } from "./run.js";
import "./surprises-view.js";
import "./watch-view.js";
import "./what-if-view.js";
import { count } from "./words.js";

const VIEWS = [
  ["ask", "Ask", (view, query) => view.show(fromQuery(query))],
  ["likely", "Likely", (view, query) => view.show(query)],
  ["entity", "Entity", (view, query) => view.show(query.get("name") ?? "")],
  ["what-if", "What if", (view, query) => view.show(fromQuery(query))],
  ["compare", "Two runs", (view, query) => view.show(fromQuery(query))],
  ["record", "Track record", (view) => view.show()],
  ["surprises", "Surprises", (view) => view.show()],
  ["watch", "Watch list", (view) => view.show()],
  ["post", "Add facts", (view, query) => view.show(fromQuery(query))],
  ["model", "Model", (view) => view.show()],
];

const main = document.getElementById("main");
const status = document.getElementById("status");

function place() {
  const [name, query] = location.hash.slice(1).split("?", 2);
  const view = VIEWS.find((one) => one[0] === name) ?? VIEWS[0];
  return { name: view[0], title: view[1], show: view[2], query: new URLSearchParams(query ?? "") };
}

function links(current) {
  document
    .getElementById("views")
    .replaceChildren(
      ...VIEWS.filter(([name]) => name !== "compare" || run().beside).map(([name, title]) =>
        el(
          "li",
          {},
          el(
            "a",
            { href: name === "ask" ? latestLink() : `#${name}`, "aria-current": name === current ? "page" : null },
            title,
          ),
        ),
      ),
    );
}

function go(moved) {
  const { name, title, show, query } = place();
  links(name);
  document.title = `${title} · ${run().name} · tangokg`;
  let view = main.firstElementChild;
  if (view?.localName !== `${name}-view`) {
    view = document.createElement(`${name}-view`);
    main.replaceChildren(view);
    if (moved) {
      main.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }
  show(view, query);
}

function tell() {
  const { data, name } = run();
  document.getElementById("run-name").textContent = name;
  const known = `${count(data.facts, "fact")} of ${count(data.entities, "entity", "entities")}`;
  status.textContent = `${known}, ${data.first} to ${run().now}. Journal position ${run().position}.`;
}

/** Asks for the token; it is kept in memory alone. */
function askToken() {
  const field = el("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const form = el(
    "form",
    {
      class: "token",
      onsubmit: (event) => {
        event.preventDefault();
        setToken(field.value);
        start();
      },
    },
    el("h1", {}, "This service asks for a token"),
    hasToken() ? el("p", { class: "warning", role: "alert" }, "The token was not accepted.") : null,
    el("label", { for: "token" }, "Token"),
    field,
    el("p", { class: "faint" }, "It stays in memory and is gone when this page is closed."),
    el("button", { type: "submit", class: "main" }, "Open"),
  );
  main.replaceChildren(form);
  field.focus();
}

async function start() {
  main.replaceChildren(loading("Opening the run"));
  try {
    await readModel();
  } catch (error) {
    if (error.status === 401) askToken();
    else main.replaceChildren(failed(error, start));
    return;
  }
  tell();
  go(false);
}

addEventListener("hashchange", () => {
  if (run()) go(true);
});
addEventListener("facts-known", async () => {
  await readModel();
  tell();
});
start();
