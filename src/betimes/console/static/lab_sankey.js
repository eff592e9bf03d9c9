/**
 * Changed answers as ribbons from what they were to what they would have been. The table below has the same numbers.
 */
import { fitted } from "./charts.js";
import { svg } from "./dom.js";
import { answerClass, figure } from "./parts.js";

const WIDTH_MIN = 240;
const BAR = 10;
const GAP = 8;
const LABEL = 96;

/** @param {{before: string, after: string, count: number}[]} flips */
export function sankey(flips) {
  return fitted({ class: "sankey" }, WIDTH_MIN, (width) => draw(flips, width));
}

/** @param {{before: string, after: string, count: number}[]} flips @param {number} width */
function draw(flips, width) {
  const total = flips.reduce((sum, one) => sum + one.count, 0) || 1;
  const scale = scaleOf(flips) / total;
  const left = stack(flips, (one) => one.before, scale);
  const right = stack(flips, (one) => one.after, scale);
  const height = Math.max(left.height, right.height);
  const from = new Map(left.nodes.map((one) => [one.name, one.y]));
  const to = new Map(right.nodes.map((one) => [one.name, one.y]));
  const ribbons = flips.map((one) => {
    const tall = one.count * scale;
    const [y0, y1] = [from.get(one.before) ?? 0, to.get(one.after) ?? 0];
    from.set(one.before, y0 + tall);
    to.set(one.after, y1 + tall);
    const [x0, x1, middle] = [LABEL + BAR, width - LABEL - BAR, width / 2];
    const d = `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}V${y1 + tall}C${middle} ${y1 + tall} ${middle} ${
      y0 + tall
    } ${x0} ${y0 + tall}Z`;
    return svg(
      "path",
      { class: `ribbon fill-${answerClass(one.after)}`, d },
      svg("title", null, `${one.before} to ${one.after}: ${figure(one.count)}`),
    );
  });
  const bars = [
    ...left.nodes.map((node) => bar(node, LABEL, LABEL - 6, "end")),
    ...right.nodes.map((node) => bar(node, width - LABEL - BAR, width - LABEL + 6, "start")),
  ];
  return svg("svg", { width, height, "aria-hidden": "true" }, ribbons, bars);
}

/** How tall all answers together are: few ribbons need little. @param {{count: number}[]} flips */
function scaleOf(flips) {
  return Math.min(150, 40 + 30 * flips.length);
}

const LEAST = 14;

/** @param {{before: string, after: string, count: number}[]} flips @param {(one: any) => string} nameOf @param {number} scale pixels for an answer */
function stack(flips, nameOf, scale) {
  const counts = new Map();
  for (const one of flips) counts.set(nameOf(one), (counts.get(nameOf(one)) ?? 0) + one.count);
  let y = 2;
  const nodes = [...counts].map(([name, count]) => {
    const node = { name, count, y, tall: count * scale };
    y += Math.max(LEAST, node.tall) + GAP;
    return node;
  });
  return { nodes, height: y };
}

/** @param {{name: string, count: number, y: number, tall: number}} node @param {number} x @param {number} textX @param {string} anchor */
function bar(node, x, textX, anchor) {
  return svg(
    "g",
    null,
    svg("rect", { class: answerClass(node.name), x, y: node.y, width: BAR, height: Math.max(2, node.tall), rx: 2 }),
    svg(
      "text",
      { x: textX, y: node.y + Math.max(11, node.tall / 2 + 4), "text-anchor": anchor },
      `${node.name} ${figure(node.count)}`,
    ),
  );
}
