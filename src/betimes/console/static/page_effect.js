/** An effect: what it is, every attempt at it, what it carries. */
import { actionButton } from "./actions.js";
import { get, part } from "./api.js";
import { h, put } from "./dom.js";
import { onChosen } from "./effect_actions.js";
import { answer, countText, facts, pageHead, section, streamLink, table, whyHref } from "./parts.js";
import { shownJson } from "./texts.js";
import { durationText, recordedAt, when } from "./time.js";

/** The names that it knows in a query. @type {string[]} */
export const QUERY = [];

/** @param {import("./router.js").View} view */
export async function show(view) {
  const id = view.params.effect;
  view.title(`Effect ${id}`);
  const effect = await get(`/v1/effects/${part(id)}`, {}, view.signal);
  const isDead = effect.status === "dead";
  const one = (/** @type {string} */ verb) => () => onChosen(view, `${verb} ${id}`, verb.toLowerCase(), [id]);
  put(
    view.main,
    pageHead(
      [h("span", { class: "soft" }, "Effect "), h("span", { class: "id" }, id)],
      [answer(effect.status), " · ", h("code", null, effect.executor), " · ", countText(effect.attempts, "attempts")],
      isDead ? actionButton("Retry", one("Retry"), { class: "primary" }) : null,
      isDead ? actionButton("Discard", one("Discard")) : null,
    ),
    effect.last_error ? section("Last error", h("p", { class: "error-text" }, effect.last_error)) : null,
    section("What it is", effectFacts(effect)),
    attemptSection(effect),
    section("What it carries", shownJson(effect.payload)),
  );
}

/** @param {any} effect */
function effectFacts(effect) {
  return facts([
    ["Kind", effect.effect_kind.replaceAll("_", " ")],
    ["Target", effect.target],
    ["Stream", [`${effect.stream.kind} `, streamLink(effect.stream.kind, effect.stream.id)]],
    ["Because of", h("a", { class: "id", href: whyHref(effect.segment_id) }, effect.segment_id)],
    ["Asked for", recordedAt(effect.created_at, { seconds: true })],
    ["Next attempt", effect.next_attempt_at ? when(effect.next_attempt_at, { seconds: true }) : null],
    ["Ended", effect.finished_at ? recordedAt(effect.finished_at, { seconds: true }) : null],
    ["Person", effect.user_id ? streamLink("inbox", effect.user_id) : null],
    ["Event", effect.event_id],
    ["Channel", effect.channel],
    ["Same executor", h("a", { href: `/console/effects?executor=${part(effect.executor)}` }, effect.executor)],
  ]);
}

/** @param {any} effect */
function attemptSection(effect) {
  const rows = effect.history.map((/** @type {any} */ one, /** @type {number} */ place) => ({ ...one, place }));
  const longest = Math.max(1, ...rows.map((/** @type {any} */ one) => one.duration_ms ?? 0));
  const columns = [
    { name: "Attempt", cell: (/** @type {any} */ one) => `${one.place + 1}` },
    { name: "When", cell: (/** @type {any} */ one) => recordedAt(one.at, { seconds: true }) },
    { name: "Outcome", cell: (/** @type {any} */ one) => answer(one.ok ? "ok" : "failed") },
    {
      name: "Took",
      cell: (/** @type {any} */ one) =>
        one.duration_ms == null ? "–" : h(
          "span",
          { class: "took" },
          h("span", { class: "took-bar", style: { "inline-size": `${(5 * one.duration_ms) / longest}rem` } }),
          durationText(one.duration_ms),
        ),
    },
    {
      name: "Error",
      kind: "text",
      cell: (/** @type {any} */ one) => h("span", { class: "error-text" }, one.error ?? ""),
    },
  ];
  const none = h("p", { class: "soft" }, "Not tried yet.");
  return section("Attempts", table({ caption: "Attempts, oldest first", columns, rows, empty: none }));
}
