/**
 * Keys: `/` finds, `g` and a letter goes to a page, `j` and `k` walk rows; `?` tells them all.
 *
 * Single letters can be switched off, for people whose tools type them; Ctrl-K always finds.
 */
import { h } from "./dom.js";
import { openDialog } from "./forms.js";
import { go, refresh } from "./router.js";
import { openSearch } from "./search.js";
import { toggleTheme, visibleNav } from "./shell.js";
import { setZoneChoice, zoneChoice } from "./time.js";

const OFF = "betimes.keys.off";
const ZONES = /** @type {const} */ (["theirs", "mine", "utc"]);
let began = 0;

/** Listen for keys. */
export function startKeys() {
  addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]")) return;
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) return take(event, openSearch);
    const typing = event.target instanceof Element &&
      event.target.closest("input, textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem(OFF)) return;
    if (began && performance.now() - began < 1500) {
      began = 0;
      const found = visibleNav().find(([, , , , key]) => key === event.key);
      if (found) return take(event, () => void go(found[2]));
    }
    const action = KEYS[event.key];
    if (action) action(event);
  });
}

/** @param {KeyboardEvent} event @param {() => void} action */
function take(event, action) {
  event.preventDefault();
  action();
}

/** @type {Record<string, (event: KeyboardEvent) => void>} */
const KEYS = {
  "/": (event) => take(event, openSearch),
  "?": (event) => take(event, showHelp),
  g: () => (began = performance.now()),
  j: (event) => take(event, () => walk(1)),
  k: (event) => take(event, () => walk(-1)),
  w: () => follow('a[href^="/console/why/"]'),
  t: () => toggleTheme(),
  z: () => (setZoneChoice(ZONES[(ZONES.indexOf(zoneChoice()) + 1) % ZONES.length]), void refresh()),
  "[": () => document.querySelector(/** @type {any} */ ("[data-earlier]"))?.click(),
  "]": () => document.querySelector(/** @type {any} */ ("[data-later]"))?.click(),
  " ": (event) => {
    const pause = /** @type {HTMLElement | null} */ (document.querySelector("[data-space]"));
    const onControl = event.target instanceof Element && event.target.closest("button, a, summary, [role=button]");
    if (pause && !onControl) take(event, () => pause.click());
  },
};

/** Let the arrow keys walk through the rows of a table that has the focus. @param {KeyboardEvent} event */
export function walkRows(event) {
  const step = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1 })[event.key];
  if (step) take(event, () => walk(step, /** @type {Element} */ (event.currentTarget)));
}

/** Move to the next row, or the one before: its first link has the focus, and Enter opens it. @param {number} step @param {ParentNode} [within] */
function walk(step, within = document) {
  const rows = [...within.querySelectorAll("tr.row")].filter((row) =>
    row.checkVisibility() && row.closest("main") && row.querySelector("a")
  );
  const here = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[Math.min(rows.length - 1, Math.max(0, here + step))];
  const link = /** @type {HTMLElement | null} */ (next?.querySelector("a"));
  link?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

/** Open the first such link of the row in which the focus is. @param {string} selector */
function follow(selector) {
  const row = document.activeElement?.closest("tr.row");
  const link = row?.querySelector(selector);
  if (link) void go(link.getAttribute("href") ?? "/console");
}

/** Tell all keys, and let them be switched off. */
export function showHelp() {
  const pages = visibleNav().map(([, name, , , key]) => /** @type {[string, string]} */ ([`g ${key}`, name]));
  /** @type {[string, string][]} */
  const rows = [
    ["/ or Ctrl-K", "find anything"],
    ...pages,
    ["j  k", "next row, row before; the arrow keys too, in what happens"],
    ["Enter", "open"],
    ["w", "why, of the row"],
    ["[  ]", "earlier, later"],
    ["z", "zone: theirs, mine, UTC"],
    ["t", "light or dark"],
    ["Space", "pause what happens"],
    ["?", "this"],
  ];
  const off = /** @type {HTMLInputElement} */ (h("input", {
    type: "checkbox",
    id: "keys-off",
    checked: Boolean(localStorage.getItem(OFF)),
  }));
  off.addEventListener("change", () => (off.checked ? localStorage.setItem(OFF, "1") : localStorage.removeItem(OFF)));
  openDialog(
    "Keys",
    () =>
      h(
        "div",
        null,
        h(
          "dl",
          { class: "keys" },
          rows.map(([key, what]) => h("div", null, h("dt", null, h("kbd", null, key)), h("dd", null, what))),
        ),
        h("p", null, off, " ", h("label", { for: "keys-off" }, "Switch single-letter keys off")),
      ),
  );
}
