/** A score over time: steps of the past, and the way down that is ahead if nobody acts. */
import { svg } from "./dom.js";
import { drawing, TOP } from "./timelines.js";

const HEIGHT = 190;
/** Left of the line: the values of its grid. */
const GUTTER = 34;
const MOST = 100;

/** @typedef {{at: number, value: number, name?: string}} Point */

/**
 * Return a score as a line of steps up to now, and dashed from there through its thresholds.
 * @param {Point[]} past @param {Point} start where it is now @param {Point[]} levels what it reaches @param {import("./timelines.js").Window} window
 */
export function scoreChart(past, start, levels, window) {
  return drawing(window, (frame) => ({ height: HEIGHT, drawn: drawScore(past, start, levels, frame) }), GUTTER);
}

/** @param {Point[]} past @param {Point} start @param {Point[]} levels @param {import("./timelines.js").Frame} frame */
function drawScore(past, start, levels, { x, left, right }) {
  const y = (/** @type {number} */ value) => TOP + ((HEIGHT - TOP - 18) * (MOST - value)) / MOST;
  const place = (/** @type {Point} */ one) => `${x(one.at).toFixed(1)} ${y(one.value).toFixed(1)}`;
  const steps = [...past, start].map((one, index) =>
    index ? `H${x(one.at).toFixed(1)}V${y(one.value).toFixed(1)}` : `M${place(one)}`
  ).join("");
  const ahead = [start, ...levels].map((one, index) => `${index ? "L" : "M"}${place(one)}`).join("");
  const grid = [0, 25, 50, 75, MOST].map((value) => [
    svg("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }),
    svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, String(value)),
  ]);
  // The line falls, so the name of a point stands clear of it on the right; the last may have no room there.
  const marks = levels.map((one) => {
    const isAtEdge = x(one.at) > right - 60;
    const [dx, anchor] = isAtEdge ? [6, "end"] : [5, "start"];
    return [
      svg("circle", { class: "level", cx: x(one.at), cy: y(one.value), r: 3.5 }, svg("title", null, one.name)),
      svg("text", { x: x(one.at) + dx, y: y(one.value) - 7, "text-anchor": anchor }, one.name),
    ];
  });
  return [
    grid,
    svg("path", { class: "score-line", d: steps }),
    levels.length ? svg("path", { class: "score-line ahead", d: ahead }) : null,
    marks,
  ];
}
