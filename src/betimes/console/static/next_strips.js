/** What is due, drawn: one strip a kind, their axis, the steps in which it piles up, and the same as a table. */
import { densityStrip } from "./charts.js";
import { h } from "./dom.js";
import { countOfKind, kindWords, pilesOf } from "./next_combs.js";
import { countLink, table } from "./parts.js";
import { addressWith } from "./router.js";
import { axisText, clockText, dateText, dayText, now, offsetMs, partsOf, zoneFor, zoneWords } from "./time.js";

/** @typedef {import("./router.js").View} View */
/** @typedef {import("./next_combs.js").Comb} Comb */
const HOUR = 3_600_000;

/** Name what piles up. @param {Comb} comb */
export function pileSentences(comb) {
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
export function combs(view, comb) {
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
