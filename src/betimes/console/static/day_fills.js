/** How full each window was and will be, as steps against its cap. */
import { svg } from "./dom.js";
import { spanText } from "./time.js";

const TALL = 26;
const SHOWN_MAX = 8;

/** Return what a window counts, in words. @param {any} fill */
export function fillWords(fill) {
  const span = spanText(fill.span_s * 1000);
  return ["burst", "hour", "day"].includes(fill.name)
    ? `told in ${span}`
    : `${fill.name.replaceAll("_", " ").toLowerCase()}, ${span}`;
}

/** Return the most there was in a window. @param {any} fill */
export function peakOf(fill) {
  return Math.max(0, ...fill.points.map((/** @type {any} */ point) => point.count));
}

/** @param {any[]} fills @param {import("./day_lanes.js").Scale} scale @param {number} top */
export function fillRows(fills, scale, top) {
  const shown = fills.filter((fill) => peakOf(fill) > 0).slice(0, SHOWN_MAX);
  const pitch = scale.above + TALL + 12;
  const drawn = shown.map((fill, place) => row(fill, scale, top + place * pitch + scale.above));
  const names = shown.map((fill, place) => nameOf(fill, scale.above, top + place * pitch));
  return { drawn, names, bottom: top + shown.length * pitch };
}

/** @param {any} fill @param {number} above @param {number} top */
function nameOf(fill, above, top) {
  const isFull = peakOf(fill) >= fill.cap;
  const peak = svg("tspan", { class: `fill-peak ${isFull ? "full" : ""}` }, `at most ${peakOf(fill)} of ${fill.cap}`);
  if (above) return svg("text", { class: "fill-name", x: 4, y: top + 11 }, fillWords(fill), "  ", peak);
  peak.setAttribute("x", "0");
  peak.setAttribute("dy", "13");
  return svg("text", { class: "fill-name", x: 0, y: top + 10 }, fillWords(fill), peak);
}

/** @param {any} fill @param {import("./day_lanes.js").Scale} scale @param {number} top */
function row(fill, { x, left, right, seen }, top) {
  const most = Math.max(fill.cap, peakOf(fill), 1);
  const y = (/** @type {number} */ count) => top + TALL - (TALL * count) / most;
  let path = `M${left} ${top + TALL}V${y(0)}`;
  for (const point of fill.points) {
    const at = Math.max(left, Math.min(right, x(Date.parse(point.at))));
    path += `H${at.toFixed(1)}V${y(point.count).toFixed(1)}`;
  }
  const isFull = peakOf(fill) >= fill.cap;
  return [
    svg("line", { class: "cap", x1: left, x2: right, y1: y(fill.cap), y2: y(fill.cap) }),
    svg("path", { class: `fill ${isFull ? "full" : ""}`, d: `${path}H${x(seen.until)}V${top + TALL}Z` }),
  ];
}
