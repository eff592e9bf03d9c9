/**
 * Parts that pages are made of: marks, verdicts, tiles, meters, empty states, errors, dialogs.
 */
import { h, put, uid } from "./dom.js";
import { button } from "./forms.js";
import { answer } from "./marks.js";
import { meaningOf } from "./server.js";
import { recordedAt, timedText } from "./time.js";

/** @typedef {import("./dom.js").Child} Child */
export { answer, answerClass, mark, markShape } from "./marks.js";
export { sayOffsets, table, tableFrame, tableRow } from "./tables.js";

/** Return the reasons of all judgements as chips; the last is that of the answer, those before it lead there. @param {string[]} [reasons] @param {(reason: string) => string} [hrefOf] */
export function reasonChips(reasons = [], hrefOf) {
  const trail = reasons.filter((reason, place) => reason !== reasons[place + 1]);
  const chip = (/** @type {string} */ reason, /** @type {number} */ place) => {
    const name = place < trail.length - 1 ? "chip earlier" : "chip";
    return h(hrefOf ? "a" : "span", { class: name, href: hrefOf?.(reason), title: meaningOf(reason) }, reason);
  };
  return h("span", { class: "chips" }, trail.map(chip));
}

/** Return where the why of a segment is. @param {string} segmentId */
export function whyHref(segmentId) {
  return `/console/why/${encodeURIComponent(segmentId)}`;
}

/** Return the page of a stream, if it has one. @param {string} kind @param {string} id */
export function streamHref(kind, id) {
  const name = encodeURIComponent(id);
  const pages = /** @type {Record<string, string>} */ ({
    inbox: "people",
    feed: "people",
    account: "accounts",
    schedule: "schedules",
    sensor: "sensors",
    intent: "intents",
    run: "runs",
    score: "scores",
  });
  return pages[kind]
    ? `/console/${pages[kind]}/${name}`
    : `/console/ledger?kind=${encodeURIComponent(kind)}&id=${name}`;
}

/** Return the beginning of a long id, and of a segment's its version too. @param {string} id */
export function shortId(id) {
  const version = /:\d+$/.exec(id)?.[0] ?? "";
  return id.length > 24 ? `${id.slice(0, 14)}…${version}` : id;
}

/** Return a link to a stream. @param {string} kind @param {string} id @param {string} [text] */
export function streamLink(kind, id, text = id) {
  return h("a", { class: "id", href: streamHref(kind, id), title: text === id ? null : id }, text);
}

/** Head a page: its one heading, a sentence below, buttons at the right. @param {Child} title @param {Child} [sentence] @param {...Child} buttons */
export function pageHead(title, sentence, ...buttons) {
  return h(
    "header",
    { class: "head" },
    h("div", null, h("h1", null, title), sentence ? h("p", { class: "soft" }, sentence) : null),
    h("div", { class: "buttons" }, buttons),
  );
}

/** Return a section with a heading; a link to `#` and its name in small letters leads there. @param {Child} title @param {...Child} children */
export function section(title, ...children) {
  const id = uid("section");
  const name = typeof title === "string" ? title.toLowerCase().replace(/[^a-z]+/g, "-") : null;
  return h("section", { class: "card", "aria-labelledby": id, "data-name": name }, h("h2", { id }, title), children);
}

/** Return pairs of a name and a value; those without a value are left out. @param {[string, Child][]} pairs */
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs.filter(([, value]) => value != null && value !== "" && value !== false).map(([name, value]) =>
      h("div", null, h("dt", null, name), h("dd", null, value))
    ),
  );
}

/** Return a tile: a number with its name, which lead to what it counts, and more below. @param {string} name @param {Child} value @param {{href?: string, below?: Child, tone?: string}} [more] */
export function tile(name, value, { href, below, tone } = {}) {
  const head = [h("span", { class: "tile-name" }, name), " ", h("span", { class: "tile-value" }, value)];
  return h(
    "div",
    { class: `tile ${tone ?? ""}` },
    h(href ? "a" : "div", { class: "tile-head", href }, head),
    below ? h("div", { class: "tile-below" }, below) : null,
  );
}

/** Return a bar for a share of the largest; the figure stands beside it. @param {number} value @param {number} most */
export function shareBar(value, most) {
  return h(
    "span",
    { class: "bar-cell", "aria-hidden": "true" },
    h("span", { style: { "inline-size": `${(100 * value) / most}%` } }),
  );
}

/** Return a meter of n of a cap. @param {number} value @param {number} cap @param {string} label */
export function meter(value, cap, label) {
  const share = cap > 0 ? Math.min(1, value / cap) : 1;
  return h("span", {
    class: `meter ${share >= 1 ? "full" : ""}`,
    role: "meter",
    "aria-valuenow": value,
    "aria-valuemin": 0,
    "aria-valuemax": cap,
    "aria-label": label,
  }, h("span", { style: { "inline-size": `${share * 100}%` } }));
}

/** Return an empty state that says what would appear here, and how to make it appear. @param {string} title @param {Child} text @param {{curl?: string, python?: string, terminal?: string, href?: string, link?: string}} [how] */
export function emptyState(title, text, { curl, python, terminal, href, link } = {}) {
  return h(
    "div",
    { class: "empty" },
    h("p", { class: "empty-title" }, title),
    h("p", { class: "soft" }, text),
    curl ? code(curl, "With curl") : null,
    python ? code(python, "In Python") : null,
    terminal ? code(terminal, "At the terminal") : null,
    href ? h("p", null, h("a", { href }, link ?? "Try it")) : null,
  );
}

