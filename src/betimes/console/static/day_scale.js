/**
 * The scale of a day: its hours, the seam where daylight saving time changes, the bands behind the lanes, and now.
 */
import { svg } from "./dom.js";
import { HOUR, seamOf } from "./day_window.js";
import { clockText, now } from "./time.js";

/** @typedef {import("./day_lanes.js").Scale} Scale */
/** @typedef {import("./day_lanes.js").Lane} Lane */

const BEHIND = new Set(["quiet_hours", "incident", "ban", "paused"]);
const WORDS = /** @type {Record<string, string>} */ ({
  quiet_hours: "quiet hours",
  digest: "digest",
  cooldown: "cooldown",
  debounce: "debounce",
  incident: "incident",
  ban: "banned",
  grace: "grace",
  paused: "paused",
});

/** How tall the bar of a rest is, in pixels, and how far below the one above it. */
const BAR = 4;
const BAR_PITCH = 5;
/** The width of a letter in the names of bands, in pixels. */
const LETTER = 6;

/** Return what a band is, in words. @param {any} band */
export function bandWords(band) {
  return [WORDS[band.name] ?? band.name, band.label].filter(Boolean).join(": ");
}

/** Return whether a band is a bar in its lane. @param {any} band */
export function isBar(band) {
  return !BEHIND.has(band.name) && band.name !== "digest";
}

/** Return whether a band is a debounce, which stands above the cooldown that often begins with it. @param {any} band */
function isDebounce(band) {
  return band.name === "debounce";
}

/** @param {any} band @param {Scale} scale */
function spanOf(band, { x, seen }) {
  const begin = Math.max(seen.since, Date.parse(band.since));
  const end = Math.min(seen.until, band.until ? Date.parse(band.until) : seen.until);
  return end > begin ? { begin: x(begin), width: Math.max(2, x(end) - x(begin)) } : null;
}

/** Return bands that hold for the whole person, behind all lanes. @param {any[]} bands @param {Scale} scale @param {number} top @param {number} bottom */
export function bandsBehind(bands, scale, top, bottom) {
  return bands.filter((band) => BEHIND.has(band.name)).map((band) => {
    const span = spanOf(band, scale);
    if (!span) return null;
    const isWide = span.width > 70;
    return [
      svg("rect", { class: `band ${band.name}`, x: span.begin, y: top, width: span.width, height: bottom - top }),
      isWide ? svg("text", { class: "band-name", x: span.begin + 5, y: top - 5 }, bandWords(band)) : null,
    ];
  });
}

/** Return the bands of a lane: digests as marks of an instant, rests as bars. @param {any[]} bands @param {Lane} lane @param {Scale} scale */
export function bandsIn(bands, lane, scale) {
  /** Where the last name of a bar ends: one that would stand on it is left to the tooltip and the table. */
  let named = -Infinity;
  const names = lane.top + lane.height - 8 - (bands.some(isDebounce) ? BAR_PITCH : 0);
  return bands.filter((band) => !BEHIND.has(band.name)).map((band) => {
    const span = spanOf(band, scale);
    if (!span) return null;
    const isInstant = band.name === "digest";
    const y = isInstant ? lane.top : lane.top + lane.height - BAR_PITCH * (isDebounce(band) ? 2 : 1);
    const isWide = !isInstant && span.width > 60 && span.begin >= named;
    if (isWide) named = span.begin + LETTER * bandWords(band).length;
    return [
      isInstant ? bandShape(band, { begin: span.begin, width: 3 }, y, lane.height) : bandShape(band, span, y, BAR),
      isInstant || isWide
        ? svg("text", {
          class: "band-name",
          x: span.begin + (isInstant ? 6 : 2),
          y: isInstant ? lane.top + scale.above + 9 : names,
        }, bandWords(band))
        : null,
    ];
  });
}

/** Return the shape of a band in a lane: a debounce is dashed, so that it is told from a cooldown without colours. @param {any} band @param {{begin: number, width: number}} span @param {number} top @param {number} height */
function bandShape(band, { begin, width }, top, height) {
  const title = svg("title", null, bandWords(band));
  const middle = top + height / 2;
  return isDebounce(band)
    ? svg("line", { class: "band debounce", x1: begin, x2: begin + width, y1: middle, y2: middle }, title)
    : svg("rect", { class: `band ${band.name}`, x: begin, y: top, width, height }, title);
}

/** Return hours with their clock, and the seam. @param {Scale} scale @param {number} top @param {number} bottom */
export function axis(scale, top, bottom) {
  const { x, left, right, seen } = scale;
  const step = seen.until - seen.since <= 2 * HOUR ? HOUR / 6 : HOUR;
  const room = ((right - left) * step) / (seen.until - seen.since);
  const every = room > 44 ? 1 : room > 15 ? 3 : 6;
  const ticks = [];
  for (let at = seen.since; at <= seen.until; at += step) {
    const place = step < HOUR ? Math.round(at / step) : Number(clockText(at, seen.zone).slice(0, 2));
    const isNamed = place % every === 0;
    ticks.push(
      svg("line", { class: isNamed ? "tick named" : "tick", x1: x(at), x2: x(at), y1: top - 4, y2: bottom }),
      isNamed && x(at) < right - 8
        ? svg("text", { class: "hour", x: x(at) + 2, y: 12 }, clockText(at, seen.zone))
        : null,
    );
  }
  return [ticks, seam(scale, bottom)];
}

/** @param {Scale} scale @param {number} bottom */
function seam({ x, seen, right }, bottom) {
  const found = seamOf(seen);
  if (!found) return null;
  const at = x(found.at);
  const words = `UTC${found.before} becomes UTC${found.after}`;
  const isLeft = at < right - 260;
  return [
    svg("path", { class: "seam", d: `M${at - 1.5} 16V${bottom}M${at + 1.5} 16V${bottom}` }),
    svg(
      "text",
      { class: "seam-name", x: isLeft ? at + 6 : at - 6, y: 38, "text-anchor": isLeft ? "start" : "end" },
      words,
    ),
  ];
}

/** @param {Scale} scale @param {number} top @param {number} bottom */
export function nowLine({ x, seen, right }, top, bottom) {
  const at = now();
  if (at < seen.since || at >= seen.until) return null;
  const [beside, anchor] = x(at) > right - 80 ? [-4, "end"] : [4, "start"];
  return [
    svg("rect", { class: "ahead", x: x(at), y: top, width: Math.max(0, right - x(at)), height: bottom - top }),
    svg("line", { class: "now-line", x1: x(at), x2: x(at), y1: 16, y2: bottom }),
    svg(
      "text",
      { class: "now-name", x: x(at) + beside, y: 25, "text-anchor": anchor },
      `now, ${clockText(at, seen.zone)}`,
    ),
  ];
}
