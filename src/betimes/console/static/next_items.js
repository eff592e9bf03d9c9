/** What waits, one by one: in one list in the order of time, or grouped by why. */
import { h } from "./dom.js";
import { kindWords } from "./next_combs.js";
import { reasonChips, streamHref, streamLink, table, whyHref } from "./parts.js";
import { addressWith } from "./router.js";
import { when } from "./time.js";

/** @typedef {{name: import("./dom.js").Child, caption: string, items: any[]}} Group */

/** @param {any} one @param {any} other */
function bySoonest(one, other) {
  return Date.parse(one.at) - Date.parse(other.at);
}

/**
 * Return items in the order of time. A page holds all that waits in some streams, those that come next: what comes after
 * the first item of the last stream is not followed by others for certain, unless nothing is left to load.
 * @param {any[]} items @param {boolean} isAll
 */
export function byTime(items, isAll) {
  const sorted = [...items].sort(bySoonest);
  if (isAll) return { certain: sorted, beyond: [] };
  /** @type {Map<string, number>} */
  const begins = new Map();
  for (const item of [...sorted].reverse()) begins.set(`${item.kind} ${item.id}`, Date.parse(item.at));
  const horizon = Math.max(...begins.values());
  const cut = sorted.findIndex((item) => Date.parse(item.at) > horizon);
  return cut < 0 ? { certain: sorted, beyond: [] } : { certain: sorted.slice(0, cut), beyond: sorted.slice(cut) };
}

/** Return items by the reason they wait for, the group with the soonest first; late ones before all. @param {any[]} items @returns {Group[]} */
export function groupsOf(items) {
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const item of items) {
    const reason = item.reasons.at(-1);
    const name = item.late ? "late" : reason ? `reason ${reason}` : `kind ${item.kind}`;
    groups.set(name, [...(groups.get(name) ?? []), item]);
  }
  return [...groups].map(([name, found]) => ({
    name: headingOf(name),
    caption: `Waiting: ${name}`,
    items: found.sort(bySoonest), // the server lists streams by their next alarm, with all that waits in each
  })).sort((one, other) => bySoonest(one.items[0], other.items[0]));
}

/** @param {string} name @returns {import("./dom.js").Child} */
function headingOf(name) {
  const [by, ...rest] = name.split(" ");
  const value = rest.join(" ");
  if (by === "late") return h("span", { class: "late-word" }, "Late");
  if (by === "reason") return h("a", { href: addressWith({ reason: value }) }, value);
  return h("a", { href: addressWith({ kinds: value }) }, kindWords(value));
}

/** The columns; `kind` gives each the same place in all tables. */
const COLUMNS = [
  {
    name: "When",
    kind: "item-when",
    cell: (/** @type {any} */ item) => when(item.at, { theirs: item.timezone, seconds: true }),
  },
  {
    name: "Who",
    kind: "item-who",
    cell: (/** @type {any} */ item) => [
      h("span", { class: "soft" }, `${item.kind} `),
      streamLink(item.kind, item.id),
      item.owner ? [h("span", { class: "soft" }, " of "), h("span", { class: "id" }, item.owner)] : null,
    ],
  },
  {
    name: "What",
    kind: "item-what",
    cell: (/** @type {any} */ item) => [item.what, item.key ? [" ", h("span", { class: "id soft" }, item.key)] : null],
  },
  {
    name: "Reasons",
    cell: (/** @type {any} */ item) => reasonChips(item.reasons),
  },
  {
    name: "Would pass",
    kind: "item-pass",
    cell: (/** @type {any} */ item) => item.would_pass_at ? when(item.would_pass_at, { theirs: item.timezone }) : null,
  },
  {
    name: "Why",
    kind: "item-why",
    cell: (/** @type {any} */ item) =>
      item.segment_id
        ? h("a", { href: whyHref(item.segment_id), "aria-label": `Why ${item.key ?? item.id}` }, "why")
        : item.snoozed_until
        ? ["rests after an error until ", when(item.snoozed_until, { theirs: item.timezone })]
        : null,
  },
];

/** @param {Group} group */
export function itemTable(group) {
  return table({
    caption: group.caption,
    columns: COLUMNS,
    rows: group.items,
    isTerse: true,
    rowClass: (item) => item.late ? "late-row" : "",
    href: (item) => item.segment_id ? whyHref(item.segment_id) : streamHref(item.kind, item.id),
  });
}
