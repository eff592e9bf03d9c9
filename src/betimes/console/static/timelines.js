/**
 * Lines of time: a window, its axis, lanes with marks. Each stands beside a table with the same numbers, so the drawings
 * are hidden from screen readers. They are drawn at the width of the page; in a narrow one the names of lanes stand
 * above them.
 */
import { fitted } from "./charts.js";
import { h, svg } from "./dom.js";
import { markShape } from "./parts.js";
import { axisText, dayText, now, offsetMs, rangeText, zoneFor, zoneWords } from "./time.js";

/** @typedef {import("./dom.js").Child} Child */
/** @typedef {{from: number, to: number, now: number, zone: string}} Window */
/** @typedef {{lane: string, at: number, due?: number, kind: import("./marks.js").AnswerClass, words: string, item: any}} Mark `due` where it was meant to be, if it came late */
/** @typedef {{window: Window, left: number, right: number, isNarrow: boolean, x: (at: number) => number}} Frame where a window is drawn */

const WIDTH_MIN = 220;
const WIDTH_NARROW = 520;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** How far apart the instants of an axis may be, in milliseconds. */
const STEPS = [HOUR / 60, HOUR / 12, HOUR / 6, HOUR / 4, HOUR / 2, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY];
/** The width of a letter of the axis, in pixels. */
const LETTER = 6.5;
const LEFT = 96;
/** Where lanes begin, below the axis, and how tall one is. */
export const TOP = 20;
const ROW = 26;
/** What the name of a lane takes where it stands above it. */
export const NAME = 15;

/** Return the window from an instant to another or to now, and a little more. @param {string} oldest @param {string} [newest] @param {string} [zone] @returns {Window} */
export function pastWindow(oldest, newest, zone = zoneFor(null)) {
  const end = newest ? Date.parse(newest) : now();
  const span = Math.max(3_600_000, end - Date.parse(oldest));
  return { from: end - span * 1.02, to: end + span / 20, now: now(), zone };
}

/** Say in which zone a window is drawn. @param {Window} window */
export function zoneLine({ zone, from, to }) {
  const days = dayText(from, zone) === dayText(to, zone) ? "" : ` · ${rangeText(from, to, zone)}`;
  return h("p", { class: "soft axis-zone" }, zoneWords(zone, from, to) + days);
}

/** Return round instants of a window in its zone, and how far apart they are. @param {Window} window @param {number} most */
function roundInstants({ from, to, zone }, most) {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? Math.ceil((to - from) / most / DAY) * DAY;
  const shift = offsetMs(from, zone);
  const first = Math.ceil((from + shift) / step) * step - shift;
  const count = Math.max(0, Math.floor((to - first) / step) + 1);
  return { step, instants: Array.from({ length: count }, (_, place) => first + place * step) };
}

/** Return the axis of a window, and a line at now. @param {Frame} frame @param {number} height */
function axis({ window, left, right, x }, height) {
  // A label is so wide; where there is no room for days, they stand at midnight and below the drawing.
  const hasDays = right - left >= WIDTH_NARROW && dayText(window.from, window.zone) !== dayText(window.to, window.zone);
  const most = Math.floor((right - left) / (hasDays ? 95 : 60));
  const { step, instants } = roundInstants(window, Math.min(8, most));
  const labels = instants.map((at, place) => {
    const words = step >= DAY
      ? dayText(at, window.zone)
      : axisText(at, hasDays ? instants[place - 1] : at, window.zone);
    // A label that would not end within the drawing is left out; its line stays.
    const fits = x(at) + 3 + words.length * LETTER <= right;
    return [
      svg("line", { class: "grid", x1: x(at), x2: x(at), y1: 14, y2: height }),
      fits ? svg("text", { x: x(at) + 3, y: 10 }, words) : null,
    ];
  });
  if (window.now > window.to) return labels;
  const at = x(window.now);
  const [beside, anchor] = at > right - 30 ? [-3, "end"] : [3, "start"];
  const line = svg("line", { class: "now-line", x1: at, x2: at, y1: 2, y2: height });
  return [
    labels,
    line,
    svg("text", { class: "now-word", x: at + beside, y: height - 2, "text-anchor": anchor }, "now"),
  ];
}

/**
 * Return a drawing of a window that is as wide as its page. `paint` says how tall it is and what it holds.
 * @param {Window} window @param {(frame: Frame) => {height: number, drawn: Child}} paint @param {number} [gutter] what stands left of the window, instead of names of lanes
 */
export function drawing(window, paint, gutter) {
  return fitted({ class: "timeline" }, WIDTH_MIN, (width) => {
    const isNarrow = width < WIDTH_NARROW;
    const left = gutter ?? (isNarrow ? 6 : LEFT);
    const right = width - 8;
    const x = (/** @type {number} */ at) => left + ((right - left) * (at - window.from)) / (window.to - window.from);
    const frame = { window, left, right, isNarrow, x };
    const { height, drawn } = paint(frame);
    return svg("svg", { class: "ticks", width, height, "aria-hidden": "true" }, axis(frame, height), drawn);
  });
}

/** Return a mark; a line leads to it from where it was due. @param {Mark} mark @param {(at: number) => number} x @param {number} y @param {(item: any) => void} open */
function drawMark(mark, x, y, open) {
  return svg(
    "g",
    { class: "tick-mark", on: { click: () => open(mark.item) } },
    svg("title", null, mark.words),
    mark.due !== undefined && mark.at > mark.due
      ? svg("line", { class: "lateness", x1: x(mark.due), x2: x(mark.at), y1: y, y2: y })
      : null,
    svg(
      "g",
      { class: `mark ${mark.kind}`, transform: `translate(${(x(mark.at) - 6).toFixed(1)} ${y - 6})` },
      markShape(mark.kind),
    ),
  );
}

/**
 * Return marks in lanes; lanes without any are left out, but the first.
 * @param {[string, string][]} lanes names and their words @param {Mark[]} marks @param {Window} window @param {(item: any) => void} open @param {(x: (at: number) => number, yOf: (lane: string) => number) => Child} [more]
 */
export function laneTimeline(lanes, marks, window, open, more) {
  const shown = lanes.filter(([name], place) => !place || marks.some((mark) => mark.lane === name));
  return drawing(window, ({ x, isNarrow }) => {
    const above = isNarrow ? NAME : 0;
    const yOf = (/** @type {string} */ lane) =>
      TOP + Math.max(0, shown.findIndex(([name]) => name === lane)) * (ROW + above) + above + ROW / 2;
    const names = shown.map(([name, words]) => svg("text", { x: 0, y: yOf(name) + (isNarrow ? -ROW / 2 : 4) }, words));
    const drawn = marks.map((mark) => drawMark(mark, x, yOf(mark.lane), open));
    return { height: TOP + shown.length * (ROW + above) + 12, drawn: [names, more?.(x, yOf), drawn] };
  });
}
