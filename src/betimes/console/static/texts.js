/**
 * Texts that people wrote to people: shown only as the settings say, `never`, on a `click`, or `always`.
 */
import { ask, texts } from "./api.js";
import { h, put } from "./dom.js";
import { button, folded } from "./forms.js";

const PERSONAL = new Set(
  "title message message_preview text body subject payload metadata content context action_context".split(" "),
);
const HIDDEN = "•••";

/** Return whether a field holds what somebody wrote. @param {string} name */
export function isPersonal(name) {
  return PERSONAL.has(name);
}

/** Return a value with all personal texts left out. @param {unknown} value @returns {any} */
export function withoutTexts(value) {
  if (Array.isArray(value)) return value.map(withoutTexts);
  if (!value || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name, isPersonal(name) && one ? HIDDEN : withoutTexts(one)]),
  );
}

/** Have the server log that somebody was shown texts here. */
function noteReveal() {
  ask("GET", "/v1/whoami", { reveal: location.pathname }).catch(() => {}); // the text was in the page already
}

/** Return a personal text as this console may show it. @param {string} name what it is, for the button @param {string} text */
export function personalText(name, text) {
  if (texts === "always") return h("span", { dir: "auto" }, text);
  if (texts === "never") return h("span", { class: "soft", title: "This console shows no texts" }, HIDDEN);
  const box = h("span", { dir: "auto" });
  put(box, button(`Show ${name}`, () => (noteReveal(), put(box, text)), { class: "small" }));
  return box;
}

/** Return JSON, with texts only where the settings allow it. @param {unknown} value */
export function shownJson(value) {
  const plain = (/** @type {unknown} */ one) =>
    h("pre", { tabindex: "0" }, h("code", null, JSON.stringify(one, null, 2)));
  if (texts === "always") return plain(value);
  const box = h("div");
  const show = texts === "click"
    ? button("Show texts", () => (noteReveal(), put(box, plain(value))), { class: "small" })
    : null;
  put(box, show, plain(withoutTexts(value)));
  return box;
}

/** Return JSON folded away, with texts only where the settings allow it. @param {unknown} value @param {string} [summary] */
export function rawJson(value, summary = "Raw JSON") {
  return folded(summary, () => shownJson(value));
}
