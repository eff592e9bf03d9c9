/** Health: is betimes on time, what is stuck, who works here. */
import { get, part } from "./api.js";
import { actionButton } from "./actions.js";
import { densityStrip } from "./charts.js";
import { h, put } from "./dom.js";
import { folded } from "./forms.js";
import { ledgerSection, loadGrowth } from "./health_ledger.js";
import { latenessDetails, pendingSection } from "./health_work.js";
import { onPulse } from "./live.js";
import { answer, emptyState, facts, figure, pageHead, section, shareBar, streamLink, table, tile } from "./parts.js";
import { may } from "./session.js";
import { agoText, durationText, isVirtual, spanText, when } from "./time.js";

/** Routes whose times are shown at once. */
const TIMES = 8;

/** @param {import("./router.js").View} view */
export async function show(view) {
  view.title("Health");
  const [backlog, snoozed, stats, growth, processes, times, ready] = await Promise.all([
    get("/v1/backlog", {}, view.signal),
    get("/v1/streams", { snoozed: true, limit: 100 }, view.signal),
    get("/v1/stats", { by: "domain", step: "15m" }, view.signal),
    loadGrowth(view.signal),
    may("admin") ? get("/v1/processes", {}, view.signal) : null,
    may("admin") ? get("/v1/request-times", {}, view.signal) : null,
    get("/readyz", {}, view.signal).catch((error) => ({ problem: error })),
  ]);
  const pending = await pendingSection(backlog, view.signal);
  const tiles = h("div", { class: "tiles" });
  const paint = (/** @type {any} */ found) => put(tiles, backlogTiles(found));
  paint(backlog);
  onPulse((frame) => paint(frame.health), view.signal);
  put(
    view.main,
    pageHead("Health", "Whether everything rings on time, and what is stuck."),
    tiles,
    readySection(ready, view),
    pending,
    rateSection(stats),
    snoozedSection(snoozed.items, view),
    times ? timesSection(times) : null,
    ledgerSection(view, growth),
    processes ? processSection(processes.items) : null,
  );
}

/** @param {any} found */
function backlogTiles(found) {
  const late = found.oldest_alarm_at ? Math.max(0, Date.parse(found.now) - Date.parse(found.oldest_alarm_at)) : 0;
  const more = found.capped ? "or more" : null;
  const orphans = Object.entries(found.orphaned ?? {});
  return [
    tile("Oldest alarm", late ? `${spanText(late)} late` : "on time", {
      tone: late > 5000 ? "bad" : "",
      href: "/console/next",
      below: found.oldest_alarm_at ? agoText(found.oldest_alarm_at) : "nothing is late",
    }),
    tile("Alarms due", figure(found.alarms_due), { href: "/console/next", below: more }),
    tile("Effects pending", figure(found.effects_pending), { href: "/console/effects?status=pending", below: more }),
    tile("Dead letters", figure(found.effects_dead), {
      tone: found.effects_dead ? "bad" : "",
      href: "/console/effects?status=dead",
      below: found.effects_dead ? "retry or discard them" : "none",
    }),
    tile("Snoozed wakes", figure(found.snoozed), {
      tone: found.snoozed ? "bad" : "",
      below: found.snoozed ? "each with its error below" : "none",
    }),
    tile("Without an executor", figure(orphans.length), {
      tone: orphans.length ? "bad" : "",
      href: "/console/effects",
      below: orphans.length
        ? orphans.map(([name, count]) => `${name}: ${count}`).slice(0, 3).join(", ")
        : "somebody carries out everything",
    }),
  ];
}

/** @param {any} ready @param {import("./router.js").View} view */
function readySection(ready, view) {
  if (ready.problem) {
    return section("Ready", h("p", { class: "answer never" }, "Not ready"), h("p", null, ready.problem.detail));
  }
  const warnings = ready.warnings ?? [];
  return section(
    "Ready",
    h("p", null, "The engine is open, and the store can be read and written."),
    warnings.length ? h("ul", null, warnings.map((/** @type {string} */ one) => h("li", null, one))) : null,
    may("automation:read") ? latenessDetails(view) : null,
  );
}

