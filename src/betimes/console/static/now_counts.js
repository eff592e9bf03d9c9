/** Counts of a range, from the tally: what the tiles, the strip and the reasons of the first page are made of. */
import { get } from "./api.js";
import { answerClass } from "./parts.js";
import { clockText, dayText, now, zoneFor } from "./time.js";

/** @typedef {{at: number, label: string, counts: Record<string, number>}} Bucket */
/** @typedef {{name: string, hours: number, step: string, stepMs: number, before: string}} Range */

const HOUR = 3_600_000;
/** @type {Record<string, Range>} */
export const RANGES = {
  "1h": { name: "1 h", hours: 1, step: "1m", stepMs: HOUR / 60, before: "the same hour yesterday" },
  "24h": { name: "24 h", hours: 24, step: "30m", stepMs: HOUR / 2, before: "the day before" },
  "7d": { name: "7 d", hours: 168, step: "3h", stepMs: 3 * HOUR, before: "the week before" },
  "30d": { name: "30 d", hours: 720, step: "12h", stepMs: 12 * HOUR, before: "the month before" },
};

/** Return the range that a query asks for, and the window in it: whole, or what was brushed. @param {URLSearchParams} query */
export function windowOf(query) {
  const range = RANGES[query.get("range") ?? "24h"] ?? RANGES["24h"];
  const until = Math.ceil((now() + 1) / range.stepMs) * range.stepMs;
  const since = until - range.hours * HOUR;
  const from = Number(Date.parse(query.get("from") ?? "")) || since;
  const to = Number(Date.parse(query.get("to") ?? "")) || until;
  return { range, since, until, from, to, isBrushed: from !== since || to !== until };
}

/** @typedef {ReturnType<typeof windowOf>} Window */

/** @param {number} at */
export function instant(at) {
  return new Date(at).toISOString();
}

/** Ask for everything that the page counts. @param {Window} seen @param {Record<string, string | null>} filters @param {AbortSignal} signal */
export async function loadCounts(seen, filters, signal) {
  const day = seen.range.hours === 1 ? 24 * HOUR : seen.range.hours * HOUR;
  const earlier = { since: instant(seen.from - day), until: instant(seen.to - day) };
  const narrow = { since: instant(seen.from), until: instant(seen.to), ...filters };
  const coarse = seen.range.hours === 1
    ? "5m"
    : seen.range.hours === 24
    ? "1h"
    : seen.range.hours === 168
    ? "12h"
    : "1d";
  const [strip, reasons, before] = await Promise.all([
    get("/v1/stats", {
      since: instant(seen.since),
      until: instant(seen.until),
      step: seen.range.step,
      by: "domain,outcome",
      ...filters,
    }, signal),
    get("/v1/stats", { ...narrow, step: coarse, by: "outcome,reason" }, signal),
    // By the strip's step: the server widens a window to whole steps, and whole days would count up to twice as much.
    get("/v1/stats", { ...earlier, ...filters, by: "domain", step: seen.range.step }, signal),
  ]);
  return { strip, reasons, before };
}

/** Return the answers in each step of the range. @param {any} stats @param {Window} seen @returns {Bucket[]} */
export function bucketsOf(stats, seen) {
  const zone = zoneFor(null);
  /** @type {Map<number, Bucket>} */
  const found = new Map();
  for (let at = seen.since; at < seen.until; at += seen.range.stepMs) {
    found.set(at, {
      at,
      label: `${dayText(at, zone)} ${clockText(at, zone)}`,
      counts: { now: 0, later: 0, never: 0, other: 0 },
    });
  }
  for (const cell of stats.cells) {
    const bucket = found.get(Date.parse(cell.at));
    if (bucket) bucket.counts[answerClass(cell.outcome)] += cell.count;
  }
  return [...found.values()];
}

/** Return for each domain its counts by answer in the window, over time, and before. @param {any} strip @param {any} before @param {Window} seen @param {string[]} domains */
export function domainsOf(strip, before, seen, domains) {
  return domains.map((domain) => {
    const cells = strip.cells.filter((/** @type {any} */ one) => one.domain === domain);
    const steps = Math.max(1, Math.round((seen.until - seen.since) / seen.range.stepMs));
    const over = new Array(steps).fill(0);
    const counts = { now: 0, later: 0, never: 0, other: 0 };
    for (const cell of cells) {
      const at = Date.parse(cell.at);
      over[Math.round((at - seen.since) / seen.range.stepMs)] += cell.count;
      if (at >= seen.from && at < seen.to) counts[answerClass(cell.outcome)] += cell.count;
    }
    const earlier = before.cells.filter((/** @type {any} */ one) => one.domain === domain);
    return {
      domain,
      counts,
      over: joined(over, 48),
      total: sum(Object.values(counts)),
      earlier: sum(earlier.map((/** @type {any} */ one) => one.count)),
    };
  });
}

/** Return values joined to at most so many. @param {number[]} values @param {number} most */
function joined(values, most) {
  const each = Math.ceil(values.length / most);
  const found = [];
  for (let place = 0; place < values.length; place += each) found.push(sum(values.slice(place, place + each)));
  return found;
}

/** @param {number[]} values */
export function sum(values) {
  return values.reduce((all, one) => all + one, 0);
}

/** Return why it was not now: reasons by count, with their trend. @param {any} stats */
export function reasonsOf(stats) {
  const steps = [...new Set(stats.cells.map((/** @type {any} */ one) => one.at))].sort();
  /** @type {Map<string, {reason: string, outcomes: Set<string>, count: number, over: number[]}>} */
  const found = new Map();
  for (const cell of stats.cells) {
    if (!cell.reason || !["later", "never"].includes(answerClass(cell.outcome))) continue;
    const one = found.get(cell.reason) ??
      { reason: cell.reason, outcomes: new Set(), count: 0, over: new Array(steps.length).fill(0) };
    one.outcomes.add(cell.outcome);
    one.count += cell.count;
    one.over[steps.indexOf(cell.at)] += cell.count;
    found.set(cell.reason, one);
  }
  return [...found.values()].sort((one, other) => other.count - one.count);
}
