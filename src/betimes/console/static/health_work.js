/** Health of what is under way: effects that wait, by who carries them out, and the rate of verdicts. */
import { part } from "./api.js";
import { densityStrip } from "./charts.js";
import { h } from "./dom.js";
import { folded } from "./forms.js";
import { answer, emptyState, figure, section, table } from "./parts.js";
import { clockText, dayText, stepOf, when, zoneFor } from "./time.js";

/** Executors that the server counts for at most. */
const EXECUTORS_MAX = 50;
/** The steps of the rate: those of Now, so that a cell leads to the same count there. */
export const RATE_STEP = "30m";

/** Return effects that have not ended, by who carries them out. @param {any[]} rows */
export function pendingSection(rows) {
  const columns = [
    {
      name: "Executor",
      cell: (/** @type {any} */ one) =>
        one.executor === "send" ? "commands to other streams" : h("code", null, one.executor),
    },
    {
      name: "Pending",
      kind: "number",
      cell: (/** @type {any} */ one) =>
        h("a", { href: pendingHref(one.executor) }, `${figure(one.pending)}${one.capped ? "+" : ""}`),
    },
    { name: "First due", cell: (/** @type {any} */ one) => (one.first_at ? when(one.first_at) : null) },
    {
      name: "",
      cell: (/** @type {any} */ one) =>
        one.orphaned
          ? [
            answer("dead"),
            " no process carries it out: ",
            h("a", { href: pendingHref(one.executor) }, `${figure(one.orphaned)} wait`),
          ]
          : null,
    },
  ];
  const empty = emptyState(
    "Nothing is pending",
    "Deliveries, webhooks and handlers stand here by who carries them out, until they have ended.",
  );
  return section(
    "Effects pending",
    table({ caption: "Effects pending, by executor", columns, rows, empty }),
    rows.length === EXECUTORS_MAX
      ? h("p", { class: "soft" }, `The first ${EXECUTORS_MAX} executors by name; there may be more.`)
      : null,
  );
}

/** @param {string} executor */
export function pendingHref(executor) {
  return `/console/effects?status=pending&executor=${part(executor)}`;
}

/** @param {any} stats by domain, in steps of `RATE_STEP` */
export function rateSection(stats) {
  const stepMs = stepOf(RATE_STEP);
  const since = Date.parse(stats.since);
  const steps = Math.round((Date.parse(stats.until) - since) / stepMs);
  const domains = /** @type {string[]} */ ([...new Set(stats.cells.map((/** @type {any} */ one) => one.domain))]);
  const rows = domains.map((domain) => {
    const counts = new Array(steps).fill(0);
    for (const cell of stats.cells) {
      if (cell.domain === domain) counts[Math.round((Date.parse(cell.at) - since) / stepMs)] += cell.count;
    }
    return { domain, counts, total: counts.reduce((sum, one) => sum + one, 0) };
  });
  const zone = zoneFor(null);
  const labelOf = (/** @type {number} */ place) =>
    `${dayText(since + place * stepMs, zone)} ${clockText(since + place * stepMs, zone)}`;
  const columns = [
    { name: "Domain", cell: (/** @type {any} */ one) => one.domain },
    {
      name: "Decided",
      kind: "number",
      cell: (/** @type {any} */ one) =>
        h("a", { href: countHref(one.domain, stats.since, stats.until) }, figure(one.total)),
    },
    {
      name: "A minute, at the busiest",
      kind: "number",
      cell: (/** @type {any} */ one) => {
        const most = Math.max(0, ...one.counts);
        return h("a", { href: cellHref(one.domain, one.counts.indexOf(most)) }, figure(Math.ceil(most / 3) / 10));
      },
    },
    {
      name: "By half hour",
      kind: "text",
      cell: (/** @type {any} */ one) => h("div", { class: "wide-cell" }, densityStrip(one.counts, { labelOf })),
    },
  ];
  const cellHref = (/** @type {string} */ domain, /** @type {number} */ place) =>
    countHref(domain, instantText(since + place * stepMs), instantText(since + (place + 1) * stepMs));
  const empty = emptyState("Nothing was decided in the last day", "The rate of verdicts stands here.");
  const used = [...Array(steps).keys()].filter((place) => rows.some((row) => row.counts[place])).reverse();
  return section(
    "Rate of verdicts, last 24 hours",
    stats.complete ? null : h("p", { class: "soft" }, "Still counting: the tally has not read the whole ledger."),
    table({ caption: "Verdicts by domain", columns, rows, empty }),
    rows.length
      ? folded("The same as a table", () =>
        table({
          caption: "Verdicts by half hour and domain, newest first",
          columns: [
            { name: "From", cell: labelOf },
            ...rows.map((row) => ({
              name: row.domain,
              kind: "number",
              cell: (/** @type {number} */ place) =>
                row.counts[place] ? h("a", { href: cellHref(row.domain, place) }, figure(row.counts[place])) : "",
            })),
          ],
          rows: used,
        }))
      : null,
  );
}

/** @param {number} at */
function instantText(at) {
  return new Date(at).toISOString();
}

/** Return where Now counts the verdicts of a domain in a time. @param {string} domain @param {string} from @param {string} to */
function countHref(domain, from, to) {
  return `/console?${new URLSearchParams({ domain, from, to })}`;
}