/** @param {any} stats */
function rateSection(stats) {
  const steps = Math.round((Date.parse(stats.until) - Date.parse(stats.since)) / 900_000);
  const domains = [...new Set(stats.cells.map((/** @type {any} */ one) => one.domain))];
  const rows = domains.map((domain) => {
    const counts = new Array(steps).fill(0);
    for (const cell of stats.cells) {
      if (cell.domain === domain) {
        counts[Math.round((Date.parse(cell.at) - Date.parse(stats.since)) / 900_000)] += cell.count;
      }
    }
    return { domain, counts, total: counts.reduce((sum, one) => sum + one, 0) };
  });
  const columns = [
    {
      name: "Domain",
      cell: (/** @type {any} */ one) => h("a", { href: `/console?domain=${part(one.domain)}` }, one.domain),
    },
    { name: "Decided", kind: "number", cell: (/** @type {any} */ one) => figure(one.total) },
    {
      name: "A minute, at most",
      kind: "number",
      cell: (/** @type {any} */ one) => figure(Math.ceil(Math.max(0, ...one.counts) / 1.5) / 10),
    },
    {
      name: "By quarter of an hour",
      kind: "text",
      cell: (/** @type {any} */ one) => h("div", { class: "wide-cell" }, densityStrip(one.counts)),
    },
  ];
  const empty = emptyState("Nothing was decided in the last day", "The rate of verdicts stands here.");
  return section(
    "Rate of verdicts, last 24 hours",
    stats.complete ? null : h("p", { class: "soft" }, "Still counting: the tally has not read the whole ledger."),
    table({ caption: "Verdicts by domain", columns, rows, empty }),
  );
}

/** @param {any[]} rows @param {import("./router.js").View} view */
function snoozedSection(rows, view) {
  const columns = [
    {
      name: "Stream",
      cell: (/** @type {any} */ one) => [h("span", { class: "soft" }, `${one.kind} `), streamLink(one.kind, one.id)],
    },
    { name: "Status", cell: (/** @type {any} */ one) => one.status ?? "–" },
    { name: "Rings again", cell: (/** @type {any} */ one) => when(one.snoozed_until ?? one.wake_at) },
    { name: "Error", kind: "text", cell: (/** @type {any} */ one) => one.error ?? one.snooze_error ?? "–" },
    {
      name: "",
      cell: (/** @type {any} */ one) =>
        actionButton(
          "Ring now",
          () => ({
            title: `Ring ${one.kind} ${one.id}`,
            scope: "tick",
            method: "POST",
            path: `/v1/streams/${part(one.kind)}/${part(one.id)}/wake`,
            before: facts([["Its last wake failed", one.error ?? one.snooze_error], [
              "Rings by itself",
              when(one.snoozed_until ?? one.wake_at),
            ]]),
            done: view.refresh,
          }),
          { class: "small", "aria-label": `Ring now: ${one.kind} ${one.id}` },
        ),
    },
  ];
  const empty = emptyState(
    "No wake is snoozed",
    "A stream whose wake fails is left alone for a while and then rung again; until then it stands here with its error.",
  );
  return section("Snoozed wakes", table({ caption: "Streams whose wake failed", columns, rows, empty }));
}

/** @param {{items: any[], batches: any}} times the slowest first */
function timesSection({ items: rows, batches }) {
  const most = 1 + Math.max(0, ...rows.map((one) => one.p99_ms ?? 60_000));
  const text = (/** @type {number | null} */ ms) => (ms === null ? "> 30 s" : `≤ ${durationText(ms)}`);
  const columns = [
    {
      name: "Request",
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
    batches ? h("p", null, batchWords(batches)) : null,
  );
}

/** Say how much one commit writes. @param {{p50: number | null, p99: number | null}} batches */
function batchWords({ p50, p99 }) {
  const text = (/** @type {number | null} */ most) => most === null ? "more than 1,024" : `at most ${figure(most)}`;
  return `Half of the commits wrote ${text(p50)} segment${p50 === 1 ? "" : "s"}, 99 of 100 ${text(p99)}.`;
}

/** @param {any[]} rows */
function processSection(rows) {
  const columns = [
    {
      name: "Process",
      cell: (/** @type {any} */ one) => h("span", { class: "id" }, one.name),
    },
    { name: "Role", cell: (/** @type {any} */ one) => one.role },
    { name: "Version", cell: (/** @type {any} */ one) => one.version },
    {
      name: "Carries out",
      kind: "text",
      cell: (/** @type {any} */ one) => one.executors.slice(0, 6).join(", ") || "–",
    },
    {
      name: "Alive",
      cell: (/** @type {any} */ one) => answer(one.alive ? "active" : one.role === "closed" ? "closed" : "dead"),
    },
    // Processes live in real time, from which a virtual clock may be months away.
    { name: "Last seen", cell: (/** @type {any} */ one) => when(one.seen_at, { relative: !isVirtual() }) },
  ];
  const empty = emptyState(
    "No process has reported",
    "Processes say that they are there every few seconds; by a virtual clock they may not.",
  );
  return section(
    "Processes",
    table({ caption: "Processes that work on this database", columns, rows, empty }),
  );
}
