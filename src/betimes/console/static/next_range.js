/** Which hours of what comes next are shown: how many, and from when, from the query of the address. */
import { h } from "./dom.js";
import { tabs } from "./parts.js";
import { choiceIn, instantIn } from "./queries.js";
import { addressWith } from "./router.js";
import { now, rangeText, zoneFor } from "./time.js";

/** @typedef {import("./router.js").View} View */
export const RANGES = /** @type {const} */ ({
  "1h": [1, "1m", "1 h", 1],
  "24h": [24, "15m", "24 h", 15],
  "7d": [168, "3h", "7 d", 60],
});
const HOUR = 3_600_000;

/** Return where the range begins: now, or later if somebody went on. @param {View} view */
export function startOf(view) {
  return Math.max(now(), instantIn(view.query, "at") ?? 0);
}

/** Return links to the range after this one and before it. @param {View} view */
export function moves(view) {
  const [hours] = RANGES[rangeOf(view)];
  const link = (/** @type {string} */ text, /** @type {string} */ key, /** @type {number} */ at) =>
    h("a", {
      class: "button",
      href: addressWith({ at: at > now() ? new Date(at).toISOString() : null }),
      [`data-${key}`]: true,
    }, text);
  const start = startOf(view);
  return [
    start > now() ? link("← Earlier", "earlier", start - hours * HOUR) : null,
    link("Later →", "later", start + hours * HOUR),
  ];
}

/** @param {View} view @returns {keyof typeof RANGES} */
export function rangeOf(view) {
  const names = /** @type {(keyof typeof RANGES)[]} */ (Object.keys(RANGES));
  return choiceIn(view.query, "range", names, "24h");
}

/** @param {View} view */
export function rangeTabs(view) {
  return tabs(
    "Range",
    Object.entries(RANGES).map(([key, [, , text]]) => ({
      text,
      href: addressWith({ range: key === "24h" ? null : key, from: null, to: null, at: null }),
      current: key === rangeOf(view),
    })),
  );
}

/** @param {View} view @param {string} text of the range from now on */
export function dueWords(view, text) {
  const [start, zone] = [startOf(view), zoneFor(null)];
  const end = start + RANGES[rangeOf(view)][0] * HOUR;
  return start > now() ? `Due ${rangeText(start, end, zone)}` : `Due in the next ${text}`;
}
