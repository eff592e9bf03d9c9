/**
 * Now: how much was decided and how, why not now, and every answer as it happens.
 *
 * Range, brush and filters stand in the query. The counts come from the tally and are asked for again when a pulse says
 * that something was decided, at most every ten seconds; the rows below come with the pulses themselves.
 */
import { get } from "./api.js";
import { CLASSES, sparkline, stackedStrip, total } from "./charts.js";
import { h, put } from "./dom.js";
import { chosenFilters, filterBar } from "./filters.js";
import { bucketsOf, domainsOf, instant, loadCounts, RANGES, reasonsOf, sum, windowOf } from "./now_counts.js";
import { liveRows } from "./now_rows.js";
import { onPulse } from "./live.js";
import { answer, emptyState, figure, mark, pageHead, percent, section, shareBar, table, tabs, tile } from "./parts.js";
import { addressWith } from "./router.js";
import { readableDomains } from "./server.js";
import { clockText, dayText, now, partsOf, spanText, zoneFor } from "./time.js";

/** @typedef {import("./router.js").View} View */
const RELOAD_MS = 10_000;
/** Decisions of an earlier time that a share of them says something about. */
const COMPARED_MIN = 20;
const NAMES = /** @type {const} */ (["domain", "outcome", "reason"]);
const FILTERS = [
  ...NAMES.map((name) => ({ name, label: name[0].toUpperCase() + name.slice(1) })),
  { name: "from", label: "Since", text: "since", isInstant: true },
  { name: "to", label: "Until", text: "until", isInstant: true },
];
/** Names in the query that choose the time, which the page gives to the server in its own way. */
const OWN = ["range", "from", "to", "until"];
const WORDS = { now: "now", later: "later", never: "never", other: "other" };
const OUTCOMES = { now: "NOW", later: "LATER", never: "NEVER", other: "…" };

/** @param {View} view */
export async function show(view) {
  view.title("Now");
  const filters = Object.fromEntries(NAMES.map((name) => [name, view.query.get(name)]));
  const counted = h("div");
  const seen = windowOf(view.query);
  const window = seen.isPast ? { since: instant(seen.from), until: instant(seen.to) } : {};
  const paint = async () => {
    const fresh = windowOf(view.query);
    const counts = await loadCounts(fresh, filters, view.signal);
    put(counted, ...countedParts(view, fresh, counts, filters.domain));
  };
  const [page] = await Promise.all([
    // What the page does not know is sent on: the server says what it does not know either.
    get("/v1/verdicts", { ...chosenFilters(view, OWN), limit: 40, ...filters, ...window }, view.signal),
    paint(),
  ]);
  const rows = liveRows(view, page.items, filters, seen.isPast);
  put(
    view.main,
    pageHead("Now", "What is decided, how, and why not now.", ...moves(seen), rangeTabs(view)),
    filterBar(view, FILTERS, ["range", "until"]),
    rangeChip(seen),
    counted,
    rows,
  );
  if (!seen.isPast) keepFresh(view, paint);
}

/** Count again after pulses that say that something was decided. @param {View} view @param {() => Promise<void>} paint */
function keepFresh(view, paint) {
  let last = performance.now();
  let busy = false;
  onPulse(async (frame) => {
    if (!frame.total || busy || performance.now() - last < RELOAD_MS) return;
    busy = true;
    await paint().catch(() => {});
    last = performance.now();
    busy = false;
  }, view.signal);
}

/** Return links to the range before this one and after it. @param {import("./now_counts.js").Window} seen */
function moves({ since, until, range, isPast }) {
  const later = until + range.hours * 3_600_000;
  const none = { from: null, to: null };
  const link = (/** @type {string} */ text, /** @type {string} */ key, /** @type {number | null} */ end) =>
    h(
      "a",
      {
        class: "button",
        href: addressWith({ ...none, until: end === null ? null : instant(end) }),
        [`data-${key}`]: true,
      },
      text,
    );
  return [
    link("← Earlier", "earlier", since),
    isPast ? link("Later →", "later", later <= now() ? later : null) : null,
  ];
}

