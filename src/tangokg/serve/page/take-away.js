/* <take-away>: the link, the same question as curl and as Python, and what is shown as CSV and JSON. */

import { hasToken } from "./api.js";
import { el } from "./dom.js";
import { run } from "./run.js";
import { toBody, toLink } from "./question.js";

const ADDRESS = `${location.origin}/api/v1/forecast`;
const COLUMNS = ["rank", "answer", "share", "chance", "base", "seen", "last"];

/** One row as CSV. A cell that a spreadsheet would run as a formula begins with an apostrophe. */
export function csvLine(cells) {
  return cells
    .map((cell) => {
      const text = String(cell ?? "");
      const harmless = typeof cell === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
      return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
    })
    .join(",");
}

export function asCsv(forecast) {
  const rows = forecast.answers.map((a) => [a.rank, a.name, a.share, a.chance, a.base, a.seen.count, a.seen.last]);
  return `${[COLUMNS, ...rows].map(csvLine).join("\r\n")}\r\n`;
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`; // for a POSIX shell

export function asCurl(question) {
  const token = hasToken() ? [`-H "Authorization: Bearer $TANGO_TOKEN"`] : [];
  const body = quoted(JSON.stringify(toBody(question)));
  return [`curl ${ADDRESS}`, `-H 'Content-Type: application/json'`, ...token, `-d ${body}`].join(" \\\n  ");
}

const literal = (value) =>
  value === null ? "None" : value === true ? "True" : value === false ? "False" : JSON.stringify(value);

/** Over HTTP with the standard library: the answer is that of this page, posted facts included. */
export function asPython(question) {
  const body = Object.entries(toBody(question))
    .map(([name, value]) => `    ${JSON.stringify(name)}: ${literal(value)},`)
    .join("\n");
  const token = hasToken() ? ', "Authorization": "Bearer " + os.environ["TANGO_TOKEN"]' : "";
  const lines = [
    "import json",
    ...(token ? ["import os"] : []),
    "import urllib.request",
    "",
    "question = {",
    body,
    "}",
    "request = urllib.request.Request(",
    `    ${JSON.stringify(ADDRESS)},`,
    "    json.dumps(question).encode(),",
    `    {"Content-Type": "application/json"${token}},`,
    ")",
    "with urllib.request.urlopen(request) as answer:",
    '    for row in json.load(answer)["answers"]:',
    '        print(row["rank"], row["name"], row["share"], row["chance"])',
  ];
  return lines.join("\n");
}

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed here; select the text instead";
  }
  setTimeout(() => {
    button.textContent = before;
  }, 1600);
}

export class TakeAway extends HTMLElement {
  show(question, forecast) {
    const link = `${location.origin}/${toLink(question)}`;
    const button = (text, onclick) => el("button", { type: "button", class: "quiet", onclick }, text);
    const file = `forecast-${run().name}`;
    const code = (title, text) =>
      el(
        "div",
        { class: "code" },
        el(
          "div",
          { class: "code-head" },
          el("h3", {}, title),
          button("Copy", (event) => copy(text, event.currentTarget)),
        ),
        el("pre", { tabindex: "0", role: "group", "aria-label": title }, el("code", {}, text)),
      );
    const open = this.querySelector("details")?.open;
    this.replaceChildren(
      el(
        "div",
        { class: "row" },
        el("a", { class: "button quiet", href: toLink(question) }, "Link to this question"),
        button("Copy link", (event) => copy(link, event.currentTarget)),
        button("CSV", () => save(`${file}.csv`, "text/csv;charset=utf-8", asCsv(forecast))),
        button("JSON", () => save(`${file}.json`, "application/json", JSON.stringify(forecast, null, 2))),
      ),
      el(
        "details",
        { open },
        el("summary", {}, "The same question in code"),
        code("curl", asCurl(question)),
        code("Python", asPython(question)),
      ),
    );
  }
}

customElements.define("take-away", TakeAway);
