/** A score over time: steps of the past, and the way down that is ahead if nobody acts. */
import { svg } from "./dom.js";
import { axis, drawing, LEFT, rightEdge, scale } from "./timelines.js";

const HEIGHT = 190;
const TOP = 20;
const MOST = 100;

/** @typedef {{at: number, value: number, name?: string}} Point */

/**
 * Return a score as a line of steps up to now, and dashed from there through its thresholds.
 * @param {Point[]} past @param {Point} start where it is now @param {Point[]} levels what it reaches @param {import("./timelines.js").Window} window
 */
export function scoreChart(past, start, levels, window) {
  const x = scale(window);
  const y = (/** @type {number} */ value) => TOP + ((HEIGHT - TOP - 18) * (MOST - value)) / MOST;
  const place = (/** @type {Point} */ one) => `${x(one.at).toFixed(1)} ${y(one.value).toFixed(1)}`;
  const steps = [...past, start].map((one, index) =>
    index ? `H${x(one.at).toFixed(1)}V${y(one.value).toFixed(1)}` : `M${place(one)}`
  ).join("");
  const ahead = [start, ...levels].map((one, index) => `${index ? "L" : "M"}${place(one)}`).join("");
  const grid = [0, 25, 50, 75, MOST].map((value) => [
    svg("line", { class: "grid", x1: LEFT, x2: rightEdge(), y1: y(value), y2: y(value) }),
    svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(value)),
  ]);
  // The line falls, so the name of a point stands clear of it on the right; the last may have no room there.
  const marks = levels.map((one) => {
    const isAtEdge = x(one.at) > rightEdge() - 60;
    const [dx, anchor] = isAtEdge ? [6, "end"] : [5, "start"];
    return [
      svg("circle", { class: "level", cx: x(one.at), cy: y(one.value), r: 3.5 }, svg("title", null, one.name)),
      svg("text", { x: x(one.at) + dx, y: y(one.value) - 7, "text-anchor": anchor }, one.name),
    ];
  });
  return drawing(HEIGHT, [
    axis(window, HEIGHT),
    grid,
    svg("path", { class: "score-line", d: steps }),
    levels.length ? svg("path", { class: "score-line ahead", d: ahead }) : null,
    marks,
  ]);
}
