/**
 * A day as marks in lanes: what was decided, what waits, what is expected, what was delivered; and which mark leads to
 * which, because what had to wait is judged again.
 */
import { part } from "./api.js";
import { whyHref } from "./parts.js";

/**
 * @typedef {object} Mark
 * @property {number} at
 * @property {string} lane
 * @property {"decided" | "waits" | "expected" | "delivery" | "other-world"} kind
 * @property {string} outcome
 * @property {string} what
 * @property {string} why in a sentence
 * @property {string[]} reasons
 * @property {string | null} href
 * @property {number | null} until the instant it was promised
 * @property {string[]} ids of what it is about: marks that share one are judgements of the same thing
 * @property {any} [item] of what waits
 */
/** @typedef {{from: Mark, to: Mark | number}} Promised a dashed line to the next judgement, or to the instant that was promised */
/** @typedef {{marks: Mark[], links: Promised[], bands: any[], fills: any[], waiting: any[], truncated: boolean, isExact: boolean}} Day */

export const LANES = /** @type {const} */ ([
  ["notifications", "Notifications"],
  ["runs", "Runs"],
  ["intents", "Intents"],
  ["automation", "Automation"],
  ["scores", "Score"],
  ["deliveries", "Deliveries"],
]);

/** @param {any[]} timelines of the person and of the account of that id @param {any[]} effects @param {{since: number, until: number}} seen @returns {Day} */
export function dayOf(timelines, effects, seen) {
  const waiting = timelines.flatMap((one) => one.waiting).sort((one, other) => one.at.localeCompare(other.at));
  const marks = [
    ...timelines.flatMap((one) => one.items.map(decided)),
    ...waiting.map(waits),
    ...timelines.flatMap((one) => one.forecast.map(expected)),
    ...effects.map(delivery),
  ].filter((one) => one.at >= seen.since && one.at < seen.until).sort((one, other) => one.at - other.at);
  return {
    marks,
    links: linksOf(marks),
    bands: timelines.flatMap((one) => one.bands),
    fills: timelines.flatMap((one) => one.fills),
    waiting,
    truncated: timelines.some((one) => one.truncated),
    isExact: timelines.every((one) => one.bands_exact),
  };
}

/** @param {any} one @returns {Mark} */
function decided(one) {
  const names = one.judged.map((/** @type {any} */ thing) => [thing.what, thing.key].filter(Boolean).join(" "));
  return {
    at: Date.parse(one.at),
    lane: one.domain,
    kind: "decided",
    outcome: one.outcome,
    what: names.length > 2 ? `${names.length} in a digest` : names.join(", ") || `${one.kind} ${one.id}`,
    why: one.explanation,
    reasons: one.reasons,
    href: whyHref(one.segment_id),
    until: ["LATER", "DEFER"].includes(one.outcome) && one.defer_until ? Date.parse(one.defer_until) : null,
    ids: one.judged.map((/** @type {any} */ thing) => `${one.kind} ${thing.key}`),
  };
}

/** @param {any} item @returns {Mark} */
export function waits(item) {
  return {
    at: Date.parse(item.at),
    lane: item.domain,
    kind: "waits",
    outcome: "waits",
    what: [item.what, item.key].filter(Boolean).join(" "),
    why: item.would_pass_at ? `It would pass at ${item.would_pass_at}.` : "",
    reasons: item.reasons,
    href: item.segment_id ? whyHref(item.segment_id) : null,
    until: null,
    ids: item.key ? [`${item.kind} ${item.key}`] : [],
    item,
  };
}

/** @param {any} one @returns {Mark} */
function expected(one) {
  return {
    at: Date.parse(one.at),
    lane: one.domain,
    kind: "expected",
    outcome: "expected",
    what: `${one.name} at ${one.value}`,
    why: "If nothing else happens.",
    reasons: [],
    href: null,
    until: null,
    ids: [],
  };
}

/** @param {any} one @returns {Mark} */
function delivery(one) {
  const tries = `${one.attempts} attempt${one.attempts === 1 ? "" : "s"}`;
  return {
    at: Date.parse(one.finished_at ?? one.next_attempt_at ?? one.created_at),
    lane: "deliveries",
    kind: "delivery",
    outcome: one.status,
    what: [one.channel, one.event_id ?? "a digest"].filter(Boolean).join(" "),
    why: one.last_error ? `${tries}: ${one.last_error}` : tries,
    reasons: [],
    href: `/console/effects/${part(one.effect_id)}`,
    until: null,
    ids: [],
  };
}

/** Return what each promise led to: the next mark of the same thing, else the instant. @param {Mark[]} marks in order of time @returns {Promised[]} */
function linksOf(marks) {
  return marks.flatMap((from, place) => {
    if (from.until === null) return [];
    const isNext = (/** @type {Mark} */ next) =>
      next.lane === from.lane && next.ids.some((id) => from.ids.includes(id));
    return [{ from, to: marks.slice(place + 1).find(isNext) ?? from.until }];
  });
}
