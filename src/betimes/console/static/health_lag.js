/** How late alarms rang in the last 24 hours, hour by hour, and which ticks were the latest. */
import { get } from "./api.js";
import { h, put, svg } from "./dom.js";
import { folded } from "./forms.js";
import { facts, figure, problemBox, section, streamLink, table, whyHref } from "./parts.js";
import { may } from "./session.js";
import { agoText, axisText, clockText, dayText, durationText, now, when, zoneFor } from "./time.js";

/** @typedef {import("./router.js").View} View */
/** @typedef {{at: string, alarms: number, p50_ms: number | null, p99_ms: number | null, max_ms: number | null}} Hour */
const COUNTED_MAX = 200;
const LATEST = 5;
const HOUR_MS = 3_600_000;
/** From here on an alarm is late. */
const LATE_MS = 5_000;
const HEIGHT = 60;
/** The top of the chart, in milliseconds, at least: lesser lags must not look like great ones. */
const TOP_MS = 10_000;

/** @param {View} view @param {any} lag */
export function lagSection(view, lag) {
  return section(
    "How late alarms rang, last 24 hours",
    lag.alarms ? lagParts(lag) : h("p", { class: "soft" }, "No alarm rang in the last 24 hours."),
    may("automation:read") ? tickDetails(view) : null,
  );
}

/** @param {any} lag */
function lagParts(lag) {
  const rang = wakesHref(lag.since, lag.until);
  const zone = zoneFor(null);
  const hourText = (/** @type {string} */ at) => `${dayText(Date.parse(at), zone)} ${clockText(Date.parse(at), zone)}`;
  const link = (/** @type {string} */ href, /** @type {string} */ text) => h("a", { href }, text);
  const hrefOf = (/** @type {Hour} */ one) => wakesHref(one.at, new Date(Date.parse(one.at) + HOUR_MS).toISOString());
  const columns = [
    { name: "Hour", cell: (/** @type {Hour} */ one) => hourText(one.at) },
    { name: "Rang", kind: "number", cell: (/** @type {Hour} */ one) => link(hrefOf(one), figure(one.alarms)) },
    { name: "Half of them", kind: "number", cell: (/** @type {Hour} */ one) => lateText(one.p50_ms) },
    { name: "99 of 100", kind: "number", cell: (/** @type {Hour} */ one) => lateText(one.p99_ms) },
    { name: "The latest", kind: "number", cell: (/** @type {Hour} */ one) => lateText(one.max_ms, "") },
  ];
  const used = lag.hours.filter((/** @type {Hour} */ one) => one.alarms);
  return [
    facts([
      ["Alarms that rang", link(rang, figure(lag.alarms))],
      ["Half of them", link(rang, lateText(lag.p50_ms))],
      ["99 of 100", link(rang, lateText(lag.p99_ms))],
      ["The latest", link(rang, lateText(lag.max_ms, ""))],
    ]),
    h("div", { class: "lags" }, lagStrip(lag.hours, hourText)),
    h(
      "div",
      { class: "axis" },
      [0, 6, 12, 18, 23].map((place) => Date.parse(lag.hours[place].at)).map((at, place, all) =>
        h("span", null, axisText(at, all[place - 1], zone))
      ),
    ),
    h(
      "p",
      { class: "soft" },
      "Dark: half of them. Light: 99 of 100. Red: later than 5 s. The scale is logarithmic.",
    ),
    folded(
      "The same as a table",
      () => table({ caption: "How late alarms rang, newest first", columns, rows: [...used].reverse() }),
    ),
  ];
}

/** Return where the segments of alarms that rang are listed. @param {string} since @param {string} until */
function wakesHref(since, until) {
  return `/console/ledger?${new URLSearchParams({ command_type: "Wake", since, until })}`;
}

/** @param {number | null} ms @param {string} [most] */
function lateText(ms, most = "≤ ") {
  return ms === null ? "–" : ms < 1 ? "on time" : `${most}${durationText(ms)} late`;
}

/** Return a bar an hour, as high as the logarithm of how late its alarms rang. @param {Hour[]} hours @param {(at: string) => string} textOf */
function lagStrip(hours, textOf) {
  const width = 960;
  const step = width / hours.length;
  const top = Math.log10(1 + Math.max(TOP_MS, ...hours.map((one) => one.p99_ms ?? 0)));
  const bar = (/** @type {number} */ place, /** @type {number} */ ms, /** @type {string} */ name) => {
    const tall = Math.max(3, (HEIGHT * Math.log10(1 + ms)) / top);
    return svg("rect", { class: name, x: place * step + 1, y: HEIGHT - tall, width: step - 2, height: tall });
  };
  return svg(
    "svg",
    { class: "lag-strip", viewBox: `0 0 ${width} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    hours.map((one, place) =>
      one.p50_ms === null || one.p99_ms === null ? null : svg(
        "g",
        { class: one.p99_ms > LATE_MS ? "hot" : null },
        svg("title", null, `${textOf(one.at)}: ${figure(one.alarms)} rang, 99 of 100 ${lateText(one.p99_ms)}`),
        bar(place, one.p99_ms, "most"),
        bar(place, one.p50_ms, "half"),
      )
    ),
  );
}

/** Return which ticks were the latest in the last day, asked for when it is opened. @param {View} view */
function tickDetails(view) {
  const box = h("div", { role: "status" }, h("p", { class: "soft" }, "Loading…"));
  const load = async () => {
    try {
      const since = new Date(now() - 24 * HOUR_MS).toISOString();
      const { items } = await get("/v1/ticks", { since, limit: COUNTED_MAX }, view.signal);
      put(box, lateTicks(items.filter((/** @type {any} */ one) => one.lag_ms != null && one.cause !== "backfill")));
    } catch (error) {
      if (!view.signal.aborted) put(box, problemBox(error, load));
    }
  };
  return folded("Which ticks of schedules were the latest", () => (void load(), box));
}

/** @param {any[]} ticks */
function lateTicks(ticks) {
  if (!ticks.length) return h("p", { class: "soft" }, "Nothing ticked in the last 24 hours.");
  const worst = [...ticks].sort((one, other) => other.lag_ms - one.lag_ms).slice(0, LATEST);
  const columns = [
    { name: "Schedule", cell: (/** @type {any} */ one) => streamLink("schedule", one.schedule_id) },
    { name: "Late", kind: "number", cell: (/** @type {any} */ one) => durationText(one.lag_ms) },
    {
      name: "Due",
      cell: (/** @type {any} */ one) =>
        h("a", { href: whyHref(one.segment_id), title: agoText(one.scheduled_for) }, when(one.scheduled_for)),
    },
  ];
  const isPart = ticks.length >= COUNTED_MAX - 1;
  return [
    isPart ? h("p", { class: "soft" }, `Among the last ${figure(ticks.length)} ticks.`) : null,
    table({ caption: "The latest ticks of the last 24 hours", columns, rows: worst }),
  ];
}
