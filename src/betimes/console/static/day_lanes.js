/**
 * A day drawn from left to right: lanes with marks, bands behind them, windows and their caps below. Where there is no
 * room for all hours it scrolls, and the names of lanes stand above them and stay. Its links are a list; arrow keys go
 * from one to the next.
 */
import { fitted } from "./charts.js";
import { svg } from "./dom.js";
import { LANES } from "./day_model.js";
import { fillRows } from "./day_fills.js";
import { axis, bandsBehind, bandsIn, isBar, nowLine } from "./day_scale.js";
import { answerClass, markShape } from "./marks.js";
import { fullText, now, spanText, timedWords } from "./time.js";

/** @typedef {import("./day_model.js").Mark} Mark */
/** @typedef {import("./day_model.js").Day} Day */
/** @typedef {import("./day_window.js").Window} Window */
/** @typedef {{x: (at: number) => number, left: number, right: number, seen: Window, above: number}} Scale `above` is what names take where they stand above lanes */
/** @typedef {{key: string, name: string, top: number, height: number, marks: Mark[]}} Lane */

const GUTTER = 156;
const NARROWEST = 620;
/** From this width on names stand beside the lanes. */
const WIDE = 680;
const NAME = 16;
const ROW = 19;
const ROWS_MAX = 10;
const AXIS = 54;
export const MARKS_MAX = 200;

/** Return the marks that are drawn, in order of time: of too many those nearest to now. @param {Mark[]} marks */
export function drawnMarks(marks) {
  if (marks.length <= MARKS_MAX) return marks;
  const away = (/** @type {Mark} */ mark) => Math.abs(mark.at - now());
  return [...marks].sort((one, other) => away(one) - away(other)).slice(0, MARKS_MAX).sort((one, other) =>
    one.at - other.at
  );
}

/** Return a day that fits its width whenever that changes. @param {Day} day @param {Window} seen @param {Mark[]} [others] marks of a second world */
export function lanes(day, seen, others = []) {
  const props = { class: "scroll day-scroll", tabindex: "0", role: "region", "aria-label": "The day, drawn" };
  const box = fitted(props, NARROWEST, (width) => draw(day, seen, width, others));
  const keepNames = () => box.querySelector(".names")?.setAttribute("transform", `translate(${box.scrollLeft} 0)`);
  box.addEventListener("scroll", keepNames);
  box.addEventListener("drawn", () => {
    if (now() < seen.until) {
      box.scrollLeft = ((now() - seen.since) / (seen.until - seen.since)) * box.scrollWidth - box.clientWidth / 2;
    }
    keepNames();
  });
  return box;
}

/** @param {Day} day @param {Window} seen @param {number} width @param {Mark[]} others */
function draw(day, seen, width, others) {
  const above = width < WIDE ? NAME : 0;
  const [left, right] = [above ? 8 : GUTTER, width - 12];
  const x = (/** @type {number} */ at) => left + ((right - left) * (at - seen.since)) / (seen.until - seen.since);
  const scale = { x, left, right, seen, above };
  const shown = drawnMarks(day.marks);
  const { rows, found } = layOut(shown, day, others, scale);
  const bottom = found.length ? found[found.length - 1].top + found[found.length - 1].height : AXIS + ROW;
  const fills = fillRows(day.fills, scale, bottom + 10);
  const drawn = svg(
    "svg",
    { class: "day", width, height: fills.bottom + 4, viewBox: `0 0 ${width} ${fills.bottom + 4}` },
    svg(
      "g",
      { "aria-hidden": "true" },
      bandsBehind(day.bands, scale, AXIS, bottom),
      axis(scale, AXIS, fills.bottom),
      found.map((lane) => laneFrame(lane, width)),
      found.map((lane) => bandsIn(day.bands.filter((band) => band.domain === lane.key), lane, scale)),
      promises(day, rows, scale),
      worldLines(others, shown, rows, x),
      fills.drawn,
      nowLine(scale, AXIS, fills.bottom),
      svg("g", { class: "names" }, found.map((lane) => laneName(lane, above)), fills.names),
    ),
    marksList([...shown, ...others], rows, scale),
  );
  return drawn;
}

/** Give every mark its lane and its row there, so that few overlap. @param {Mark[]} marks @param {Day} day @param {Mark[]} others @param {Scale} scale */
function layOut(marks, day, others, { x, above }) {
  /** @type {Map<Mark, number>} */
  const rows = new Map();
  /** @type {Lane[]} */
  const found = [];
  let top = AXIS;
  for (const [key, title] of LANES) {
    for (const [all, name] of /** @type {[Mark[], string][]} */ ([[marks, title], [others, "in the trial"]])) {
      const mine = all.filter((mark) => mark.lane === key);
      const isBanded = all === marks && day.bands.some((band) => band.domain === key);
      if (!mine.length && !isBanded) continue;
      const count = placeRows(mine, rows, x, top + above + 14, endsOf(day));
      const hasBars = isBanded && day.bands.some((band) => band.domain === key && isBar(band));
      const height = above + Math.max(1, count) * ROW + (hasBars ? 26 : 12);
      found.push({ key, name, top, height, marks: mine });
      top += height;
    }
  }
  return { rows, found };
}

/** Return until when each mark that leads to another one needs its row. @param {Day} day @returns {Map<Mark, number>} */
function endsOf(day) {
  return new Map(day.links.map(({ from, to }) => [from, typeof to === "number" ? to : to.at]));
}

