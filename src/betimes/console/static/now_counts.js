/** Counts of a range, from the tally: what the tiles, the strip and the reasons of the first page are made of. */
import { get } from "./api.js";
import { answerClass } from "./parts.js";
import { choiceIn, instantIn, unreadable } from "./queries.js";
import { clockText, dayText, now, stepOf, zoneFor } from "./time.js";

/** @typedef {{at: number, label: string, counts: Record<string, number>}} Bucket */
/** @typedef {{name: string, hours: number, step: string, stepMs: number, coarse: string, before: string}} Range `coarse` are the steps of trends */

const HOUR = 3_600_000;
/** @type {Record<string, Range>} */
export const RANGES = {
  "1h": { name: "1 h", hours: 1, step: "1m", stepMs: HOUR / 60, coarse: "5m", before: "the same hour yesterday" },
  "24h": { name: "24 h", hours: 24, step: "30m", stepMs: HOUR / 2, coarse: "1h", before: "the day before" },
  "7d": { name: "7 d", hours: 168, step: "3h", stepMs: 3 * HOUR, coarse: "12h", before: "the week before" },
  "30d": { name: "30 d", hours: 720, step: "12h", stepMs: 12 * HOUR, coarse: "1d", before: "the month before" },
};

/** Return the range that a query asks for, up to now or to an instant of the past, and the window in it: whole, or what was brushed. @param {URLSearchParams} query */
export function windowOf(query) {
  const [askedFrom, askedTo] = [instantIn(query, "from"), instantIn(query, "to")];
  const usual = RANGES[choiceIn(query, "range", Object.keys(RANGES), "24h")];
  let asked = instantIn(query, "until") ?? Infinity;
  // What ends before the range begins is what is looked at.
  if (askedTo !== null && askedTo <= Math.min(asked, now()) - usual.hours * HOUR) asked = askedTo;
  const isEarlier = asked <= now();
  const end = isEarlier ? asked : now();
  const chosen = rangeFrom(usual, askedFrom, end);
  const range = asFineAsKept(chosen, Math.min(askedFrom ?? Infinity, end - chosen.hours * HOUR));
  const until = Math.ceil((isEarlier ? end : end + 1) / range.stepMs) * range.stepMs;
  const since = until - range.hours * HOUR;
  const from = askedFrom ?? since;
  const to = askedTo ?? until;
  if (from >= to) throw unreadable("from", instant(from), `an instant before ${instant(to)}`);
  const isBrushed = from !== since || to !== until;
  return { range, since, until, from, to, isBrushed, isPast: isBrushed || isEarlier };
}

/** @typedef {ReturnType<typeof windowOf>} Window */

/** Return where the counted steps of a window begin: the first holds its beginning. @param {Window} seen */
export function firstStep({ from, range }) {
  return Math.floor(from / range.stepMs) * range.stepMs;
}

/** Return the range that holds everything since an instant: the usual one, or the next that is long enough. @param {Range} usual @param {number | null} from @param {number} end @returns {Range} */
function rangeFrom(usual, from, end) {
  if (from === null || from >= end - usual.hours * HOUR) return usual;
  const found = Object.values(RANGES).find((one) => from >= end - one.hours * HOUR);
  if (!found) throw unreadable("from", instant(from), `an instant of the 30 days before ${instant(end)}`);
  return found;
}

/** Return a range with steps that are still counted, also for what it is compared with: minutes are kept for two days, hours for ninety. @param {Range} range @param {number} since the first instant that is counted @returns {Range} */
function asFineAsKept(range, since) {
  const age = now() - (since - comparedMs(range));
  if (age > 90 * 24 * HOUR) return { ...range, step: "1d", stepMs: 24 * HOUR };
  return age > 48 * HOUR && range.stepMs < HOUR ? { ...range, step: "1h", stepMs: HOUR } : range;
}

/** Return how far back a range is compared: an hour with that of yesterday, others with the time before. @param {Range} range */
export function comparedMs(range) {
  return Math.max(24, range.hours) * HOUR;
}

/** @param {number} at */
export function instant(at) {
  return new Date(at).toISOString();
}

/** Ask for everything that the page counts. @param {Window} seen @param {Record<string, string | null>} filters @param {AbortSignal} signal */
export async function loadCounts(seen, filters, signal) {
  const back = comparedMs(seen.range);
  const earlier = { since: instant(seen.from - back), until: instant(seen.to - back) };
  const narrow = { since: instant(seen.from), until: instant(seen.to), ...filters };
  const coarse = seen.range.step === "1d" ? "1d" : seen.range.stepMs === HOUR ? "1h" : seen.range.coarse;
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
    const stepMs = seen.range.stepMs;
    const begin = firstStep(seen);
    const over = new Array(Math.max(1, Math.ceil((seen.to - begin) / stepMs))).fill(0);
    const counts = { now: 0, later: 0, never: 0, other: 0 };
    /** @type {Record<string, Set<string>>} */
    const outcomes = { now: new Set(), later: new Set(), never: new Set(), other: new Set() };
    for (const cell of cells) {
      const at = Date.parse(cell.at);
      if (at < begin || at >= seen.to) continue;
      over[Math.round((at - begin) / stepMs)] += cell.count;
      counts[answerClass(cell.outcome)] += cell.count;
      outcomes[answerClass(cell.outcome)].add(cell.outcome);
    }
    const earlier = before.cells.filter((/** @type {any} */ one) => one.domain === domain);
    return {
      domain,
      counts,
      outcomes,
      over: joined(over, 48),
      total: sum(Object.values(counts)),
      earlier: sum(earlier.map((/** @type {any} */ one) => one.count)),
    };
  });
}

/** Return the outcomes of each class of answers in a window, as a filter names them. @param {any} strip @param {Window} seen @returns {Record<string, string>} */
export function outcomesOf(strip, seen) {
  /** @type {Record<string, Set<string>>} */
  const found = { now: new Set(), later: new Set(), never: new Set(), other: new Set() };
  for (const cell of strip.cells) {
    const at = Date.parse(cell.at);
    if (at >= firstStep(seen) && at < seen.to) found[answerClass(cell.outcome)].add(cell.outcome);
  }
  return Object.fromEntries(Object.entries(found).map(([name, outcomes]) => [name, [...outcomes].sort().join(",")]));
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

/** Return why it was not now: reasons by count, with their trend, in which steps without any count too. @param {any} stats */
export function reasonsOf(stats) {
  const [since, until] = [Date.parse(stats.since), Date.parse(stats.until)];
  const stepMs = stepOf(stats.step);
  const size = Math.max(1, Math.ceil((until - since) / stepMs));
  /** @type {Map<string, {reason: string, outcomes: Set<string>, count: number, over: number[]}>} */
  const found = new Map();
  for (const cell of stats.cells) {
    if (!cell.reason || !["later", "never"].includes(answerClass(cell.outcome))) continue;
    const one = found.get(cell.reason) ??
      { reason: cell.reason, outcomes: new Set(), count: 0, over: new Array(size).fill(0) };
    one.outcomes.add(cell.outcome);
    one.count += cell.count;
    one.over[Math.min(size - 1, Math.floor((Date.parse(cell.at) - since) / stepMs))] += cell.count;
    found.set(cell.reason, one);
  }
  return [...found.values()].sort((one, other) => other.count - one.count);
}
