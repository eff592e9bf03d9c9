/** A score: its history and its forecast on one line, and what can be done about it. */
import { previewForm } from "./actions.js";
import { get, part } from "./api.js";
import { h, put } from "./dom.js";
import { button, field, openDialog } from "./forms.js";
import { answer, facts, pageHead, section, streamHref, table, tile, whyHref } from "./parts.js";
import { pagedRows } from "./list_page.js";
import { scoreChart } from "./score_chart.js";
import { zoneLine } from "./timelines.js";
import { mayAct } from "./session.js";
import { now, recordedAt, spanText, when, zoneFor } from "./time.js";

/** @typedef {import("./router.js").View} View */

const HISTORY = 100;

/** The names that it knows in a query. @type {string[]} */
export const QUERY = [];

/** @param {View} view */
export async function show(view) {
  const id = view.params.user;
  view.title(`Score of ${id}`);
  const path = `/v1/scores/${part(id)}`;
  const [score, first] = await Promise.all([
    get(path, {}, view.signal),
    get(`${path}/history`, { limit: HISTORY }, view.signal),
  ]);
  put(
    view.main,
    pageHead(
      [h("span", { class: "soft" }, "Score of "), h("span", { class: "id" }, id)],
      [
        answer(score.game_status),
        ` · chapter ${score.chapter} · `,
        h("a", { href: streamHref("inbox", id) }, "their day"),
      ],
      ...buttons(view, score),
    ),
    tiles(score),
    lineSection(score, first.items),
    await historySection(first.items),
  );
}

/** @param {any} score */
function tiles(score) {
  return h(
    "div",
    { class: "tiles" },
    tile("Score now", score.effective_score.toFixed(2), {
      href: "#history",
      below: score.score === score.effective_score ? null : `${score.score} as recorded`,
    }),
    tile("Last interaction", score.last_interaction_at ? when(score.last_interaction_at) : "never"),
    tile("Overdue", score.hours_overdue > 0 ? spanText(score.hours_overdue * 3_600_000) : "no", {
      below: ["grace ends ", when(score.grace_ends_at)],
      tone: score.hours_overdue > 0 ? "bad" : "",
    }),
    tile(
      "Reaches the floor",
      score.forecast?.zero_at
        ? when(score.forecast.zero_at)
        : score.paused_until
        ? ["paused until ", when(score.paused_until)]
        : "not as it is",
    ),
  );
}

/** @param {any} score @param {any[]} history newest first */
function lineSection(score, history) {
  const levels = (score.forecast?.thresholds ?? []).map((/** @type {any} */ one) => ({
    at: Date.parse(one.at),
    value: one.score,
    name: one.name,
  }));
  if (score.forecast?.zero_at) levels.push({ at: Date.parse(score.forecast.zero_at), value: 0, name: "floor" });
  const past = [...history].reverse().map((one) => ({ at: Date.parse(one.timestamp), value: one.score_after }));
  const from = past[0]?.at ?? Date.parse(score.created_at);
  const to = Math.max(now() + 3_600_000, ...levels.map((/** @type {any} */ one) => one.at));
  const start = { at: now(), value: score.effective_score };
  const window = { from, to: to + (to - from) / 30, now: now(), zone: zoneFor(null) };
  const columns = [
    { name: "If nothing is done", cell: (/** @type {any} */ one) => one.name },
    { name: "Score", kind: "number measure", cell: (/** @type {any} */ one) => String(one.value) },
    { name: "At", cell: (/** @type {any} */ one) => when(new Date(one.at).toISOString()) },
  ];
  const none = h("p", { class: "soft" }, "It does not fall as it is.");
  return section(
    "Over time",
    scoreChart(past, start, levels, window),
    zoneLine(window),
    h(
      "p",
      { class: "legend" },
      h("span", null, h("span", { class: "key key-line" }), "recorded"),
      h("span", null, h("span", { class: "key key-dashed" }), "forecast"),
    ),
    table({ caption: "Forecast, soonest first", columns, rows: levels, empty: none }),
  );
}

