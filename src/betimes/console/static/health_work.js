/** Health of what is under way: effects that wait, by executor, and how late ticks were in the last day. */
import { get, part } from "./api.js";
import { h, put } from "./dom.js";
import { folded } from "./forms.js";
import { agoText, durationText, now, when } from "./time.js";
import { answer, figure, problemBox, section, streamLink, table, whyHref } from "./parts.js";

/** @typedef {import("./router.js").View} View */
const COUNTED_MAX = 200;
const LATEST = 5;
const DAY_MS = 86_400_000;

/** Return effects that have not ended, by who carries them out; none where there are none. @param {any} backlog @param {AbortSignal} signal */
export async function pendingSection(backlog, signal) {
  if (!backlog.effects_pending) return null;
  const page = await get("/v1/effects", { status: "pending", limit: COUNTED_MAX }, signal);
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const one of page.items) groups.set(one.executor, [...(groups.get(one.executor) ?? []), one]);
  const rows = [...groups].map(([executor, all]) => ({
    executor,
    count: all.length,
    retried: all.filter((one) => one.attempts).length,
    oldest: all.map((one) => one.created_at).sort()[0],
    isOrphaned: executor in (backlog.orphaned ?? {}),
  })).sort((one, other) => other.count - one.count);
  const columns = [
    { name: "Executor", cell: (/** @type {any} */ one) => h("code", null, one.executor) },
    {
      name: "Pending",
      kind: "number",
      cell: (/** @type {any} */ one) =>
        h("a", { href: `/console/effects?status=pending&executor=${part(one.executor)}` }, figure(one.count)),
    },
    { name: "Tried before", kind: "number", cell: (/** @type {any} */ one) => figure(one.retried) },
    { name: "Oldest", cell: (/** @type {any} */ one) => when(one.oldest) },
    {
      name: "",
      cell: (/** @type {any} */ one) => one.isOrphaned ? [answer("dead"), " no process carries it out"] : null,
    },
  ];
  return section(
    "Effects pending",
    table({ caption: "Effects pending, by executor", columns, rows }),
    page.next_cursor ? h("p", { class: "soft" }, `Of the first ${COUNTED_MAX}; more are pending.`) : null,
  );
}

/** Return how late ticks were in the last day, asked for when it is opened. @param {View} view */
export function latenessDetails(view) {
  const box = h("div", { role: "status" }, h("p", { class: "soft" }, "Loading…"));
  const load = async () => {
    try {
      const since = new Date(now() - DAY_MS).toISOString();
      const { items } = await get("/v1/ticks", { since, limit: COUNTED_MAX }, view.signal);
      put(box, lateness(items.filter((/** @type {any} */ one) => one.lag_ms != null && one.cause !== "backfill")));
    } catch (error) {
      if (!view.signal.aborted) put(box, problemBox(error, load));
    }
  };
  return folded("How late ticks were in the last 24 hours", () => (void load(), box));
}

/** @param {any[]} ticks */
function lateness(ticks) {
  if (!ticks.length) return h("p", { class: "soft" }, "Nothing ticked in the last 24 hours.");
  const lags = ticks.map((one) => one.lag_ms).sort((one, other) => one - other);
  const at = (/** @type {number} */ share) =>
    durationText(lags[Math.min(lags.length - 1, Math.floor(share * lags.length))]);
  const worst = [...ticks].sort((one, other) => other.lag_ms - one.lag_ms).slice(0, LATEST);
  const columns = [
    { name: "Schedule", cell: (/** @type {any} */ one) => streamLink("schedule", one.schedule_id) },
    { name: "Late", kind: "number", cell: (/** @type {any} */ one) => durationText(one.lag_ms) },
    {
      name: "Due",
      cell: (/** @type {any} */ one) =>
        h("a", { href: whyHref(one.segment_id), title: agoText(one.scheduled_for) }, when(one.scheduled_for)),
    },
  ];
  return [
    h(
      "p",
      null,
      `Of the last ${figure(ticks.length)} ticks half were at most ${at(0.5)} late, 99 of 100 at most ${at(0.99)}.`,
    ),
    table({ caption: "The latest ticks of the last 24 hours", columns, rows: worst }),
  ];
}
