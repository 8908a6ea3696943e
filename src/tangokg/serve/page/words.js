/* Numbers and facts as people read them. */

/** 0.944 -> "94 %"; near 0 and 1 one more digit is told, so that nothing looks certain that is not. */
export function percent(value) {
  if (value === null || value === undefined) return "–";
  const hundred = 100 * value;
  if (hundred <= 0 || hundred >= 100) return `${hundred <= 0 ? 0 : 100}\u00a0%`;
  if (hundred < 0.1) return "<\u00a00.1\u00a0%";
  if (hundred > 99.9) return ">\u00a099.9\u00a0%";
  return `${hundred.toFixed(hundred < 9.95 || hundred >= 99 ? 1 : 0)}\u00a0%`;
}

export const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

export const often = (seen) =>
  seen.count ? `seen ${seen.count === 1 ? "once" : count(seen.count, "time")}, last ${seen.last}` : "never seen before";

export const sentence = (fact) =>
  `${fact.subject} ${fact.relation} ${fact.object}${fact.at === undefined ? "" : `, ${fact.at}`}`;

/** A quality such as MRR, which the service tells in per cent: 81.33 -> "81.3 %". */
export const quality = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(1)}\u00a0%`);

/** A warning of the library, which names what to type elsewhere, with the name of the choice on this page. */
export function onPage(warning) {
  const text = warning.replace("--by (in Python by=)", "“At least once by then”").replace(/ `[^`]*` measures it\.$/, "");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