/** @param {Mark[]} marks @param {Map<Mark, number>} rows @param {(at: number) => number} x @param {number} top @param {Map<Mark, number>} busy */
function placeRows(marks, rows, x, top, busy) {
  /** @type {number[]} */
  const ends = [];
  /** @type {Map<string, number>} */
  const homes = new Map();
  for (const mark of marks) {
    const at = x(mark.at);
    const isFree = (/** @type {number} */ row) => (ends[row] ?? -1e9) <= at - 14;
    const home = mark.ids.map((id) => homes.get(id)).find((row) => row !== undefined);
    let row = home ?? [...Array(ROWS_MAX).keys()].find(isFree) ?? ends.indexOf(Math.min(...ends));
    if (row < 0) row = 0;
    ends[row] = x(busy.get(mark) ?? mark.at);
    for (const id of mark.ids) homes.set(id, row);
    rows.set(mark, top + row * ROW);
  }
  return ends.length;
}

/** @param {Lane} lane @param {number} width */
function laneFrame(lane, width) {
  return svg("line", { class: "lane-line", x1: 0, x2: width, y1: lane.top, y2: lane.top });
}

/** @param {Lane} lane @param {number} above */
function laneName(lane, above) {
  return svg("text", { class: "lane-name", x: above ? 4 : 0, y: lane.top + (above ? 15 : 18) }, lane.name);
}

/** Return dashed lines from each *later* to the instant it was promised, or to where it was judged again. @param {Day} day @param {Map<Mark, number>} rows @param {Scale} scale */
function promises(day, rows, { x, right }) {
  return day.links.map(({ from, to }) => {
    const y = rows.get(from);
    if (y === undefined) return null;
    const [end, at] = typeof to === "number" ? [y, x(to)] : [rows.get(to) ?? y, x(to.at)];
    const begin = x(from.at);
    const stop = Math.min(at, right + 8);
    const bend = Math.min(14, (stop - begin) / 2);
    const path = end === y ? `M${begin} ${y}H${stop}` : `M${begin} ${y}H${stop - bend}Q${stop} ${y} ${stop} ${end}`;
    return svg("path", { class: "promise", d: path });
  });
}

/** Return lines from the marks of a second world to those they would replace. @param {Mark[]} others @param {Mark[]} marks @param {Map<Mark, number>} rows @param {(at: number) => number} x */
function worldLines(others, marks, rows, x) {
  return others.map((other) => {
    const same = marks.find((mark) => mark.lane === other.lane && Math.abs(mark.at - other.at) < 1000);
    return same
      ? svg("line", { class: "world", x1: x(same.at), x2: x(other.at), y1: rows.get(same), y2: rows.get(other) })
      : null;
  });
}

/** Return the marks as a list of links through which the arrow keys go. @param {Mark[]} marks @param {Map<Mark, number>} rows @param {Scale} scale */
function marksList(marks, rows, { x, seen }) {
  const links = marks.map((mark, place) => {
    const inside = [
      svg("title", null, markWords(mark, seen.zone)),
      svg("circle", { class: "hit", cx: 6, cy: 6, r: 9 }),
      shapeOf(mark),
    ];
    const at = `translate(${(x(mark.at) - 6).toFixed(1)} ${(rows.get(mark) ?? 0) - 6})`;
    const props = { class: `mark ${answerClass(mark.outcome)} ${mark.kind}`, "aria-label": markWords(mark, seen.zone) };
    return svg(
      "g",
      { role: "listitem", transform: at },
      mark.href
        ? svg("a", { href: mark.href, tabindex: place ? -1 : 0, ...props }, inside)
        : svg("g", { role: "img", tabindex: place ? -1 : 0, ...props }, inside),
    );
  });
  const list = svg("g", { role: "list", "aria-label": "Marks, in order of time" }, links);
  list.addEventListener("keydown", (event) => walk(/** @type {KeyboardEvent} */ (event), list));
  return marks.length ? list : null;
}

/** @param {KeyboardEvent} event @param {SVGElement} list */
function walk(event, list) {
  const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!way) return;
  event.preventDefault();
  const all = /** @type {SVGElement[]} */ ([...list.querySelectorAll("[tabindex]")]);
  const place = all.indexOf(/** @type {any} */ (document.activeElement));
  const next = all[Math.max(0, Math.min(all.length - 1, place + way))];
  for (const one of all) one.setAttribute("tabindex", one === next ? "0" : "-1");
  next.focus();
}

/** @param {Mark} mark */
function shapeOf(mark) {
  if (mark.kind === "waits") return svg("circle", { class: "ring", cx: 6, cy: 6, r: 4.2 });
  if (mark.kind === "expected") return svg("path", { class: "flag", d: "M3 11V1.5h6.5L7.5 4l2 2.5H3" });
  return markShape(answerClass(mark.outcome));
}

/** Return a mark in words. @param {Mark} mark @param {string} zone */
export function markWords(mark, zone) {
  const clock = fullText(mark.at, zone).slice(4, -7);
  const away = mark.at > now() ? `, in ${spanText(mark.at - now())}` : "";
  const reasons = mark.reasons.length ? ` (${mark.reasons.join(", ")})` : "";
  return `${clock}${away} · ${mark.what}: ${mark.outcome}${reasons}. ${timedWords(mark.why, zone)}`;
}
