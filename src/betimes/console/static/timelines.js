/**
 * Lines of time: a window, its axis, lanes with marks. Each stands beside a table with the same numbers, so the drawings
 * are hidden from screen readers.
 */
import { h, svg } from "./dom.js";
import { markShape } from "./parts.js";
import { clockText, dateText, now, offsetMs, zoneFor } from "./time.js";

/** @typedef {{from: number, to: number, now: number, zone: string}} Window */
/** @typedef {{lane: string, at: number, due?: number, kind: import("./marks.js").AnswerClass, words: string, item: any}} Mark `due` where it was meant to be, if it came late */

const WIDTH_MIN = 420;
const WIDTH_MAX = 1000;
/** What stands beside a drawing in its page: paddings of the page and of its card. */
const BESIDE = 70;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** How far apart the instants of an axis may be, in milliseconds. */
const STEPS = [HOUR / 60, HOUR / 12, HOUR / 6, HOUR / 4, HOUR / 2, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY];
/** The width of a letter of the axis, in pixels. */
const LETTER = 6.5;
export const LEFT = 90;
export const TOP = 20;
export const ROW = 26;

/** Return how wide a drawing is: as wide as its page, so that its words keep their size. */
function drawnWidth() {
  const room = (document.getElementById("main")?.clientWidth ?? WIDTH_MAX) - BESIDE;
  return Math.max(WIDTH_MIN, Math.min(WIDTH_MAX, room));
}

/** Return where the lines of a drawing end. */
export function rightEdge() {
  return drawnWidth() - 8;
}

/** Return where an instant of a window is drawn. @param {Window} window */
export function scale({ from, to }) {
  const right = rightEdge();
  return (/** @type {number} */ at) => LEFT + ((right - LEFT) * (at - from)) / (to - from);
}

/** Return the window from an instant to now, and a little more. @param {string} oldest @returns {Window} */
export function pastWindow(oldest) {
  const span = Math.max(3_600_000, now() - Date.parse(oldest));
  return { from: now() - span * 1.02, to: now() + span / 20, now: now(), zone: zoneFor(null) };
}

/** Return round instants of a window in its zone, and how far apart they are. @param {Window} window @param {number} most */
function roundInstants({ from, to, zone }, most) {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? Math.ceil((to - from) / most / DAY) * DAY;
  const shift = offsetMs(from, zone);
  const first = Math.ceil((from + shift) / step) * step - shift;
  const count = Math.max(0, Math.floor((to - first) / step) + 1);
  return { step, instants: Array.from({ length: count }, (_, place) => first + place * step) };
}

/** Return the axis of a window, and a line at now. @param {Window} window @param {number} height */
export function axis(window, height) {
  const x = scale(window);
  const { step, instants } = roundInstants(window, drawnWidth() < 640 ? 4 : 8);
  const isLong = window.to - window.from > 36 * HOUR;
  const labels = instants.map((at) => {
    const [date, clock] = [dateText(at, window.zone).slice(5), clockText(at, window.zone)];
    const words = step >= DAY ? date : isLong ? `${date} ${clock}` : clock;
    // A label that would not end within the drawing is left out; its line stays.
    const fits = x(at) + 3 + words.length * LETTER <= rightEdge();
    return [
      svg("line", { class: "grid", x1: x(at), x2: x(at), y1: 14, y2: height }),
      fits ? svg("text", { x: x(at) + 3, y: 10 }, words) : null,
    ];
  });
  const line = svg("line", { class: "now-line", x1: x(window.now), x2: x(window.now), y1: 2, y2: height });
  return [labels, line, svg("text", { class: "now-word", x: x(window.now) + 3, y: height - 2 }, "now")];
}

/** Return a drawing that is as wide as its page, and scrolls where that is too narrow. @param {number} height @param {import("./dom.js").Child} children */
export function drawing(height, children) {
  return h(
    "div",
    { class: "scroll" },
    svg("svg", { class: "ticks", viewBox: `0 0 ${drawnWidth()} ${height}`, "aria-hidden": "true" }, children),
  );
}

/** Return a mark; a line leads to it from where it was due. @param {Mark} mark @param {(at: number) => number} x @param {number} y @param {(item: any) => void} open */
export function drawMark(mark, x, y, open) {
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
 * @param {[string, string][]} lanes names and their words @param {Mark[]} marks @param {Window} window @param {(item: any) => void} open @param {(x: (at: number) => number, yOf: (lane: string) => number) => import("./dom.js").Child} [more]
 */
export function laneTimeline(lanes, marks, window, open, more) {
  const shown = lanes.filter(([name], place) => !place || marks.some((mark) => mark.lane === name));
  const height = TOP + shown.length * ROW + 12;
  const x = scale(window);
  const yOf = (/** @type {string} */ lane) =>
    TOP + Math.max(0, shown.findIndex(([name]) => name === lane)) * ROW + ROW / 2;
  const names = shown.map(([name, words]) => svg("text", { x: 0, y: yOf(name) + 4 }, words));
  const drawn = marks.map((mark) => drawMark(mark, x, yOf(mark.lane), open));
  return drawing(height, [axis(window, height), names, more?.(x, yOf), drawn]);
}