/** @param {View} view */
function rangeTabs(view) {
  const chosen = view.query.get("range") ?? "24h";
  return tabs(
    "Range",
    Object.entries(RANGES).map(([key, one]) => ({
      text: one.name,
      href: addressWith({ range: key === "24h" ? null : key, from: null, to: null, until: null }),
      current: key === chosen,
    })),
  );
}

/** Name the range if it has ended; what was brushed of it stands among the filters. @param {import("./now_counts.js").Window} seen */
function rangeChip({ since, until, isBrushed, isPast }) {
  if (!isPast || isBrushed) return null;
  const zone = zoneFor(null);
  const [from, to] = [since, until].map((at) => `${dayText(at, zone)} ${clockText(at, zone)}`);
  return h(
    "p",
    { class: "chips filter-chips" },
    "Only ",
    h("a", { class: "chip", href: addressWith({ until: null }) }, `${from} – ${to} ✕`),
  );
}

/** @param {View} view @param {import("./now_counts.js").Window} seen @param {any} counts @param {string | null} only */
function countedParts(view, seen, { strip, reasons, before }, only) {
  const all = domainsOf(strip, before, seen, only ? [only] : readableDomains());
  const buckets = bucketsOf(strip, seen);
  return [
    h("div", { class: "tiles" }, all.map((one) => domainTile(one, seen))),
    answersSection(view, seen, buckets, strip),
    whyNotSection(reasons),
  ];
}

/** @param {ReturnType<typeof domainsOf>[number]} one @param {import("./now_counts.js").Window} seen */
function domainTile(one, seen) {
  const shares = CLASSES.filter((name) => one.counts[name]).map((name) => {
    const [outcome, ...others] = one.outcomes[name];
    const href = others.length ? null : addressWith({ domain: one.domain, outcome, reason: null });
    return h(
      href ? "a" : "span",
      { class: `share ${name}`, href, title: `${WORDS[name]}: ${figure(one.counts[name])}` },
      mark(OUTCOMES[name]),
      percent(one.counts[name], one.total),
    );
  });
  const below = [
    sparkline(one.over),
    h("div", { class: "shares" }, shares),
    h("div", null, deltaText(one.total, one.earlier, seen.range.before)),
  ];
  return tile(one.domain, figure(one.total), {
    href: addressWith({ domain: one.domain, outcome: null, reason: null }),
    below,
  });
}

/** @param {number} total @param {number} earlier @param {string} before */
function deltaText(total, earlier, before) {
  if (!earlier) return `nothing ${before}`;
  // Of a few, or of a time when hardly anything had begun, a percentage says nothing.
  if (earlier < COMPARED_MIN || total > 10 * earlier) return `${figure(earlier)} ${before}`;
  const change = Math.round((100 * (total - earlier)) / earlier);
  return change ? `${Math.abs(change)} % ${change > 0 ? "more" : "fewer"} than ${before}` : `as many as ${before}`;
}

