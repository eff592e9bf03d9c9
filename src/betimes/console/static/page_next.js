/**
 * What's next: how much is due when, by kind; what piles up; and everything that waits, soonest first.
 */
import { get } from "./api.js";
import { densityStrip } from "./charts.js";
import { h, put } from "./dom.js";
import { filterBar, wantedFilters } from "./filters.js";
import { keepFresh } from "./list_page.js";
import { combOf, countOfKind, kindWords, pilesOf } from "./next_combs.js";
import { byTime, groupsOf, itemTable } from "./next_items.js";
import { dueWords, moves, rangeOf, RANGES, rangeTabs, startOf } from "./next_range.js";
import { countLink, emptyState, pagedList, pageHead, section, table, tabs } from "./parts.js";
import { choiceIn } from "./queries.js";
import { addressWith } from "./router.js";
import { curl } from "./samples.js";
import { axisText, clockText, dateText, dayText, now, offsetMs, partsOf, when, zoneFor, zoneWords } from "./time.js";

/** @typedef {import("./router.js").View} View */
/** @typedef {import("./next_combs.js").Comb} Comb */
const OWN = ["range", "at", "by"];
const ORDERS = /** @type {const} */ (["reason", "time"]);
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
      "What waits, soonest first",
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

/** Name what piles up. @param {Comb} comb */
function pileSentences(comb) {
  const piles = pilesOf(comb);
  return piles.length
    ? h(
      "ul",
      { class: "piles" },
      piles.map((pile) =>
        h(
          "li",
          null,
          h("a", { href: cellHref(comb, pile.place, null) }, spanWords(comb, pile.place)),
          ": ",
          pile.parts.map(([kind, count], place) => [
            place ? ", " : "",
            h("a", { class: "plain", href: cellHref(comb, pile.place, kind) }, countOfKind(kind, count)),
          ]),
        )
      ),
    )
    : null;
}

/** @param {Comb} comb @param {number} place */
function spanWords(comb, place) {
  const zone = zoneFor(null);
  const [begin, end] = [comb.from + place * comb.stepMs, comb.from + (place + 1) * comb.stepMs];
  const isToday = dateText(begin, zone) === dateText(now(), zone);
  return `${isToday ? "" : `${dayText(begin, zone)} `}${clockText(begin, zone)}–${clockText(end, zone)}`;
}

/** @param {Comb} comb @param {number} place @param {string | null} kind */
function cellHref(comb, place, kind) {
  const at = (/** @type {number} */ step) => new Date(comb.from + step * comb.stepMs).toISOString();
  return addressWith({ from: at(place), to: at(place + 1), kinds: kind });
}

/** @param {Comb} comb */
function endOf(comb) {
  return new Date(comb.from + comb.size * comb.stepMs).toISOString();
}

/** Return one strip a kind, the axis, and the same as a table. @param {View} view @param {Comb} comb */
function combs(view, comb) {
  const hot = new Set(pilesOf(comb).map((pile) => pile.place));
  const labelOf = (/** @type {number} */ place) => spanWords(comb, place);
  return [
    h(
      "div",
      { class: "combs" },
      comb.rows.map((row) => {
        const strip = densityStrip(row.counts, { labelOf, hot });
        strip.addEventListener("click", (event) => openCell(view, comb, row.kind, /** @type {MouseEvent} */ (event)));
        const total = row.counts.reduce((sum, one) => sum + one, 0);
        return [
          h("a", { class: "comb-name", href: addressWith({ kinds: row.kind }) }, kindWords(row.kind)),
          h("div", { class: "comb" }, strip),
          h(
            "span",
            { class: "number", title: row.estimated ? "estimated from a sample" : null },
            row.estimated ? "≈ " : "",
            countLink(total, addressWith({ kinds: row.kind, from: null, to: endOf(comb) })),
          ),
        ];
      }),
      h("span", { class: "soft axis-zone" }, zoneWords(zoneFor(null), comb.from, comb.from + comb.size * comb.stepMs)),
      axis(comb),
    ),
    comb.truncated ? h("p", { class: "soft" }, "There is more than was counted.") : null,
    numbers(comb),
  ];
}

/** Narrow the list to the cell that was clicked. @param {View} view @param {Comb} comb @param {string} kind @param {MouseEvent} event */
function openCell(view, comb, kind, event) {
  const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
  const place = Math.floor(((event.clientX - box.left) / box.width) * comb.size);
  const address = new URL(cellHref(comb, Math.max(0, Math.min(comb.size - 1, place)), kind), location.origin);
  view.setQuery({ kinds: kind, from: address.searchParams.get("from"), to: address.searchParams.get("to") });
}

/** Return whole hours, or days, below the strips. @param {Comb} comb */
function axis(comb) {
  const zone = zoneFor(null);
  const whole = comb.size * comb.stepMs;
  const every = whole <= HOUR ? HOUR / 6 : whole <= 24 * HOUR ? 3 * HOUR : 24 * HOUR;
  const offset = offsetMs(comb.from, zone);
  const ticks = [];
  for (let at = Math.ceil((comb.from + offset) / every) * every - offset; at < comb.from + whole; at += every) {
    const share = (at - comb.from) / whole;
    const text = every > 3 * HOUR ? /** @type {any} */ (partsOf(at, zone)).weekday : axisText(at, at, zone);
    if (share < 0.95) ticks.push(h("span", { style: { "inset-inline-start": `${share * 100}%` } }, text));
  }
  return h("div", { class: "comb-axis", "aria-hidden": "true" }, ticks);
}

/** @param {Comb} comb */
function numbers(comb) {
  const places = [...Array(comb.size).keys()].filter((place) => comb.rows.some((row) => row.counts[place]));
  return h(
    "details",
    null,
    h("summary", null, "The same as a table"),
    table({
      caption: "Due by time and kind",
      columns: [
        { name: "When", cell: (place) => h("a", { href: cellHref(comb, place, null) }, spanWords(comb, place)) },
        ...comb.rows.map((row) => ({
          name: kindWords(row.kind),
          kind: "number",
          cell: (/** @type {number} */ place) =>
            row.counts[place] ? countLink(row.counts[place], cellHref(comb, place, row.kind)) : "",
        })),
      ],
      rows: places,
    }),
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
    href: addressWith({ by: one === "reason" ? null : one }),
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
