/**
 * What the query of an address says: instants, dates, numbers and choices. One that says something else is a problem that
 * names it, never ignored.
 */
import { Problem } from "./api.js";
import { dayStart, instantOf, now, stepOf, zoneFor } from "./time.js";

/** How an instant may be written. */
export const INSTANT_FORMS =
  "an instant such as 2026-03-28T18:00:00Z, a day or a time in the zone shown (2026-03-28, 2026-03-28T18:00), or how far it is from now (-24h, <30m, +2d)";
/** The last instant that the calendar of the server has, and the first. */
const [FIRST, LAST] = [Date.UTC(1970, 0, 1), Date.UTC(9999, 11, 31)];

/**
 * Return an instant as it is written out, whether it was written so, as a day or a time of a zone, or as a distance from
 * now; nothing if it is none of these.
 * @param {string} text @param {string} [zone]
 */
export function readInstant(text, zone = zoneFor(null)) {
  const [, sign, span] = /^([<+-])(\d{1,5}[mhd])$/.exec(text) ?? [];
  if (span) return written(now() + (sign === "-" ? -1 : 1) * stepOf(span));
  if (isDate(text)) return written(dayStart(text, zone));
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(text)) {
    return isDate(text.slice(0, 10)) && !Number.isNaN(Date.parse(`${text}Z`)) ? instantOf(text, zone) : "";
  }
  return /^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$/.test(text) && written(Date.parse(text)) ? text : "";
}

/** @param {number} at */
function written(at) {
  return at >= FIRST && at <= LAST ? new Date(at).toISOString() : "";
}

/** Return whether a text is a day of the calendar. @param {string} text */
function isDate(text) {
  const at = Date.parse(`${text}T00:00:00Z`);
  return /^\d{4}-\d\d-\d\d$/.test(text) && Boolean(written(at)) && new Date(at).toISOString().startsWith(text);
}

/** Return the problem of an address that says something else than it can. @param {string} name @param {string} value @param {string} forms */
export function unreadable(name, value, forms) {
  return new Problem({
    status: 0,
    code: "ADDRESS",
    title: "The address asks for something that there is not",
    detail: `${name}=${value}: write ${forms}.`,
  });
}

/** Raise a problem where an address has names that a page does not know. @param {URLSearchParams} query @param {readonly string[]} known */
export function checkNames(query, known) {
  const odd = [...new Set(query.keys())].filter((name) => name !== "tenant" && !known.includes(name));
  if (!odd.length) return;
  throw new Problem({
    status: 0,
    code: "ADDRESS",
    title: "The address asks for something that there is not",
    detail: `${odd.join(", ")}: ${known.length ? `this page knows ${known.join(", ")}` : "this page has no filters"}.`,
  });
}

/** Return the instant that an address names, in milliseconds; `null` if it names none. @param {URLSearchParams} query @param {string} name @param {string} [zone] */
export function instantIn(query, name, zone) {
  const value = query.get(name);
  if (!value) return null;
  const found = readInstant(value, zone);
  if (!found) throw unreadable(name, value, INSTANT_FORMS);
  return Date.parse(found);
}

/** Return the day that an address names, as YYYY-MM-DD; `null` if it names none. @param {URLSearchParams} query @param {string} name */
export function dateIn(query, name) {
  const value = query.get(name);
  if (value && !isDate(value)) throw unreadable(name, value, "a day of the calendar, such as 2026-03-28");
  return value || null;
}

/** Return which of some words an address chooses; the first if it chooses none. @template {string} T @param {URLSearchParams} query @param {string} name @param {readonly T[]} words @param {T} [usual] @returns {T} */
export function choiceIn(query, name, words, usual = words[0]) {
  const value = query.get(name);
  if (!value) return usual;
  const found = words.find((one) => one === value);
  if (found === undefined) throw unreadable(name, value, `one of ${words.filter(Boolean).join(", ")}`);
  return found;
}