/** @param {View} view @param {import("./now_counts.js").Window} seen @param {import("./now_counts.js").Bucket[]} buckets @param {any} strip */
function answersSection(view, seen, buckets, strip) {
  const zone = zoneFor(null);
  const inWindow = buckets.filter((one) => one.at >= seen.from && one.at < seen.to);
  const totals = Object.fromEntries(CLASSES.map((name) => [name, sum(inWindow.map((one) => one.counts[name]))]));
  const chart = stackedStrip(buckets, {
    from: seen.isBrushed ? seen.from : undefined,
    to: seen.isBrushed ? seen.to : undefined,
  });
  brush(chart, seen, (from, to) => view.setQuery({ from: instant(from), to: instant(to) }));
  const instants = [0, 0.25, 0.5, 0.75, 1].map((share) => seen.since + share * (seen.until - seen.since));
  const offsets = instants.map((at) => partsOf(at, zone).offset);
  const marks = instants.map((at, place) =>
    h(
      "span",
      null,
      axisText(at, seen, zone),
      offsets[place] === offsets[place - 1] ? null : h("span", { class: "offset" }, ` ${offsets[place]}`),
    )
  );
  const narrow = (/** @type {any} */ one) =>
    addressWith({ from: instant(one.at), to: instant(one.at + seen.range.stepMs) });
  const columns = [
    { name: "From", cell: (/** @type {any} */ one) => h("a", { href: narrow(one) }, one.label) },
    ...CLASSES.map((name) => ({
      name: WORDS[name],
      cell: (/** @type {any} */ one) => figure(one.counts[name]),
      kind: "number",
    })),
  ];
  const legend = h(
    "div",
    { class: "legend" },
    CLASSES.map((name) => h("span", null, mark(OUTCOMES[name]), ` ${WORDS[name]} ${figure(totals[name])}`)),
    h(
      "span",
      { class: "most" },
      `at most ${figure(Math.max(...buckets.map((one) => total(one.counts))))} in ${spanText(seen.range.stepMs)}`,
    ),
    strip.complete ? null : h("span", null, "still counting"),
  );
  return section(
    "Answers",
    legend,
    h("div", { class: "brush" }, chart),
    h("div", { class: "axis" }, marks),
    h(
      "details",
      null,
      h("summary", null, "The same as a table"),
      table({ caption: "Answers over time", columns, rows: buckets.filter((one) => sum(Object.values(one.counts))) }),
    ),
  );
}

/** @param {number} at @param {import("./now_counts.js").Window} seen @param {string} zone */
function axisText(at, seen, zone) {
  return seen.range.hours > 24 ? dayText(at, zone) : clockText(at, zone);
}

/** Let a part of the strip be chosen by dragging. @param {SVGElement} chart @param {import("./now_counts.js").Window} seen @param {(from: number, to: number) => void} chosen */
function brush(chart, seen, chosen) {
  /** @type {number | null} */
  let began = null;
  const at = (/** @type {PointerEvent} */ event) => {
    const box = chart.getBoundingClientRect();
    const share = Math.min(0.9999, Math.max(0, (event.clientX - box.left) / box.width));
    return seen.since + Math.floor((share * (seen.until - seen.since)) / seen.range.stepMs) * seen.range.stepMs;
  };
  chart.addEventListener("pointerdown", (event) => {
    began = at(event);
    chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener("pointerup", (event) => {
    if (began === null) return;
    const ended = at(event);
    chosen(Math.min(began, ended), Math.max(began, ended) + seen.range.stepMs);
    began = null;
  });
}

/** @param {any} reasons */
function whyNotSection(reasons) {
  const rows = reasonsOf(reasons).slice(0, 12);
  const most = Math.max(1, ...rows.map((one) => one.count));
  const columns = [
    {
      name: "Reason",
      cell: (/** @type {any} */ one) => h("a", { href: addressWith({ reason: one.reason }) }, one.reason),
    },
    {
      name: "Answer",
      cell: (/** @type {any} */ one) =>
        h("span", { class: "chips" }, [...one.outcomes].map((outcome) => answer(outcome))),
    },
    {
      name: "Count",
      kind: "number",
      cell: (/** @type {any} */ one) => h("a", { href: addressWith({ reason: one.reason }) }, figure(one.count)),
    },
    {
      name: "Share",
      cell: (/** @type {any} */ one) => shareBar(one.count, most),
    },
    {
      name: "Trend",
      cell: (/** @type {any} */ one) => h("span", { class: "trend" }, sparkline(one.over, { width: 90, height: 18 })),
    },
  ];
  const empty = emptyState(
    "Nothing was put off or refused",
    "Reasons stand here as soon as an answer is later or never.",
  );
  return section(
    "Why not now",
    table({ caption: "Reasons of answers that were later or never", columns, rows, empty }),
  );
}
