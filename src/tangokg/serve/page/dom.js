/* Elements made from data. Text is always set as text: nothing a service sends is read as HTML. */

const SVG = "http://www.w3.org/2000/svg";

/** Sets attributes, properties (`value`, `checked`, ...) and listeners (`onclick`) of an element. */
function fill(element, settings, children) {
  for (const [name, value] of Object.entries(settings)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const el = (tag, settings = {}, ...children) => fill(document.createElement(tag), settings, children);
export const svg = (tag, settings = {}, ...children) => fill(document.createElementNS(SVG, tag), settings, children);

let last = 0;
/** An id that no other element of the page has. */
export const freshId = (prefix) => `${prefix}-${++last}`;

/** A note in place of content: kind is "loading", "empty" or "failed". */
export function note(kind, title, ...more) {
  return el(
    "div",
    { class: `note note-${kind}`, role: kind === "failed" ? "alert" : "status" },
    el("p", { class: "note-title" }, title),
    ...more,
  );
}

export const loading = (what = "Loading") => note("loading", `${what} …`);

/** What went wrong, as the service says it, with its hint and a way to try again. */
export function failed(error, again = null) {
  const hint = error.hint ? el("p", {}, Array.isArray(error.hint) ? error.hint.join(", ") : error.hint) : null;
  const button = again ? el("button", { type: "button", onclick: again }, "Try again") : null;
  return note("failed", error.message, hint, button);
}

/** A panel with a heading. */
export function panel(title, ...children) {
  const id = freshId("panel");
  return el("section", { class: "panel", "aria-labelledby": id }, el("h2", { id }, title), ...children);
}

/** A table that scrolls inside itself on a narrow screen. */
export function table(caption, heads, rows) {
  const head = el(
    "tr",
    {},
    heads.map((text) => el("th", { scope: "col" }, text)),
  );
  const one = (cell) => el("td", { class: /^[\d:T+-]+$/.test(cell) ? "whole" : null }, cell ?? "–"); // dates stay whole
  const body = rows.map((cells) => el("tr", {}, cells.map(one)));
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    el("table", {}, el("caption", { class: "hidden" }, caption), el("thead", {}, head), el("tbody", {}, body)),
  );
}
