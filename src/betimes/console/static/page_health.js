/** Health: is betimes on time, what is stuck, who works here. */
import { get, grafana, part } from "./api.js";
import { actionButton } from "./actions.js";
import { h, put } from "./dom.js";
import { lagSection } from "./health_lag.js";
import { ledgerSection, loadGrowth } from "./health_ledger.js";
import { processSection, timesSection } from "./health_speed.js";
import { pendingHref, pendingSection, RATE_STEP, rateSection } from "./health_work.js";
import { onPulse } from "./live.js";
import { emptyState, facts, figure, pageHead, section, streamLink, table, tile } from "./parts.js";
import { may } from "./session.js";
import { agoText, spanText, when } from "./time.js";

/** Orphaned executors that a tile names. */
const NAMED = 3;

/** The names that it knows in a query. @type {string[]} */
export const QUERY = ["kind", "id"];

/** @param {import("./router.js").View} view */
export async function show(view) {
  view.title("Health");
  const [backlog, health, snoozed, stats, growth, processes, times, ready] = await Promise.all([
    get("/v1/backlog", {}, view.signal),
    get("/v1/health", {}, view.signal),
    get("/v1/streams", { snoozed: true, limit: 100 }, view.signal),
    get("/v1/stats", { by: "domain", step: RATE_STEP }, view.signal),
    loadGrowth(view.signal),
    may("admin") ? get("/v1/processes", {}, view.signal) : null,
    may("admin") ? get("/v1/request-times", {}, view.signal) : null,
    get("/readyz", {}, view.signal).catch((error) => ({ problem: error })),
  ]);
  const tiles = h("div", { class: "tiles", on: { click: jump } });
  const paint = (/** @type {any} */ found) => put(tiles, backlogTiles(found));
  paint(backlog);
  onPulse((frame) => paint(frame.health), view.signal);
  put(
    view.main,
    pageHead("Health", headWords(ready), dashboardLink()),
    ready.problem || ready.warnings?.length ? readySection(ready) : null,
    tiles,
    lagSection(view, health.alarm_lag),
    h(
      "div",
      { class: health.executors.length || snoozed.items.length ? null : "columns" },
      h("div", { id: "pending", tabindex: "-1" }, pendingSection(health.executors)),
      h("div", { id: "snoozed", tabindex: "-1" }, snoozedSection(snoozed.items, view)),
    ),
    rateSection(stats),
    ledgerSection(view, growth, health.verifications),
    times ? timesSection(times) : null,
    processes ? processSection(processes.items) : null,
  );
}

/** Lead to the dashboard in Grafana, or to the one that can be imported there. */
function dashboardLink() {
  return grafana ? h("a", { class: "button", href: grafana, rel: "noreferrer" }, "Open in Grafana") : h(
    "a",
    { class: "button", href: "/console/grafana.json", download: "betimes-grafana.json" },
    "Dashboard for Grafana",
  );
}

/** Go to a part of this page, without loading it again. @param {Event} event */
function jump(event) {
  const link = event.target instanceof Element ? event.target.closest("a[href^='#']") : null;
  const goal = link && document.getElementById((link.getAttribute("href") ?? "").slice(1));
  if (!goal) return;
  event.preventDefault();
  goal.focus({ preventScroll: true });
  goal.scrollIntoView({ block: "start" });
}

/** @param {any} found */
function backlogTiles(found) {
  const late = found.oldest_alarm_at ? Math.max(0, Date.parse(found.now) - Date.parse(found.oldest_alarm_at)) : 0;
  const more = found.capped ? "or more" : null;
  const orphans = Object.keys(found.orphaned ?? {});
  const due = found.alarms_due ? `/console/next?to=${part(found.now)}` : "/console/next";
  return [
    tile("Oldest alarm", late ? `${spanText(late)} late` : "on time", {
      tone: late > 5000 ? "bad" : "",
      href: due,
      below: found.oldest_alarm_at ? agoText(found.oldest_alarm_at) : "nothing is late",
    }),
    tile("Alarms due", figure(found.alarms_due), { href: due, below: more }),
    tile("Snoozed wakes", figure(found.snoozed), {
      tone: found.snoozed ? "bad" : "",
      href: "#snoozed",
      below: found.snoozed ? "each with its error below" : "none",
    }),
    tile("Effects pending", figure(found.effects_pending), {
      href: "/console/effects?status=pending",
      below: more ??
        (found.effects_failing ? `${figure(found.effects_failing)} of them failed and are tried again` : null),
    }),
    tile("Dead letters", figure(found.effects_dead), {
      tone: found.effects_dead ? "bad" : "",
      href: "/console/effects?status=dead",
      below: found.effects_dead ? "retry or discard them" : "none",
    }),
    tile("Overdue checks", figure(found.checks_overdue), {
      tone: found.checks_overdue ? "bad" : "",
      href: "/console/intents?view=pending",
      below: found.oldest_check_at ? ["no worker takes them; due ", agoText(found.oldest_check_at)] : "none",
    }),
    tile("Without an executor", figure(orphans.length), {
      tone: orphans.length ? "bad" : "",
      href: "#pending",
      below: orphans.length
        ? orphans.slice(0, NAMED).map((name) => h("div", null, h("a", { href: pendingHref(name) }, name)))
        : "somebody carries out everything",
    }),
  ];
}

/** @param {any} ready */
function headWords(ready) {
  const what = "Whether everything rings on time, and what is stuck.";
  return ready.problem ? what : `${what} The engine is open, and the store can be read and written.`;
}

/** Say why the server cannot take work, or what should be looked at although it can. @param {any} ready */
function readySection(ready) {
  if (ready.problem) {
    return section("Not ready", h("p", { class: "answer never" }, "Not ready"), h("p", null, ready.problem.detail));
  }
  return section("Warnings", h("ul", null, ready.warnings.map((/** @type {string} */ one) => h("li", null, one))));
}

/** @param {any[]} rows @param {import("./router.js").View} view */
function snoozedSection(rows, view) {
  const columns = [
    {
      name: "Stream",
      cell: (/** @type {any} */ one) => [h("span", { class: "soft" }, `${one.kind} `), streamLink(one.kind, one.id)],
    },
    { name: "Status", cell: (/** @type {any} */ one) => one.status ?? "–" },
    { name: "Rings again", cell: (/** @type {any} */ one) => when(one.snooze_until) },
    { name: "Error", kind: "text", cell: (/** @type {any} */ one) => one.snooze_error ?? "–" },
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
            before: facts([["Its last wake failed", one.snooze_error], ["Rings by itself", when(one.snooze_until)]]),
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
