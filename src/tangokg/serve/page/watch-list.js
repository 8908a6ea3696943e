/* The watch list: facts with a threshold, kept by this browser alone. */

const KEY = "tangokg.watch";
const same = (a, b) => a.subject === b.subject && a.relation === b.relation && a.object === b.object;

export function watched() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept : [];
  } catch {
    return []; // storage is closed or holds something else
  }
}

function keep(facts) {
  try {
    localStorage.setItem(KEY, JSON.stringify(facts));
    return true;
  } catch {
    return false;
  }
}

export const isWatched = (fact) => watched().some((one) => same(one, fact));
export const watch = (fact, threshold = 0.5) =>
  keep([...watched().filter((one) => !same(one, fact)), { ...fact, threshold }]);
export const unwatch = (fact) => keep(watched().filter((one) => !same(one, fact)));
/** Another threshold for a fact; its place in the list stays. */
export const setThreshold = (fact, threshold) =>
  keep(watched().map((one) => (same(one, fact) ? { ...one, threshold } : one)));
