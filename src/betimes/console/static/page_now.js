/**
 * Now: how much was decided and how, why not now, and every answer as it happens.
 *
 * Range, brush and filters stand in the query. The counts come from the tally and are asked for again when a pulse says
 * that something was decided, at most every ten seconds; the rows below come with the pulses themselves.
 */
import { get } from "./api.js";
import { CLASSES, sparkline } from "./charts.js";
import { h, put } from "./dom.js";
import { chosenFilters, filterBar } from "./filters.js";
import { bucketsOf, comparedMs, domainsOf, instant, loadCounts, RANGES, reasonsOf, windowOf } from "./now_counts.js";
import { liveRows } from "./now_rows.js";
import { answersSection, OUTCOMES, WORDS } from "./now_answers.js";
import { onPulse } from "./live.js";
import { answer, emptyState, figure, mark, pageHead, percent, section, shareBar, table, tabs, tile } from "./parts.js";
import { addressWith } from "./router.js";
import { readableDomains } from "./server.js";
import { now, rangeText, zoneFor } from "./time.js";

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
    pageHead("Now", "What is decided, how, and why not now.", ...moves(seen), rangeTabs(view, seen.range)),
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

/** @param {View} view @param {import("./now_counts.js").Range} chosen */
function rangeTabs(view, chosen) {
  return tabs(
    "Range",
    Object.entries(RANGES).map(([key, one]) => ({
      text: one.name,
      href: addressWith({ range: key === "24h" ? null : key, from: null, to: null, until: null }),
      current: one.name === chosen.name,
    })),
  );
}

/** Name the range if it has ended; what was brushed of it stands among the filters. @param {import("./now_counts.js").Window} seen */
function rangeChip({ since, until, isBrushed, isPast }) {
  if (!isPast || isBrushed) return null;
  return h(
    "p",
    { class: "chips filter-chips" },
    "Only ",
    h("a", { class: "chip", href: addressWith({ until: null }) }, `${rangeText(since, until, zoneFor(null))} ✕`),
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
    const href = addressWith({ domain: one.domain, outcome: [...one.outcomes[name]].sort().join(","), reason: null });
    return h(
      "a",
      { class: `share ${name}`, href, title: `${WORDS[name]}: ${figure(one.counts[name])}` },
      mark(OUTCOMES[name]),
      percent(one.counts[name], one.total),
    );
  });
  const below = [
    sparkline(one.over),
    h("div", { class: "shares" }, shares),
    h(
      "div",
      null,
      h("a", { class: "quiet-link", href: earlierHref(one.domain, seen) }, deltaText(one, seen.range.before)),
    ),
  ];
  return tile(one.domain, figure(one.total), {
    href: addressWith({ domain: one.domain, outcome: null, reason: null }),
    below,
  });
}

/** Return the address of the time that a range is compared with. @param {string} domain @param {import("./now_counts.js").Window} seen */
function earlierHref(domain, seen) {
  const at = { from: seen.from - comparedMs(seen.range), to: seen.to - comparedMs(seen.range) };
  return addressWith({ domain, from: instant(at.from), to: instant(at.to), until: instant(at.to) });
}

/** @param {{total: number, earlier: number}} counts @param {string} before */
function deltaText({ total, earlier }, before) {
  if (!earlier) return `nothing ${before}`;
  // Of a few, or of a time when hardly anything had begun, a percentage says nothing.
  if (earlier < COMPARED_MIN || total > 10 * earlier) return `${figure(earlier)} ${before}`;
  const change = Math.round((100 * (total - earlier)) / earlier);
  return change ? `${Math.abs(change)} % ${change > 0 ? "more" : "fewer"} than ${before}` : `as many as ${before}`;
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
