/* Calls to the service this page came from. The token stays in memory and is gone when the page is closed. */

const ROOT = "/api/v1";
let token = "";

export class ServiceError extends Error {
  constructor(status, message, hint = null) {
    super(message);
    this.status = status;
    this.hint = hint;
  }
}

export const setToken = (text) => {
  token = text.trim();
};
export const hasToken = () => token !== "";

const headers = (more = {}) => (token ? { ...more, Authorization: `Bearer ${token}` } : more);

async function call(path, options) {
  let response;
  try {
    response = await fetch(ROOT + path, { ...options, headers: headers(options.headers) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(
      0,
      "The service does not answer.",
      "Check that it is running and reachable, then try again.",
    );
  }
  const body = await response.json().catch(() => null);
  if (response.ok && body !== null) return body;
  const told = body?.error ?? {};
  const wait = response.headers.get("Retry-After");
  const hint = told.hint ?? (wait ? `Try again in ${wait} s.` : null);
  throw new ServiceError(response.status, told.message ?? `The service answered with status ${response.status}.`, hint);
}

/** GET with a query; empty values are left out. */
export function get(path, query = {}, signal = undefined) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given).toString();
  return call(text ? `${path}?${text}` : path, { signal });
}

/** POST of JSON. */
export function post(path, body, more = {}, signal = undefined) {
  return call(path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", ...more },
    signal,
  });
}

/** The names nearest to a text, best first. */
export async function names(kind, text, limit = 8, signal = undefined) {
  return (await get("/names", { q: text, kind, limit }, signal)).names;
}

/** The data of one block of a stream of server-sent events, or null for a comment. */
export function eventData(block) {
  const lines = block.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return lines.length ? JSON.parse(lines.map((line) => line.slice(5).trim()).join("\n")) : null;
}

/**
 * Reads the service's events until `signal` is aborted, and connects again after a break.
 * EventSource is not used: it cannot carry a token.
 */
export async function listen(receive, state, signal) {
  while (!signal.aborted) {
    try {
      const response = await fetch(`${ROOT}/events`, { headers: headers({ Accept: "text/event-stream" }), signal });
      if (!response.ok) throw new ServiceError(response.status, "no events");
      state(true);
      await readBlocks(response.body.pipeThrough(new TextDecoderStream()).getReader(), receive);
    } catch {
      if (signal.aborted) return;
    }
    state(false);
    await new Promise((done) => {
      setTimeout(done, 3000);
    });
  }
}

async function readBlocks(reader, receive) {
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const event of blocks.map(eventData)) if (event) receive(event);
  }
}
