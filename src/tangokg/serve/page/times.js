/* Times in the data's own form: whole numbers, years, quarters, months, dates, or dates with a time of day. */

const MONTHS = { month: 1, quarter: 3, year: 12 };
const SECONDS = { second: 1, minute: 60, hour: 3600, day: 86400, week: 604800 };
const two = (n) => String(n).padStart(2, "0");

/** Months since the year 0 of a year, quarter, month or date. */
function toMonths(text) {
  const [, year, quarter, month] = /^(\d{4})(?:-Q([1-4])|-(\d{2}))?/.exec(text) ?? [];
  if (year === undefined) return NaN;
  return 12 * Number(year) + (quarter ? 3 * (Number(quarter) - 1) : Number(month ?? 1) - 1);
}

/** Seconds since 1970 of a date, with or without a time of day. */
function toSeconds(text) {
  const dated = /^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00:00Z` : /[Z+]|T.*-/.test(text) ? text : `${text}Z`;
  return Date.parse(dated) / 1000;
}

/** Steps of `unit` since a fixed origin; NaN where the text is no time. */
export function toSteps(time, unit) {
  const text = String(time ?? "").trim();
  if (text === "") return NaN;
  if (!/-/.test(text.slice(1)) && !(unit in MONTHS && /^\d{4}/.test(text))) return Number(text);
  return unit in MONTHS ? toMonths(text) / MONTHS[unit] : toSeconds(text) / (SECONDS[unit] ?? NaN);
}

/** The time `n` steps after `time`, in the same form. */
export function addSteps(time, n, unit) {
  const text = String(time);
  if (!/-/.test(text.slice(1)) && !(unit in MONTHS)) return String(Number(text) + n);
  if (unit in MONTHS) return fromMonths(toMonths(text) + n * MONTHS[unit], text);
  const moment = new Date(1000 * (toSeconds(text) + n * SECONDS[unit])).toISOString();
  if (/^\d{4}-\d{2}-\d{2}$/.test(text)) return moment.slice(0, 10);
  return moment.slice(0, 19) + (/(Z|\+00:00)$/.exec(text)?.[0] ?? "");
}

function fromMonths(months, like) {
  const year = Math.floor(months / 12);
  const month = months - 12 * year;
  if (/-Q/.test(like)) return `${year}-Q${Math.floor(month / 3) + 1}`;
  if (/^\d{4}$/.test(like)) return String(year);
  return `${year}-${two(month + 1)}${like.length > 7 ? "-01" : ""}`;
}

/** "3 days after the last fact", "the time of the last fact" or "2 days before the last fact". */
export function distance(time, now, unit) {
  const n = Math.round(toSteps(time, unit) - toSteps(now, unit));
  if (Number.isNaN(n)) return "";
  if (n === 0) return "the time of the last fact";
  const size = Math.abs(n);
  return `${size} ${unit}${size === 1 ? "" : "s"} ${n > 0 ? "after" : "before"} the last fact`;
}
