/** Counts of what is due, step by step, and the steps in which it piles up. */
import { figure } from "./parts.js";
import { stepOf } from "./time.js";

/** @typedef {{kind: string, counts: number[], estimated: boolean}} Row */
/** @typedef {{from: number, now: string, size: number, stepMs: number, rows: Row[], late: any, truncated: boolean}} Comb */

const PILE_TIMES = 10;
const PILE_MIN = 10;
const PILES_MAX = 5;

/** What of each kind is due, in words: one, and several. */
const KIND_WORDS = /** @type {Record<string, [string, string]>} */ ({
  inbox: ["person with notifications", "people with notifications"],
  account: ["deferred trigger", "deferred triggers"],
  run: ["run to start or to end", "runs to start or to end"],
  intent: ["intent check", "intent checks"],
  schedule: ["schedule tick", "schedule ticks"],
  sensor: ["sensor evaluation", "sensor evaluations"],
  score: ["score", "scores"],
  incident: ["end of an incident", "ends of incidents"],
  backfill: ["backfill", "backfills"],
});

/** Name what of a kind is due. @param {string} kind */
export function kindWords(kind) {
  return KIND_WORDS[kind]?.[1] ?? kind;
}

/** Say how many of a kind are due. @param {string} kind @param {number} count */
export function countOfKind(kind, count) {
  return `${figure(count)} ${KIND_WORDS[kind]?.[count === 1 ? 0 : 1] ?? kind}`;
}

/** @param {any} told what `GET /v1/upcoming` answers @returns {Comb} */
export function combOf(told) {
  const from = Date.parse(told.from);
  const size = Math.max(1, ...told.rows.map((/** @type {any} */ row) => row.counts.length));
  const stepMs = stepOf(told.step);
  return { from, now: told.now, size, stepMs, rows: told.rows, late: told.late, truncated: told.truncated };
}

/** Return the steps with far more than is usual, the fullest first. @param {Comb} comb @returns {{place: number, total: number, parts: [string, number][]}[]} */
export function pilesOf(comb) {
  const totals = [...Array(comb.size).keys()].map((place) =>
    comb.rows.reduce((sum, row) => sum + (row.counts[place] ?? 0), 0)
  );
  const usual = medianOf(totals.filter((total) => total > 0));
  return totals.map((total, place) => ({ place, total, parts: partsAt(comb, place) }))
    .filter(({ total }) => total >= PILE_MIN && total > PILE_TIMES * usual)
    .sort((one, other) => other.total - one.total).slice(0, PILES_MAX);
}

/** @param {Comb} comb @param {number} place @returns {[string, number][]} */
function partsAt(comb, place) {
  return comb.rows.filter((row) => row.counts[place]).map((
    row,
  ) => /** @type {[string, number]} */ ([row.kind, row.counts[place]]))
    .sort((one, other) => other[1] - one[1]);
}

/** @param {number[]} values */
function medianOf(values) {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted.length ? sorted[Math.floor((sorted.length - 1) / 2)] : 0;
}
