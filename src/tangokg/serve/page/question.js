/* A question, its link, and its form for the service. */

/** {subject, relation, object, at, by}: texts, empty for what is asked for; with `by` a span ends at `at`. */
export function fromQuery(query) {
  const text = (name) => query.get(name) ?? "";
  return {
    subject: text("subject"),
    relation: text("relation"),
    object: text("object"),
    at: text("at"),
    by: query.has("by"),
  };
}

export function toLink(question, view = "ask") {
  const query = new URLSearchParams();
  for (const name of ["subject", "relation", "object", "at"]) if (question[name]) query.set(name, question[name]);
  if (question.by) query.set("by", "1");
  return `#${view}?${query}`;
}

/** What is missing before the service can be asked, or null. */
export function missing(question) {
  const { subject, relation, object } = question;
  if (!relation && !(subject && object))
    return subject || object
      ? "Choose a relation; it may be left open only between two names."
      : "Name a subject and a relation.";
  if (!subject && !object) return "Name a subject or an object.";
  if (!question.at) return "Say for which time.";
  return null;
}

/** The body of POST /forecast. */
export function toBody(question, more = {}) {
  const time = question.by ? { by: question.at } : { at: question.at };
  return {
    subject: question.subject || null,
    relation: question.relation || null,
    object: question.object || null,
    ...time,
    top: 10,
    ...more,
  };
}

/** What is asked for: "subject", "relation", "object", or "fact" for yes and no. */
export const asked = (question) => ["subject", "relation", "object"].find((role) => !question[role]) ?? "fact";

/** The fact that an answer stands for. */
export function factOf(question, answer) {
  const { subject, relation, object } = question;
  return { subject: subject || answer.name, relation: relation || answer.name, object: object || answer.name };
}

/** The question as people would say it. */
export function spoken(question) {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(question.at) ? "on" : "at";
  const when = `${question.by ? "at least once by" : at} ${question.at}`;
  if (!question.relation) return `What is there between ${question.subject} and ${question.object}, ${when}?`;
  return `${question.subject || "Who or what"} ${question.relation} ${question.object || "whom or what"}, ${when}?`;
}
