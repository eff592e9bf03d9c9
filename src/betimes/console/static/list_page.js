/**
 * Pages of things that have an id: a list with filters, a selection and pages; and the head of one of them.
 *
 * Schedules, sensors, intents, runs, scores and effects are shown in this way; a page says its columns and its words.
 */
import { get } from "./api.js";
import { h, put } from "./dom.js";
import { chosenFilters, filterBar } from "./filters.js";
import { onPulse } from "./live.js";
import { emptyState, pagedList, pageHead, problemBox, section, table } from "./parts.js";
import { bulkBar, definitionBulk, Selection } from "./selection.js";
import { curl } from "./samples.js";
import { now } from "./time.js";

/** @typedef {import("./dom.js").Child} Child */
/** @typedef {import("./router.js").View} View */
/**
 * @typedef {object} List
 * @property {string} path of the API
 * @property {string} noun in the plural
 * @property {string} caption of the table
 * @property {import("./filters.js").Filter[]} filters
 * @property {string[]} [own] names in the query that narrow nothing
 * @property {(row: any) => string} idOf
 * @property {(row: any) => string} hrefOf
 * @property {{name: string, cell: (row: any) => Child, kind?: string}[]} columns after the first, which is the id
 * @property {string} idName heading of the first column
 * @property {(rows: any[], signal: AbortSignal) => Promise<unknown>} [enrich] asks once a page for what the columns show besides
 * @property {Child} empty
 * @property {(filter: () => Record<string, string>, rowOf: (id: string) => any) => import("./selection.js").Bulk} [bulk]
 * @property {(row: any) => string} [labelOf] the words of the link, if not the id
 */

const ROWS = 50;
const CALM_MS = 10_000;
/** After so long by the server's clock a page says something that is over; a virtual clock may leap. */
const LEAP_MS = 60_000;
const LEAP_CALM_MS = 3_000;
/** Whose decisions a list shows; those of any domain where none is named. */
const DOMAINS = /** @type {Record<string, string>} */ ({
  "/v1/schedules": "automation",
  "/v1/sensors": "automation",
  "/v1/intents": "intents",
  "/v1/runs": "runs",
  "/v1/scores": "scores",
});

/** Show a page again after decisions and when somebody comes back to it, unless they are busy with it. @param {View} view @param {string} [domain] */
export function keepFresh(view, domain) {
  const [shown, shownAt] = [performance.now(), now()];
  let isOwed = false;
  const show = () => isIdle(view.main) && void view.refresh();
  onPulse((pulse) => {
    isOwed ||= domain ? pulse.counts.some((one) => one.domain === domain) : pulse.total > 0;
    const isOver = now() - shownAt > LEAP_MS;
    if ((isOwed || isOver) && performance.now() - shown > (isOver ? LEAP_CALM_MS : CALM_MS)) show();
  }, view.signal);
  document.addEventListener("visibilitychange", show, { signal: view.signal });
}

/** Return whether nobody writes, chooses, opens or reads on in a page. @param {Element} main */
function isIdle(main) {
  const isWriting = main.contains(document.activeElement) && document.activeElement?.matches("input, select, textarea");
  return !isWriting && !document.hidden && !document.querySelector("dialog[open]") &&
    !main.querySelector("input:checked, details[open], [data-grown]");
}

/** Return a list with its filters and its bulk actions, as one section. @param {View} view @param {List} list @param {string} title */
export async function listSection(view, list, title) {
  const chosen = chosenFilters(view, list.own);
  const selection = new Selection();
  /** @type {Map<string, any>} */
  const rowsById = new Map();
  const load = async (/** @type {string | null} */ cursor) => {
    const page = await get(list.path, { ...chosen, limit: ROWS, cursor }, view.signal);
    await list.enrich?.(page.items, view.signal);
    for (const row of page.items) rowsById.set(list.idOf(row), row);
    return page;
  };
  const columns = [
    { name: list.idName, cell: (/** @type {any} */ row) => idCell(list, selection, row) },
    ...list.columns,
  ];
  const render = (/** @type {any[]} */ rows) =>
    table({ caption: list.caption, columns, rows, href: list.hrefOf, empty: emptyList(chosen, list) });
  /** @type {Child} */
  let rows;
  try {
    const first = await load(null);
    const bulk = first.items.length ? list.bulk?.(() => chosen, (id) => rowsById.get(id)) : null;
    rows = [bulk ? bulkBar(selection, bulk) : null, await pagedList(load, render, first)];
  } catch (error) {
    if (view.signal.aborted) throw error;
    rows = problemBox(error, view.refresh);
  }
  keepFresh(view, DOMAINS[list.path]);
  return section(title, filterBar(view, list.filters, list.own), rows);
}

/** @param {List} list @param {Selection} selection @param {any} row */
function idCell(list, selection, row) {
  const id = list.idOf(row);
  const link = h("a", { class: "id", href: list.hrefOf(row) }, list.labelOf?.(row) ?? id);
  return h("span", { class: "tick-row" }, list.bulk ? selection.box(id) : null, link);
}

/** @param {Record<string, string>} chosen @param {List} list */
function emptyList(chosen, list) {
  if (!Object.keys(chosen).length) return list.empty;
  return emptyState(`No ${list.noun} match`, "Remove a filter above to see more.", {});
}

/** Show a page that is one list. @param {View} view @param {string} title @param {Child} sentence @param {List} list @param {...Child} above */
export async function showList(view, title, sentence, list, ...above) {
  view.title(title);
  put(view.main, pageHead(title, sentence), above, await listSection(view, list, `All ${list.noun}`));
}

/** Return bulk actions of definitions. @param {View} view @param {{noun: string, path: string, scope: string, lost: (row: any) => Child}} told `lost` is what does not happen while one is paused */
export function pauseAndResume(view, { noun, path, scope, lost }) {
  return (/** @type {() => Record<string, string>} */ chosen, /** @type {(id: string) => any} */ rowOf) =>
    definitionBulk({
      noun,
      path,
      scope,
      verbs: [["Pause", "disable"], ["Resume", "enable"]],
      filter: () => typed(chosen()),
      refresh: view.refresh,
      lost: (id) => rowOf(id) && lost(rowOf(id)),
    });
}

/** Return filters as a body has them: what a query says as text is a truth value there. @param {Record<string, string>} chosen */
function typed(chosen) {
  const truths = /** @type {Record<string, boolean>} */ ({ true: true, false: false });
  return Object.fromEntries(Object.entries(chosen).map(([name, value]) => [name, truths[value] ?? value]));
}

/** Return how to make the first one of a list, for this server. @param {string} title @param {string} text @param {{path: string, body: unknown, python: string, method?: string}} how */
export function firstOne(title, text, { path, body, python, method = "POST" }) {
  return emptyState(title, text, {
    curl: curl(method, path, body),
    python,
    href: "/console/try",
    link: "Try one in the playground",
  });
}

/** Return rows that are all here already, some at first and more on demand. @param {any[]} rows @param {number} size @param {(rows: any[]) => Child} render */
export function pagedRows(rows, size, render) {
  const load = (/** @type {string | null} */ cursor) => {
    const end = Number(cursor ?? 0) + size;
    return Promise.resolve({ items: rows.slice(end - size, end), next_cursor: end < rows.length ? String(end) : null });
  };
  return pagedList(load, render);
}
