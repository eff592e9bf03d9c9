/**
 * What's next: how much is due when, by kind; what piles up; and everything that waits, soonest first.
 */
import { get } from "./api.js";
import { h, put } from "./dom.js";
import { filterBar, wantedFilters } from "./filters.js";
import { keepFresh } from "./list_page.js";
import { combOf } from "./next_combs.js";
import { byTime, groupsOf, itemTable } from "./next_items.js";
import { combs, pileSentences } from "./next_strips.js";
import { dueWords, moves, rangeOf, RANGES, rangeTabs, startOf } from "./next_range.js";
import { countLink, emptyState, pagedList, pageHead, section, tabs } from "./parts.js";
import { choiceIn } from "./queries.js";
import { addressWith } from "./router.js";
import { curl } from "./samples.js";
import { when } from "./time.js";

/** @typedef {import("./router.js").View} View */
/** @typedef {import("./next_combs.js").Comb} Comb */
const OWN = ["range", "at", "by"];
const ORDERS = /** @type {const} */ (["time", "reason"]);
const INSTANTS = [
  { name: "from", label: "From", isInstant: true },
  { name: "to", label: "Until", text: "until", isInstant: true },
];
const ITEMS = 50;
const HOUR = 3_600_000;

/** @param {View} view */
export async function show(view) {
  view.title("What's next");
  const chosen = wantedFilters(view, INSTANTS, OWN);
  const load = (/** @type {string | null} */ cursor) =>
    get("/v1/upcoming/items", { ...chosen, limit: ITEMS, cursor }, view.signal);
  const [comb, first] = await Promise.all([loadComb(view), load(null)]);
  const density = h("div");
  paint(view, density, comb);
  const kinds = [...new Set([...comb.rows.map((row) => row.kind), ...(chosen.kinds ? [chosen.kinds] : [])])];
  const filters = [
    { name: "kinds", label: "Kind", text: "kind", options: kinds },
    { name: "reason", label: "Reason", text: "reason" },
    ...INSTANTS,
  ];
  const isNarrowed = Object.keys(chosen).length > 0;
  const order = choiceIn(view.query, "by", ORDERS);
  put(
    view.main,
    pageHead(
      "What's next",
      "Everything that is due, and everything that waits for something.",
      ...moves(view),
      rangeTabs(view),
    ),
    density,
    section(
      order === "time" ? "What waits, soonest first" : "What waits, by reason",
      filterBar(view, filters, OWN),
      first.items.length ? orderTabs(order) : null,
      reasonLinks(first.items, chosen),
      first.items.length
        ? await pagedList(load, order === "time" ? renderInOrder : renderGroups, first)
        : nothing(isNarrowed),
    ),
  );
  keepFresh(view);
}

/** @param {View} view @returns {Promise<Comb>} */
async function loadComb(view) {
  const [hours, step, , minutes] = RANGES[rangeOf(view)];
  const begin = Math.floor(startOf(view) / (minutes * 60_000)) * minutes * 60_000; // steps begin at whole quarters, or hours
  const [from, to] = [begin, begin + hours * HOUR].map((at) => new Date(at).toISOString());
  return combOf(await get("/v1/upcoming", { from, to, step }, view.signal));
}

/** @param {View} view @param {HTMLElement} density @param {Comb} comb */
function paint(view, density, comb) {
  const [, , text] = RANGES[rangeOf(view)];
  put(
    density,
    lateBox(comb),
    section(dueWords(view, text), pileSentences(comb), comb.rows.length ? combs(view, comb) : nothingDue(text)),
  );
}

/** Say what should have happened by now. @param {Comb} comb */
function lateBox(comb) {
  const { count, oldest_at: oldest, capped } = comb.late;
  if (!count) return null;
  return h(
    "p",
    { class: "late", role: "status" },
    h(
      "strong",
      null,
      countLink(count, addressWith({ from: null, to: comb.now, kinds: null, reason: null })),
      `${capped ? " or more" : ""} late`,
    ),
    oldest ? [", the oldest was due ", when(oldest, { seconds: true })] : null,
    ".",
  );
}

/** @param {any[]} items @param {Record<string, string>} chosen */
function reasonLinks(items, chosen) {
  const reasons = [...new Set(items.flatMap((item) => item.reasons))];
  if (!reasons.length || chosen.reason) return null;
  return h(
    "p",
    { class: "chips next-reasons" },
    h("span", { class: "soft" }, "Reasons here: "),
    reasons.map((reason) => h("a", { class: "chip", href: addressWith({ reason }) }, reason)),
  );
}

/** @param {string} order */
function orderTabs(order) {
  const links = ORDERS.map((one) => ({
    text: one,
    href: addressWith({ by: one === "time" ? null : one }),
    current: one === order,
  }));
  return h("p", { class: "next-order" }, h("span", { class: "soft" }, "In order of "), tabs("Order", links));
}

/** Return everything that waits in one list. @param {any[]} items all so far @param {boolean} isAll whether nothing is left to load */
function renderInOrder(items, isAll) {
  const { certain, beyond } = byTime(items, isAll);
  return h(
    "div",
    { class: "next-items" },
    certain.length ? itemTable({ name: "", caption: "Waiting, soonest first", items: certain }) : null,
    beyond.length
      ? [
        h("h3", { class: "next-group" }, "Later", h("span", { class: "soft" }, " with more to come between these")),
        itemTable({ name: "", caption: "Waiting later, as far as it is loaded", items: beyond }),
      ]
      : null,
  );
}

/** @param {any[]} items all so far */
function renderGroups(items) {
  return h(
    "div",
    { class: "next-items" },
    groupsOf(items).map((group) => [
      h(
        "h3",
        { class: "next-group" },
        group.name,
        h(
          "span",
          { class: "soft" },
          ` ${group.items.length} shown, next `,
          when(group.items[0].at, { theirs: group.items[0].timezone }),
        ),
      ),
      itemTable(group),
    ]),
  );
}

/** @param {string} text */
function nothingDue(text) {
  return h("p", { class: "soft" }, `Nothing is due in the next ${text}.`);
}

/** @param {boolean} isNarrowed */
function nothing(isNarrowed) {
  if (isNarrowed) return h("p", { class: "soft" }, "Nothing that waits matches.");
  const body = { cron: "0 8 * * *", timezone: "Europe/Berlin", target: { kind: "sweep" } };
  return emptyState(
    "Nothing waits",
    "Schedules, deferred runs, notifications until the end of quiet hours and intents until their next check appear here. Make a schedule to see one:",
    {
      curl: curl("PUT", "/v1/schedules/brief", body),
      python: `await bt.schedules.put("brief", ${JSON.stringify(body)})`,
      href: "/console/try",
    },
  );
}
