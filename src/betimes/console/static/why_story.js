/**
 * The story of a segment: what caused it, every judgement of the same thing, what it asked for, what it led to and what
 * else was done under its correlation, such as the notification that an intent's fire sent; once from left to right, and
 * once as a list in the order of time.
 */
import { get, part } from "./api.js";
import { h, put } from "./dom.js";
import { answer, answerClass, section, table, whyHref } from "./parts.js";
import { when } from "./time.js";
import { words } from "./why_events.js";

const SHOWN_MAX = 4;
const LISTED_MAX = 50;
/** Segments of its correlation that are looked at. */
const RELATED_MAX = 30;

/**
 * @typedef {object} Step
 * @property {string} part of the story
 * @property {string} text
 * @property {string | null} href
 * @property {string | null} at
 * @property {string} [outcome]
 * @property {string} [more]
 * @property {boolean} [isThis]
 */

/** @param {any} told @param {string | null} theirs @param {AbortSignal} signal */
export function storySection(told, theirs, signal) {
  const box = h("div");
  const show = (/** @type {any[]} */ related) => put(box, ...storyParts(columnsOf(told, related), theirs));
  show([]);
  if (told.correlation_id) {
    const query = { correlation_id: told.correlation_id, limit: RELATED_MAX };
    get("/v1/ledger", query, signal).then((page) => page.items.length > 1 && show(page.items)).catch(() => {}); // the page has a link to them
  }
  return section("Story", box);
}

/** @param {[string, Step[]][]} columns @param {string | null} theirs */
function storyParts(columns, theirs) {
  const steps = columns.flatMap(([, found]) => found);
  if (steps.length < 2) {
    return [h("p", { class: "soft" }, "It stands alone: nothing caused it, and it led to nothing yet.")];
  }
  return [
    h(
      "ol",
      { class: "story" },
      columns.map(([title, found]) =>
        h(
          "li",
          null,
          h("p", { class: "story-title" }, title),
          found.slice(0, SHOWN_MAX).map((one) => node(one, theirs)),
          found.length > SHOWN_MAX ? h("p", { class: "soft" }, `and ${found.length - SHOWN_MAX} more, below`) : null,
        )
      ),
    ),
    h(
      "details",
      null,
      h("summary", null, "The same as a list"),
      table({
        caption: "The story as a list",
        columns: [
          { name: "Part", cell: (one) => one.part },
          { name: "What", cell: (one) => one.href ? h("a", { class: "id", href: one.href }, one.text) : one.text },
          { name: "When", cell: (one) => when(one.at, { theirs, seconds: true }) },
          { name: "Answer", cell: (one) => one.outcome ? answer(one.outcome) : null },
          { name: "", cell: (one) => one.more ?? null },
        ],
        rows: steps.slice(0, LISTED_MAX),
      }),
    ),
  ];
}

/** @param {Step} one @param {string | null} theirs */
function node(one, theirs) {
  const inside = [
    one.outcome ? answer(one.outcome) : null,
    h("span", { class: "id" }, one.text),
    one.at ? h("span", { class: "soft" }, when(one.at, { theirs, relative: false })) : null,
    one.more ? h("span", { class: "soft" }, one.more) : null,
  ];
  const tone = one.outcome ? answerClass(one.outcome) : "other";
  if (one.isThis) return h("div", { class: `story-node this ${tone}`, "aria-current": "true" }, inside);
  return one.href
    ? h("a", { class: `story-node ${tone}`, href: one.href }, inside)
    : h("div", { class: `story-node ${tone}` }, inside);
}

/** @param {any} told @param {any[]} related segments of its correlation @returns {[string, Step[]][]} */
function columnsOf(told, related) {
  const judged = told.judgements.map(judgement);
  const place = told.judgements.findIndex((/** @type {any} */ one) => one.segment_id === told.segment_id);
  const self = {
    part: "this",
    text: told.segment_id,
    href: null,
    at: told.at,
    outcome: told.verdict?.outcome,
    more: told.verdict ? undefined : nameOf(told),
    isThis: true,
  };
  const relatives = new Map(related.map((one) => [one.segment_id, one]));
  const consequence = (/** @type {string} */ id) => {
    const found = relatives.get(id);
    return found ? { ...relative(found), part: "led to" } : segment("led to", id);
  };
  const origin = (/** @type {string} */ id) => {
    const found = relatives.get(id);
    return found ? { ...relative(found), part: "cause" } : segment("cause", id);
  };
  const known = new Set([
    told.segment_id,
    told.caused_by?.segment_id,
    ...told.caused,
    ...told.judgements.map((/** @type {any} */ one) => one.segment_id),
  ]);
  return /** @type {[string, Step[]][]} */ ([
    ["Came from", told.caused_by ? [origin(told.caused_by.segment_id)] : []],
    ["Judged before", place > 0 ? judged.slice(0, place) : []],
    ["This", [self]],
    ["Led to", [...told.effects.map(effect), ...told.caused.map(consequence)]],
    ["Judged again", place >= 0 ? judged.slice(place + 1) : []],
    ["Of the same correlation", related.filter((one) => !known.has(one.segment_id)).map(relative)],
  ]).filter(([, steps]) => steps.length);
}

/** @param {any} one @returns {Step} */
function judgement(one) {
  return {
    part: "judgement",
    text: one.segment_id,
    href: whyHref(one.segment_id),
    at: one.at,
    outcome: one.outcome,
    more: one.reasons.at(-1),
  };
}

/** Return in words what a segment holds. @param {any} one */
function nameOf(one) {
  const type = one.command?.type ?? one.events[0]?.type;
  return type && words(type);
}

/** @param {any} one a segment of the ledger @returns {Step} */
function relative(one) {
  return {
    part: "correlation",
    text: one.segment_id,
    href: whyHref(one.segment_id),
    at: one.at,
    outcome: one.verdict?.outcome,
    more: one.verdict?.reasons.at(-1) ?? nameOf(one),
  };
}

/** @param {string} name @param {string} id @returns {Step} */
function segment(name, id) {
  return { part: name, text: id, href: whyHref(id), at: null };
}

/** @param {any} one @returns {Step} */
function effect(one) {
  const tries = one.attempts ? `${one.attempts} attempt${one.attempts === 1 ? "" : "s"}` : "not tried yet";
  return {
    part: "effect",
    text: one.channel ? `${one.channel} to ${one.user_id}` : one.executor || one.target,
    href: `/console/effects/${part(one.effect_id)}`,
    at: one.finished_at ?? one.next_attempt_at ?? one.created_at,
    outcome: one.status,
    more: one.last_error ? `${tries}: ${one.last_error}` : tries,
  };
}