/** Return text that can be copied. @param {string} text @param {string} label */
export function code(text, label) {
  return h(
    "figure",
    { class: "code" },
    h("figcaption", null, label, copyButton(text, `Copy: ${label}`)),
    h("pre", { tabindex: "0" }, h("code", null, text)),
  );
}

/** @param {string | (() => string)} text @param {string} label @param {string} [shown] */
export function copyButton(text, label, shown = "Copy") {
  const button = h("button", { type: "button", class: "small", "aria-label": shown === "Copy" ? label : null }, shown);
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(typeof text === "string" ? text : text());
    put(button, "Copied");
    setTimeout(() => put(button, shown), 1500);
  });
  return button;
}

/** Return an error with everything the server told about it, and a way on. @param {unknown} error @param {() => unknown} [retry] */
export function problemBox(error, retry) {
  const told = /** @type {any} */ (error ?? {});
  const title = told.title ?? "Something went wrong in this page";
  const detail = told.detail ?? told.message ?? String(error);
  const fields = (told.errors ?? []).map((/** @type {{path: string, message: string}} */ one) =>
    h("li", null, h("code", null, one.path), ": ", one.message)
  );
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", { class: "problem-title" }, title, told.status ? ` (${told.status})` : ""),
    detail ? h("p", null, detail) : null,
    fields.length ? h("ul", null, fields) : null,
    told.errorId ? h("p", { class: "soft" }, "Error id ", h("code", null, told.errorId)) : null,
    retry ? h("button", { type: "button", on: { click: () => retry() } }, "Try again") : null,
  );
}

/** Return links of which one is current, for ranges and views in the query. @param {string} label @param {{text: string, href: string, current: boolean}[]} links */
export function tabs(label, links) {
  return h(
    "nav",
    { class: "tabs", "aria-label": label },
    links.map((one) => h("a", { href: one.href, "aria-current": one.current ? "true" : null }, one.text)),
  );
}

/** Return a count that leads to what it counts. @param {number} value @param {string} href */
export function countLink(value, href) {
  return value ? h("a", { class: "quiet-link", href }, figure(value)) : figure(value);
}

/** Return a figure with separators. @param {number} value */
export function figure(value) {
  return Number(value).toLocaleString("en-GB");
}

/** @param {number} count @param {string} noun in the plural */
export function countText(count, noun) {
  return `${figure(count)} ${count === 1 ? noun.replace(/s$/, "") : noun}`;
}

/** @param {number} part @param {number} whole */
export function percent(part, whole) {
  return whole ? `${((100 * part) / whole).toFixed(part && part < whole / 100 ? 1 : 0)} %` : "–";
}

/** Name rows that the server could not read, and why; nothing where there are none. @param {{row: string, code: string, unreadable: string}[]} [rows] */
export function unreadableRows(rows = []) {
  if (!rows.length) return null;
  const items = rows.map((one) => h("li", null, h("code", null, one.row), `: ${one.unreadable} (${one.code})`));
  return h(
    "div",
    { class: "problem" },
    h("p", { class: "problem-title" }, `${countText(rows.length, "rows")} cannot be shown`),
    h("ul", null, items),
  );
}

/**
 * Return a list that grows by pages: `load(cursor)` answers `{items, next_cursor}`; the first page may be given.
 * @param {(cursor: string | null) => Promise<any>} load @param {(items: any[], isAll: boolean) => Child} render all items so far, and whether there are no more @param {any} [first]
 */
export async function pagedList(load, render, first) {
  let page = first ?? (await load(null));
  let items = page.items;
  let unreadable = page.unreadable ?? [];
  const box = h("div", { class: "paged" });
  const paint = () =>
    put(
      box,
      unreadableRows(unreadable),
      render(items, !page.next_cursor),
      page.next_cursor ? button("Show more", more, { class: "more" }) : null,
    );
  const more = async () => {
    try {
      page = await load(page.next_cursor);
      items = [...items, ...page.items];
      unreadable = [...unreadable, ...(page.unreadable ?? [])];
      box.setAttribute("data-grown", "");
      paint();
    } catch (error) {
      box.append(problemBox(error, more));
    }
  };
  paint();
  return box;
}

/** Return a row of a list of verdicts, as columns for `table`. */
export function verdictColumns() {
  return [
    { name: "When", cell: (/** @type {any} */ one) => recordedAt(one.at, { seconds: true }) },
    {
      name: "Answer",
      cell: (/** @type {any} */ one) => h("a", { href: whyHref(one.segment_id), class: "plain" }, answer(one.outcome)),
    },
    {
      name: "Of",
      kind: "of",
      cell: (/** @type {any} */ one) => [h("span", { class: "soft" }, `${one.kind} `), streamLink(one.kind, one.id)],
    },
    { name: "Reasons", cell: (/** @type {any} */ one) => reasonChips(one.reasons) },
    {
      name: "Why",
      kind: "text",
      cell: (/** @type {any} */ one) =>
        h(
          "a",
          { href: whyHref(one.segment_id), class: "quiet-link" },
          one.explanation ? timedText(one.explanation) : "why",
        ),
    },
  ];
}
