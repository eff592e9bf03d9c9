/** An intent: its condition, when it is looked at, what came of it each time. */
import { previewForm } from "./actions.js";
import { get, part } from "./api.js";
import {
  cursorMoves,
  deleteButton,
  ofStatus,
  statusCounts,
  statusHref,
  switchButton,
  versionSection,
} from "./definition_parts.js";
import { h, put } from "./dom.js";
import { button, field, openDialog, select } from "./forms.js";
import { cooldownEnd, nextLook, watchText } from "./page_intents.js";
import { answer, answerClass, facts, figure, pageHead, section, streamLink, table, tile, whyHref } from "./parts.js";
import { pagedRows } from "./list_page.js";
import { go } from "./router.js";
import { wordOf } from "./server.js";
import { mayAct } from "./session.js";
import { personalText, shownJson } from "./texts.js";
import { durationText, fullText, recordedAt, spanText, when, zoneFor } from "./time.js";
import { laneTimeline, pastWindow, zoneLine } from "./timelines.js";

/** @typedef {import("./router.js").View} View */

/** What a check may come to. */
const FIRES = ["success", "condition_not_met", "gate_blocked", "failed"];
/** How many checks are drawn, and how many of them the table shows at first. */
const [CHECKS, ROWS] = [100, 30];

/** The names that it knows in a query. @type {string[]} */
export const QUERY = ["cursor", "status"];

/** @param {View} view */
export async function show(view) {
  const id = view.params.intent;
  view.title(`Intent ${id}`);
  const path = `/v1/intents/${part(id)}`;
  const [intent, first, versions] = await Promise.all([
    get(path, {}, view.signal),
    get(`${path}/history`, { limit: CHECKS, cursor: view.query.get("cursor") }, view.signal),
    versionSection(view, "intent", id, "Intent", (found) => found.schedule.timezone),
  ]);
  const theirs = intent.schedule.timezone;
  const next = intent.next_check
    ? h("p", null, "It would be looked at next ", when(nextLook(intent), { theirs }), ".")
    : null;
  put(
    view.main,
    pageHead(
      [h("span", { class: "soft" }, "Intent "), h("span", { class: "id" }, id)],
      [
        answer(intent.enabled ? "active" : "paused"),
        " · of ",
        streamLink("inbox", intent.user_id),
        " · ",
        watchText(intent),
      ],
      switchButton(view, {
        path: "/v1/intents",
        id,
        scope: "intents:write",
        isOn: intent.enabled,
        version: intent.version,
        before: next,
      }),
      fireButton(view, intent),
      deleteButton({
        path: "/v1/intents",
        list: "/console/intents",
        id,
        scope: "intents:write",
        version: intent.version,
      }),
    ),
    intent.last_error ? section("Last error", h("p", { class: "error-text" }, intent.last_error)) : null,
    tiles(intent, first),
    await historySection(view, first, theirs),
    h("div", { class: "columns" }, conditionSection(intent), actionSection(intent)),
    versions,
  );
}

/** Return the button that records what a check by hand came to, as a worker would. @param {View} view @param {any} intent */
function fireButton(view, intent) {
  if (!mayAct() || !intent.enabled) return null;
  const id = intent.intent_id;
  const status = select(FIRES.map((one) => [one, wordOf(one)]), "success");
  const reason = /** @type {HTMLInputElement} */ (h("input", { type: "text", maxlength: "2000" }));
  const form = (/** @type {() => void} */ close) =>
    previewForm(close, [
      h(
        "p",
        { class: "soft" },
        "Records a check as a worker would report it: it counts, cools down and plans the next.",
      ),
      field("What came of it", status),
      field("Error, if it failed", reason),
    ], () => ({
      title: `Fire ${id} by hand`,
      scope: "intents:write",
      method: "POST",
      path: `/v1/intents/${part(id)}/fire`,
      body: {
        status: status.value,
        error_message: reason.value && status.value === "failed" ? reason.value : undefined,
      },
      preview: (told) => h("p", null, "It would be recorded as ", answer(told.body.status), "."),
      done: view.refresh,
    }));
  return button("Fire by hand", () => openDialog(`Fire ${id} by hand`, form));
}

/** @param {any} intent @param {any} first the newest of its checks */
function tiles(intent, first) {
  const theirs = intent.schedule.timezone;
  const cooldown = intent.in_cooldown ? when(cooldownEnd(intent), { theirs }) : "none";
  return h(
    "div",
    { class: "tiles" },
    tile("Next check", intent.next_check ? when(nextLook(intent), { theirs }) : "none"),
    tile(intent.in_cooldown ? "Cooldown until" : "Cooldown", cooldown, {
      below: intent.last_condition_fire ? ["fired ", recordedAt(intent.last_condition_fire, { theirs })] : null,
    }),
    tile("Fired", figure(intent.execution_count), {
      href: statusHref("success", "history"),
      below: intent.max_executions ? `of ${figure(intent.max_executions)} at most` : checkCounts(first),
    }),
    tile("Claimed", intent.claim ? intent.claim.worker : "by nobody", {
      below: intent.claim ? ["until ", when(intent.claim.expires_at, { theirs })] : null,
    }),
  );
}