/** @param {any[]} history */
async function historySection(history) {
  const columns = [
    { name: "When", cell: (/** @type {any} */ one) => recordedAt(one.timestamp, { seconds: true }) },
    {
      name: "What",
      cell: (/** @type {any} */ one) => h("a", { href: whyHref(one.segment_id) }, one.event_type.replaceAll("_", " ")),
    },
    { name: "From", kind: "number", cell: (/** @type {any} */ one) => one.score_before.toFixed(2) },
    { name: "To", kind: "number", cell: (/** @type {any} */ one) => one.score_after.toFixed(2) },
    { name: "Because", cell: (/** @type {any} */ one) => becauseText(one) },
  ];
  return section(
    "History",
    await pagedRows(history, 25, (rows) => table({ caption: "Changes of the score, newest first", columns, rows })),
  );
}

/** @param {any} one */
function becauseText(one) {
  const told = one.event_details;
  const crossed = told.thresholds_crossed?.length ? `; passed ${told.thresholds_crossed.join(", ")}` : "";
  if (told.decay_amount != null) return `${told.decay_amount} lost after ${told.hours_overdue} h of neglect${crossed}`;
  return told.reason ?? told.type ?? told.interaction_type ?? "";
}

/** @param {View} view @param {any} score */
function buttons(view, score) {
  if (!mayAct()) return [];
  const dialog = (/** @type {string} */ title, /** @type {(close: () => void) => Node} */ form) => () =>
    openDialog(title, form);
  return [
    button(
      "Record an interaction",
      dialog(`Interaction of ${score.user_id}`, (close) => interactionForm(view, score, close)),
    ),
    button("Adjust", dialog(`Adjust the score of ${score.user_id}`, (close) => adjustForm(view, score, close))),
    button("Change the status", dialog(`Status of ${score.user_id}`, (close) => statusForm(view, score, close))),
  ];
}

/** @param {View} view @param {any} score @param {() => void} close */
function interactionForm(view, score, close) {
  const type = /** @type {HTMLInputElement} */ (h("input", { type: "text", required: true, value: "text" }));
  return previewForm(
    close,
    [field("Type", type, "One of the interactions that the policy names.")],
    () => change(view, score, "Record an interaction of", "interactions", { type: type.value.trim() }),
  );
}

/** @param {View} view @param {any} score @param {() => void} close */
function adjustForm(view, score, close) {
  const delta =
    /** @type {HTMLInputElement} */ (h("input", { type: "number", step: "any", required: true, value: "5" }));
  const reason = /** @type {HTMLInputElement} */ (h("input", { type: "text", required: true, maxlength: "200" }));
  return previewForm(
    close,
    [field("By", delta, "Negative to take away."), field("Reason, for the ledger", reason)],
    () => change(view, score, "Adjust the score of", "adjust", { delta: Number(delta.value), reason: reason.value }),
  );
}

/** @param {View} view @param {any} score @param {() => void} close */
function statusForm(view, score, close) {
  const text = (
    /** @type {string} */ value,
  ) => /** @type {HTMLInputElement} */ (h("input", { type: "text", maxlength: "64", value }));
  const [status, chapter, reason] = [text(score.game_status), text(String(score.chapter)), text("")];
  const pause = /** @type {HTMLInputElement} */ (h("input", { type: "number", min: "0" }));
  status.required = true;
  return previewForm(close, [
    field("Status", status, "A word that the policy knows, or one of your own."),
    field("Chapter", chapter),
    field("Pause the decay for, in minutes", pause, "Left out, it goes on by the terms of the chapter."),
    field("Reason, for the ledger", reason),
  ], () =>
    change(view, score, "Change the status of", "status", {
      game_status: status.value.trim(),
      chapter: chapter.value.trim() === String(score.chapter) ? undefined : chapter.value.trim(),
      timeout_seconds: pause.value ? Math.round(Number(pause.value) * 60) : undefined,
      reason: reason.value || undefined,
    }));
}

/** @param {View} view @param {any} score @param {string} verb @param {string} path @param {unknown} body @returns {import("./actions.js").Action} */
function change(view, score, verb, path, body) {
  return {
    title: `${verb} ${score.user_id}`,
    scope: "scores:write",
    method: "POST",
    path: `/v1/scores/${part(score.user_id)}/${path}`,
    body,
    preview: (told) =>
      facts([
        ["Score before", String(score.effective_score)],
        ["Score after", String(told.body.score_after ?? told.body.score)],
        ["Status", told.body.game_status ? `${score.game_status} → ${told.body.game_status}` : null],
      ]),
    done: view.refresh,
  };
}
