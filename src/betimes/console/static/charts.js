/**
 * Charts of our own, as SVG. Each stands beside a table with the same numbers, so charts are hidden from screen readers
 * unless they hold links, which then are a list.
 */
import { h, put, svg } from "./dom.js";

export const CLASSES = /** @type {const} */ (["now", "later", "never", "other"]);

/**
 * Return a box that is drawn at the width it has, and again whenever that changes, so that words keep their size and
 * shapes stay round. Where it is narrower than `least`, it scrolls.
 * @param {import("./dom.js").Props} props @param {number} least @param {(width: number) => Element} paint
 */
export function fitted(props, least, paint) {
  const box = h("div", props);
  let width = 0;
  new ResizeObserver(([entry]) => {
    const next = Math.max(least, Math.floor(entry.contentRect.width));
    if (!box.isConnected || next === width) return;
    put(box, paint(width = next));
    box.dispatchEvent(new Event("drawn"));
  }).observe(box);
  return box;
}

/** Return numbers over time as a small line. @param {number[]} values @param {{width?: number, height?: number}} [size] */
export function sparkline(values, { width = 120, height = 28 } = {}) {
  if (values.length === 1) values = [...values, ...values]; // a level, not a peak
  const top = Math.max(1, ...values);
  const x = (/** @type {number} */ place) => (values.length > 1 ? (place * width) / (values.length - 1) : width / 2);
  const y = (/** @type {number} */ value) => height - 2 - ((height - 4) * value) / top;
  const line = values.map((value, place) => `${place ? "L" : "M"}${x(place).toFixed(1)} ${y(value).toFixed(1)}`).join(
    "",
  );
  return svg(
    "svg",
    { class: "sparkline", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "area", d: `${line}L${width} ${height}L0 ${height}Z` }),
    svg("path", { class: "line", d: line }),
  );
}

/**
 * Return stacked bars of answers over time.
 * @param {{at: number, label: string, counts: Record<string, number>}[]} buckets @param {{height?: number, from?: number, to?: number}} [how] `from` and `to` mark what is chosen
 */
export function stackedStrip(buckets, { height = 120, from, to } = {}) {
  const width = 1000;
  const top = Math.max(1, ...buckets.map((one) => total(one.counts)));
  const step = width / Math.max(1, buckets.length);
  const bars = buckets.map((one, place) => {
    let y = height;
    const isOut = from !== undefined && to !== undefined && (one.at < from || one.at >= to);
    const parts = CLASSES.map((name) => {
      const tall = (height * (one.counts[name] ?? 0)) / top;
      y -= tall;
      return tall
        ? svg("rect", { class: name, x: place * step + 0.5, y, width: Math.max(1, step - 1), height: tall })
        : null;
    });
    return svg(
      "g",
      { class: isOut ? "bucket out" : "bucket" },
      svg("title", null, `${one.label}: ${countWords(one.counts)}`),
      svg("rect", { class: "hit", x: place * step, y: 0, width: step, height }),
      parts,
    );
  });
  return svg("svg", {
    class: "stacked",
    viewBox: `0 0 ${width} ${height}`,
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  }, bars);
}

/** @param {Record<string, number>} counts */
function countWords(counts) {
  const words = CLASSES.filter((name) => counts[name]).map((name) => `${counts[name]} ${name}`);
  return words.join(", ") || "nothing";
}

/** @param {Record<string, number>} counts */
export function total(counts) {
  return Object.values(counts).reduce((sum, one) => sum + one, 0);
}

/** Return counts in a row of cells, darker for more; `hot` are those to be marked. @param {number[]} counts @param {{labelOf?: (place: number) => string, top?: number, hot?: Set<number>}} [how] */
export function densityStrip(counts, { labelOf, top, hot } = {}) {
  const width = 960;
  const step = width / Math.max(1, counts.length);
  const most = top ?? Math.max(1, ...counts);
  const cells = counts.map((count, place) =>
    count
      ? svg("rect", {
        class: hot?.has(place) ? "dense hot" : "dense",
        x: place * step + 0.25,
        y: 0,
        width: step - 0.5,
        height: 22,
        "fill-opacity": (0.18 + 0.82 * Math.sqrt(count / most)).toFixed(2),
      }, svg("title", null, `${labelOf?.(place) ?? place}: ${count}`))
      : null
  );
  return svg(
    "svg",
    {
      class: "density",
      viewBox: `0 0 ${width} 22`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    },
    svg("rect", { class: "void", x: 0, y: 0, width, height: 22 }),
    cells,
  );
}

/**
 * Return a weekday × hour map; values below 0 are drawn as less, above as more where `signed`.
 * @param {number[][]} rows seven of twenty-four @param {{signed?: boolean, top?: number}} [how]
 */
export function heatMap(rows, { signed = false, top } = {}) {
  const most = top ?? Math.max(1, ...rows.flat().map(Math.abs));
  const days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
  const cells = rows.flatMap((row, day) =>
    row.map((value, hour) =>
      svg("rect", {
        class: !value ? "void" : !signed ? "dense" : value > 0 ? "more" : "less",
        x: 34 + hour * 20,
        y: 16 + day * 18,
        width: 19,
        height: 17,
        rx: 2,
        "fill-opacity": value ? (0.15 + 0.85 * Math.sqrt(Math.abs(value) / most)).toFixed(2) : 1,
      }, value ? svg("title", null, `${days[day]} ${String(hour).padStart(2, "0")}:00: ${value}`) : null)
    )
  );
  const names = days.map((name, day) => svg("text", { x: 0, y: 29 + day * 18 }, name));
  const hours = [0, 6, 12, 18].map((hour) =>
    svg("text", { x: 34 + hour * 20, y: 11 }, `${String(hour).padStart(2, "0")}:00`)
  );
  return svg("svg", { class: "heat", viewBox: "0 0 516 144", "aria-hidden": "true" }, names, hours, cells);
}
