/**
 * Controls and dialogs: buttons, labelled fields, selects, what is folded away.
 */
import { h, put, uid } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/** Return a button. @param {Child} text @param {() => unknown} click @param {Record<string, unknown>} [props] */
export function button(text, click, props = {}) {
  return h("button", { type: "button", ...props, on: { click: () => void click() } }, text);
}

/** Return the buttons at the end of a form in a dialog. @param {string} text of what it does @param {() => void} close @param {"primary" | "danger"} [weight] */
export function submitButtons(text, close, weight = "primary") {
  const submit = h("button", { type: "submit", class: weight }, text);
  return h("div", { class: "buttons" }, submit, button("Cancel", close));
}

/**
 * Open a dialog; it closes with Escape or for the page that a link in it leads to, and the focus goes back to where it was.
 * @param {string} title @param {(close: () => void) => Child} fill @param {{wide?: boolean}} [how] @returns {HTMLDialogElement}
 */
export function openDialog(title, fill, { wide = false } = {}) {
  const id = uid("dialog");
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-labelledby": id, class: wide ? "wide" : null }));
  const close = () => dialog.close();
  put(
    dialog,
    h("div", { class: "dialog-head" }, h("h2", { id }, title), button("Close", close, { class: "small quiet" })),
    fill(close),
  );
  dialog.addEventListener("click", (event) => {
    const isElsewhere = event.ctrlKey || event.metaKey || event.shiftKey; // another tab or window opens
    if (!isElsewhere && /** @type {Element} */ (event.target).closest("a[href]")) close();
  });
  const before = document.activeElement;
  dialog.addEventListener("close", () => {
    dialog.remove();
    // The page may have been shown again meanwhile, without the button that opened this.
    if (!before?.isConnected) document.getElementById("main")?.focus({ preventScroll: true });
  });
  document.body.appendChild(dialog);
  dialog.showModal();
  return dialog;
}

/** Return a labelled field. @param {string} label @param {HTMLElement} control @param {Child} [hint] */
export function field(label, control, hint) {
  if (!control.id) control.id = uid("field");
  const hintId = hint ? uid("hint") : null;
  if (hintId) control.setAttribute("aria-describedby", hintId);
  return h(
    "div",
    { class: "field" },
    h("label", { for: control.id }, label),
    control,
    hint ? h("p", { class: "hint", id: hintId }, hint) : null,
  );
}

/** Return a select. @param {[string, string][]} options values and their words @param {string} chosen @param {(value: string) => void} [changed] */
export function select(options, chosen, changed) {
  const found = /** @type {HTMLSelectElement} */ (h(
    "select",
    null,
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  ));
  found.addEventListener("change", () => changed?.(found.value));
  return found;
}

/** Return details whose content is built when they are first opened. @param {Child} summary @param {() => Child} make @param {Record<string, unknown>} [props] */
export function folded(summary, make, props = {}) {
  const body = h("div");
  const fill = () => void (body.firstChild || put(body, make()));
  return h("details", { ...props, on: { toggle: fill } }, h("summary", null, summary), body);
}

/** Return the instant that a `datetime-local` in UTC holds, or nothing; browsers leave out seconds that are 0. @param {HTMLInputElement} input */
export function instantIn(input) {
  return input.value ? `${input.value}${input.value.length === 16 ? ":00" : ""}Z` : "";
}
