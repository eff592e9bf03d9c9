/**
 * Tables: rows that keys walk through, columns that are left out when nothing stands in them, blocks where a page is
 * narrow. The offset of times is said once in the heading of a column, and beside each time where it changes within it.
 */
import { h } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */
/** @typedef {{name: string, cell: (row: any) => Child, kind?: string}} Column `kind`: "number" for figures, "number measure" for those that count nothing, "text" for sentences */
/** How much room a table needs from how many columns on; where it has less, its rows stand as blocks. */
const ROOMS = /** @type {const} */ ([[7.3, "stacks many"], [5.5, "stacks some"], [2.5, "stacks"]]);
/** How many columns one of a kind counts for. */
const WIDTHS = /** @type {Record<string, number>} */ ({ text: 3, number: 0.7 });

/**
 * Return a table; a column in which nothing stands is left out. `href` makes its rows findable by keys.
 * @template T
 * @param {{caption: string, columns: {name: string, cell: (row: T) => Child, kind?: string}[], rows: T[], rowClass?: (row: T) => string, href?: (row: T) => string, empty?: Child, isTerse?: boolean}} told
 */
export function table({ caption, columns, rows, rowClass, href, empty, isTerse = false }) {
  if (!rows.length && empty) return h("div", null, empty);
  const body = rows.map((row) => tableRow(columns, row, rowClass?.(row), href?.(row)));
  const isUsed = columns.map((_, place) => !place || !rows.length || body.some((row) => !isBlank(row.children[place])));
  for (const row of body) [...row.children].forEach((cell, place) => isUsed[place] || cell.remove());
  const used = columns.filter((_, place) => isUsed[place]);
  return sayOffsets(tableFrame(caption, used, h("tbody", { role: "rowgroup" }, body), { isTerse }));
}

/** Say the offset of the times in each column: in its heading if all have the same, else beside each of them. @param {HTMLElement} frame of a table, whose rows may have been made anew */
export function sayOffsets(frame) {
  const isTerse = frame.classList.contains("terse"); // its blocks have no headings
  const rows = [...frame.querySelectorAll("tbody > tr")];
  frame.querySelectorAll("thead th").forEach((heading, place) => {
    const told = rows.flatMap((row) => [...row.children[place].querySelectorAll("time > .offset")]);
    const offsets = new Set(told.map((one) => one.textContent));
    heading.querySelector(".offset")?.remove();
    if (offsets.size !== 1) return;
    const [offset] = offsets;
    told.forEach((one) => one.classList.add("said"));
    heading.append(h("span", { class: "offset" }, offset));
    // Where rows stand as blocks, this is the heading of a cell.
    if (!isTerse) rows.forEach((row) => row.children[place].setAttribute("data-label", heading.textContent ?? ""));
  });
  return frame;
}

/** @param {Element} cell */
function isBlank(cell) {
  return !cell.textContent && !cell.querySelector(":not(:empty), svg, input");
}

/** Return a row of a table's body. @param {Column[]} columns @param {any} row @param {string} [name] of its class @param {string} [href] */
export function tableRow(columns, row, name = "", href) {
  return h(
    "tr",
    { class: `row ${name}`, role: "row", "data-href": href ?? null },
    columns.map((one, place) =>
      h(
        place ? "td" : "th",
        { role: place ? "cell" : "rowheader", class: one.kind ?? null, "data-label": one.name },
        one.cell(row),
      )
    ),
  );
}

/** Return a table around its body. Its roles are named because rows that stand as blocks would lose them. @param {string} caption @param {Column[]} columns @param {Element} body @param {{isTerse?: boolean}} [how] `isTerse`: its values need no headings where its rows stand as blocks */
export function tableFrame(caption, columns, body, { isTerse = false } = {}) {
  const head = columns.map((one) =>
    h("th", { role: "columnheader", class: one.kind ?? null }, one.name || h("span", { class: "hidden" }, "More"))
  );
  const wide = columns.reduce((sum, one) => sum + (WIDTHS[one.kind ?? ""] ?? 1), 0);
  const size = ROOMS.find(([count]) => wide >= count)?.[1] ?? "";
  return h(
    "div",
    { class: `scroll ${size}${isTerse ? " terse" : ""}`, tabindex: "0", role: "group", "aria-label": caption },
    h(
      "table",
      { role: "table" },
      h("caption", { class: "hidden" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
      body,
    ),
  );
}
