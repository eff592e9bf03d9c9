/** How long requests take and how much a commit writes, and the processes that do it. */
import { part } from "./api.js";
import { h } from "./dom.js";
import { folded } from "./forms.js";
import { answer, emptyState, figure, section, shareBar, table } from "./parts.js";
import { durationText, isVirtual, recordedAt } from "./time.js";

/** Routes whose times are shown at once. */
const TIMES = 8;
/** Executors of a process that are shown at once. */
const EXECUTORS = 6;

/** @param {{items: any[], batches: any}} times the slowest first */
export function timesSection({ items: rows, batches }) {
  const most = 1 + Math.max(0, ...rows.map((one) => one.p99_ms ?? 60_000));
  const text = (/** @type {number | null} */ ms) => (ms === null ? "> 30 s" : `≤ ${durationText(ms)}`);
  const columns = [
    {
      name: "Request",
      kind: "route",
      cell: (/** @type {any} */ one) => [h("span", { class: "soft" }, `${one.method} `), h("code", null, one.route)],
    },
    { name: "Half of them", kind: "number", cell: (/** @type {any} */ one) => text(one.p50_ms) },
    { name: "99 of 100", kind: "number", cell: (/** @type {any} */ one) => text(one.p99_ms) },
    {
      name: "Share of the slowest",
      cell: (/** @type {any} */ one) => shareBar(one.p99_ms ?? most, most),
    },
  ];
  const rest = rows.slice(TIMES);
  const caption = "Request times, slowest first";
  return section(
    "Request times",
    h("p", { class: "soft" }, "Of the process that answers here, since it started."),
    table({ caption, columns, rows: rows.slice(0, TIMES) }),
    rest.length
      ? folded(`${rest.length} more`, () => table({ caption: "Request times, the quicker ones", columns, rows: rest }))
      : null,
    batches ? batchWords(batches) : null,
  );
}

/** Say how much one commit writes. @param {{p50: number | null, p99: number | null}} batches */
function batchWords({ p50, p99 }) {
  const text = (/** @type {number | null} */ most) => most === null ? "more than 1,024" : `at most ${figure(most)}`;
  return h(
    "p",
    null,
    `Half of the commits wrote ${text(p50)} `,
    h("a", { href: "/console/ledger" }, p50 === 1 ? "segment" : "segments"),
    `, 99 of 100 ${text(p99)}.`,
  );
}

/** @param {any[]} rows */
export function processSection(rows) {
  const columns = [
    { name: "Process", cell: (/** @type {any} */ one) => h("span", { class: "id" }, one.name) },
    { name: "Role", cell: (/** @type {any} */ one) => one.role },
    { name: "Version", cell: (/** @type {any} */ one) => one.version },
    { name: "Carries out", kind: "text", cell: (/** @type {any} */ one) => executorLinks(one.executors) },
    {
      name: "Alive",
      cell: (/** @type {any} */ one) => answer(one.alive ? "active" : one.role === "closed" ? "closed" : "dead"),
    },
    // Processes live in real time, from which a virtual clock may be months away.
    { name: "Last seen", cell: (/** @type {any} */ one) => recordedAt(one.seen_at, { relative: !isVirtual() }) },
  ];
  const empty = emptyState(
    "No process has reported",
    "Processes say that they are there every few seconds; by a virtual clock they may not.",
  );
  return section("Processes", table({ caption: "Processes that work on this database", columns, rows, empty }));
}

/** @param {string[]} executors */
function executorLinks(executors) {
  if (!executors.length) return "–";
  const link = (/** @type {string} */ name, /** @type {number} */ place) => [
    place ? ", " : "",
    h("a", { href: `/console/effects?executor=${part(name)}` }, name),
  ];
  const rest = executors.slice(EXECUTORS);
  return [
    executors.slice(0, EXECUTORS).map(link),
    rest.length ? folded(`${rest.length} more`, () => rest.map(link)) : null,
  ];
}
