/**
 * Ticks drawn: the last ones as a strip, those of a range on a line of time with how late they were, and their runs.
 *
 * Each stands beside a table with the same numbers, so the drawings are hidden from screen readers.
 */
import { get } from "./api.js";
import { h, svg } from "./dom.js";
import { answerClass } from "./parts.js";
import { wordOf } from "./server.js";
import { durationText, fullText } from "./time.js";
import { drawing, laneTimeline, NAME, TOP } from "./timelines.js";

/** @typedef {import("./timelines.js").Window} Window */

const CELLS = 40;
/** What is newest of all of them is asked for in so many pages at most. */
const PAGES = 4;

/**
 * Ask for the newest ticks or evaluations of everything together, until what is listed has enough of them.
 * @param {string} path @param {string} idName @param {Map<string, any[]>} found by id, filled here @param {any[]} rows @param {AbortSignal} signal
 */
export async function loadNewest(path, idName, found, rows, signal) {
  if (!rows.length || found.size) return;
  let cursor = null;
  for (let count = 0; count < PAGES; count += 1) {
    const page = await get(path, { limit: 200, cursor }, signal);
    for (const one of page.items) {
      const known = found.get(one[idName]) ?? [];
      if (known.length < CELLS) found.set(one[idName], [...known, one]);
    }
    cursor = page.next_cursor;
    if (!cursor || rows.every((row) => (found.get(row[idName])?.length ?? 0) >= CELLS)) return;
  }
}

/** Heights of statuses whose class is not tall: what went wrong stands out, what found nothing lies low. */
const HEIGHTS = /** @type {Record<string, number>} */ ({ failed: 10, error: 10, stale: 7, pending: 7 });

/** Return ticks or evaluations as a strip, the oldest at the left; height says the same as colour. @param {any[]} items newest first */
export function statusStrip(items) {
  const shown = items.slice(0, CELLS).reverse();
  /** @type {Map<string, number>} */
  const counts = new Map();
  const cells = shown.map(({ status }, place) => {
    counts.set(status, (counts.get(status) ?? 0) + 1);
    const kind = answerClass(status);
    const tall = kind === "now" ? 16 : HEIGHTS[status] ?? 4;
    return svg("rect", {
      class: status === "skipped" ? "later" : kind,
      x: place * 5,
      y: 17 - tall,
      width: 4,
      height: tall,
    });
  });
  const words = [...counts].map(([status, count]) => `${count} ${wordOf(status)}`).join(", ") || "none yet";
  return h(
    "span",
    { class: "strip", title: words },
    svg("svg", { viewBox: `0 0 ${CELLS * 5} 18`, "aria-hidden": "true" }, cells),
    h("span", { class: "hidden" }, words),
  );
}

const LANES = /** @type {[string, string][]} */ ([
  ["cron", "scheduled"],
  ["catchup", "caught up"],
  ["manual", "by hand"],
  ["backfill", "backfill"],
]);

/**
 * Return ticks on a line of time, a lane for each cause: a mark where it fired, a line back to where it was due.
 * @param {any[]} ticks @param {string[]} next instants that are to come @param {Window} window @param {(tick: any) => void} open
 */
export function tickTimeline(ticks, next, window, open) {
  const marks = ticks.filter((one) => one.status !== "skipped").map((one) => markOf(one, window.zone));
  return laneTimeline(LANES, marks, window, open, (x, yOf) => [
    ticks.filter((one) => one.status === "skipped").map((one) => skippedRange(one, x, yOf(one.cause), open)),
    next.map((at) => svg("circle", { class: "coming", cx: x(Date.parse(at)), cy: yOf("cron"), r: 4.5 })),
  ]);
}

/** @param {any} tick @param {string} zone @returns {import("./timelines.js").Mark} */
function markOf(tick, zone) {
  const late = tick.lag_ms && tick.cause !== "backfill" ? ` · ${durationText(tick.lag_ms)} late` : "";
  return {
    lane: tick.cause,
    at: Date.parse(tick.fired_at ?? tick.scheduled_for),
    // A backfill fires long after its ticks were due, on purpose, and a manual tick when it is asked for: neither is late.
    due: tick.cause === "backfill" || tick.cause === "manual" ? undefined : Date.parse(tick.scheduled_for),
    kind: answerClass(tick.status),
    words: `${tick.status} · ${fullText(tick.scheduled_for, zone)}${late}`,
    item: tick,
  };
}

/** @param {any} tick @param {(at: number) => number} x @param {number} y @param {(tick: any) => void} open */
function skippedRange(tick, x, y, open) {
  const first = Date.parse(tick.first ?? tick.scheduled_for);
  const last = Date.parse(tick.last ?? tick.scheduled_for);
  const wide = Math.max(10, x(last) - x(first));
  const count = `${tick.count ?? 1} skipped`;
  const words = `${count}: ${tick.reason}`;
  return svg(
    "g",
    { class: "tick-mark", on: { click: () => open(tick) } },
    svg("title", null, words),
    svg("rect", { class: "skipped", x: x(first) - 5, y: y - 7, width: wide, height: 14, rx: 3 }),
    wide > 60 ? svg("text", { class: "skipped-word", x: x(first), y: y + 4 }, wide > 190 ? words : count) : null,
  );
}

/** Put bars into rows so that those that overlap are in different ones. @template {{from: number, to: number}} T @param {T[]} bars */
export function packRows(bars) {
  /** @type {number[]} */
  const ends = [];
  return [...bars].sort((a, b) => a.from - b.from).map((bar) => {
    const free = ends.findIndex((end) => end <= bar.from);
    const row = free < 0 ? ends.length : free;
    ends[row] = bar.to;
    return { ...bar, row };
  });
}

/** Return the runs of ticks as bars: thin until they started, thick until they ended. @param {any[]} ticks @param {Window} window */
export function runGantt(ticks, window) {
  const bars = packRows(
    ticks.filter((tick) => tick.run && tick.run.status !== "skipped").map((tick) => {
      const run = tick.run;
      const from = Date.parse(run.allowed_at ?? tick.fired_at);
      const to = run.finished_at ? Date.parse(run.finished_at) : window.now;
      return { from, to: Math.max(to, from), started: run.started_at ? Date.parse(run.started_at) : from, tick };
    }).filter((bar) => !Number.isNaN(bar.from)),
  );
  const rows = 1 + Math.max(0, ...bars.map((bar) => bar.row));
  const words = rows > 1 ? `up to ${rows} at once` : "never two at once";
  return drawing(window, ({ x, isNarrow }) => {
    const top = TOP + 2 + (isNarrow ? NAME : 0);
    const drawn = bars.map((bar) => runBar(bar, x, top + bar.row * 16));
    return { height: top + rows * 16 + 12, drawn: [svg("text", { x: 0, y: TOP + 12 }, words), drawn] };
  });
}

/** @param {{from: number, started: number, to: number, tick: any}} bar @param {(at: number) => number} x @param {number} y */
function runBar(bar, x, y) {
  const [from, started, to] = [bar.from, bar.started, bar.to].map(x);
  return svg(
    "g",
    null,
    svg("title", null, `${bar.tick.run.status} · ${durationText(bar.to - bar.from)}`),
    svg("rect", { class: "waited", x: from, y: y + 4, width: Math.max(0, started - from), height: 3 }),
    svg("rect", {
      class: answerClass(bar.tick.run.status),
      x: started,
      y,
      width: Math.max(3, to - started),
      height: 11,
      rx: 2,
    }),
  );
}
