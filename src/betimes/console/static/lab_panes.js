/**
 * Panes side by side with separators between them, which the mouse and the arrow keys move.
 */
import { h, uid } from "./dom.js";

const KEPT = "betimes.lab.panes";
const STEP = 2;
const BOUNDS = { edit: [18, 50], apply: [16, 40] };

/** @typedef {"edit" | "apply"} Side */

/** Return three panes: the first and the last have a width, in percent, and the middle has the rest. @param {{edit: Node, attempt: Node, apply: Node}} filled */
export function panes({ edit, attempt, apply }) {
  const widths = readWidths();
  const box = h("div", { class: "lab" });
  const pane = (/** @type {string} */ name, /** @type {Node} */ content) => {
    const id = uid("pane");
    return h(
      "section",
      { class: `pane pane-${name.toLowerCase()}`, "aria-labelledby": id },
      h("h2", { id }, name),
      content,
    );
  };
  const first = pane("Edit", edit);
  const last = pane("Apply", apply);
  const separators = {
    edit: separator("edit", "Width of Edit", widths, () => set()),
    apply: separator("apply", "Width of Apply", widths, () => set()),
  };
  const set = () => {
    for (const side of /** @type {Side[]} */ (["edit", "apply"])) {
      box.style.setProperty(`--${side}`, `${widths[side]}%`);
      separators[side].setAttribute("aria-valuenow", String(widths[side]));
    }
    localStorage.setItem(KEPT, JSON.stringify(widths));
  };
  box.append(first, separators.edit, pane("Try", attempt), separators.apply, last);
  set();
  return box;
}

/** @returns {Record<Side, number>} */
function readWidths() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "");
    return { edit: bound("edit", Number(kept.edit) || 25), apply: bound("apply", Number(kept.apply) || 21) };
  } catch {
    return { edit: 25, apply: 21 };
  }
}

/** @param {Side} side @param {number} width */
function bound(side, width) {
  return Math.min(BOUNDS[side][1], Math.max(BOUNDS[side][0], Math.round(width)));
}

/** @param {Side} side @param {string} label @param {Record<Side, number>} widths @param {() => void} moved */
function separator(side, label, widths, moved) {
  const [low, high] = BOUNDS[side];
  const towards = side === "edit" ? 1 : -1;
  const element = h("div", {
    class: "separator",
    role: "separator",
    tabindex: "0",
    "aria-orientation": "vertical",
    "aria-label": label,
    "aria-valuemin": low,
    "aria-valuemax": high,
  });
  const move = (/** @type {number} */ width) => {
    widths[side] = bound(side, width);
    moved();
  };
  element.addEventListener("keydown", (event) => {
    const widest = {
      ArrowRight: widths[side] + STEP * towards,
      ArrowLeft: widths[side] - STEP * towards,
      Home: low,
      End: high,
    };
    const width = /** @type {Record<string, number>} */ (widest)[event.key];
    if (width === undefined) return;
    event.preventDefault();
    move(width);
  });
  element.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    element.setPointerCapture(event.pointerId);
    const whole = /** @type {HTMLElement} */ (element.parentElement).getBoundingClientRect();
    const drag = (/** @type {PointerEvent} */ at) =>
      move((100 * (side === "edit" ? at.clientX - whole.left : whole.right - at.clientX)) / whole.width);
    element.addEventListener("pointermove", drag);
    element.addEventListener("pointerup", () => element.removeEventListener("pointermove", drag), { once: true });
  });
  return element;
}