/** Return what the checks came to, and how many are counted if there are more. @param {any} first */
function checkCounts(first) {
  const counts = statusCounts(first.items, "history");
  return first.next_cursor ? [`last ${first.items.length} checks: `, counts] : counts;
}

/** @param {View} view @param {any} first @param {string} theirs */
async function historySection(view, first, theirs) {
  const none = h("p", { class: "soft" }, "It has not been carried out yet.");
  const columns = [
    { name: "When", cell: (/** @type {any} */ one) => recordedAt(one.executed_at, { theirs, seconds: true }) },
    {
      name: "Came of it",
      cell: (/** @type {any} */ one) => h("a", { class: "plain", href: whyHref(one.segment_id) }, answer(one.status)),
    },
    {
      name: "Saw",
      kind: "text",
      cell: (/** @type {any} */ one) =>
        one.trigger_data ? h("code", { class: "clip" }, JSON.stringify(one.trigger_data)) : "",
    },
    { name: "Took", kind: "number", cell: (/** @type {any} */ one) => tookText(one) },
    { name: "By", cell: (/** @type {any} */ one) => one.worker ?? "–" },
    {
      name: "Error",
      kind: "text",
      cell: (/** @type {any} */ one) => h("span", { class: "error-text" }, one.error_message ?? ""),
    },
  ];
  const shown = ofStatus(view, first.items, "history");
  const rows = await pagedRows(
    shown.rows,
    ROWS,
    (some) => table({ caption: "Executions, newest first", columns, rows: some, empty: none }),
  );
  const moves = cursorMoves(view, first.next_cursor);
  return section(
    "History",
    moves.some(Boolean) ? h("div", { class: "buttons" }, moves) : null,
    first.items.length ? timeline(view, first.items, theirs) : null,
    shown.chip,
    rows,
  );
}

/** @param {View} view @param {any[]} executions @param {string} theirs */
function timeline(view, executions, theirs) {
  const newest = view.query.get("cursor") ? executions[0].executed_at : undefined;
  const window = pastWindow(executions[executions.length - 1].executed_at, newest, zoneFor(theirs));
  const marks = executions.map((one) => ({
    lane: "executed",
    at: Date.parse(one.executed_at),
    kind: answerClass(one.status),
    words: `${one.status} · ${fullText(one.executed_at, theirs)}`,
    item: one,
  }));
  const open = (/** @type {any} */ one) => void go(whyHref(one.segment_id));
  return [laneTimeline([["executed", "executed"]], marks, window, open), zoneLine(window)];
}

/** @param {any} one */
function tookText(one) {
  const parts = [one.evaluation_ms, one.generation_ms, one.delivery_ms].filter((ms) => ms != null);
  return parts.length ? durationText(parts.reduce((sum, ms) => sum + ms, 0)) : "–";
}

/** @param {any} intent */
function conditionSection(intent) {
  const { condition, schedule } = intent;
  return section(
    "Condition and schedule",
    facts([
      ["Watches", watchText(intent)],
      ["Fires", condition ? condition.fire_mode : null],
      ["Cooldown", condition ? `${condition.cooldown_hours} h` : null],
      ["Cron", schedule.cron ? [h("code", null, schedule.cron), ` ${schedule.timezone}`] : null],
      ["Every", schedule.interval_minutes ? spanText(schedule.interval_minutes * 60_000) : null],
      ["At", schedule.trigger_at ? when(schedule.trigger_at, { theirs: schedule.timezone }) : null],
      ["Checked every", spanText(schedule.check_interval_minutes * 60_000)],
      [
        "Waits for its source",
        intent.waiting_for_source ? `${intent.waiting_for_source.name}: ${intent.waiting_for_source.error}` : null,
      ],
      ["Ends", intent.expires_at ? when(intent.expires_at, { theirs: schedule.timezone }) : null],
      ["Was disabled because of", intent.was_disabled_reason],
    ]),
  );
}

/** @param {any} intent */
function actionSection(intent) {
  return section(
    "What it does",
    facts([
      ["Action", intent.action_type.replaceAll("_", " ")],
      ["Priority", intent.action_priority],
      ["Channels", intent.action_channels?.join(", ")],
      [
        "Gate",
        intent.gate
          ? [h("code", null, intent.gate.trigger_type), " of ", streamLink("account", intent.gate.account_id)]
          : null,
      ],
      ["Worker", intent.worker],
      ["Context", personalText("context", intent.action_context)],
      ["Version", String(intent.version)],
    ]),
    h(
      "details",
      null,
      h("summary", null, "Raw JSON"),
      shownJson(intent),
    ),
  );
}
