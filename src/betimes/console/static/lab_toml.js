/**
 * The draft as TOML: a text with the numbers of its lines, what is wrong at its line, and completion from the schema.
 */
import { h, put } from "./dom.js";
import { offerNames } from "./lab_complete.js";
import { isTable, namesUnder, tomlOf } from "./lab_schema.js";

/** @typedef {import("./lab_draft.js").Draft} Draft */

const CHECK_MS = 350;

/** Return the editor. @param {any} schema @param {Draft} draft @param {AbortSignal} signal */
export function tomlEditor(schema, draft, signal) {
  const text = /** @type {HTMLTextAreaElement} */ (h("textarea", {
    class: "toml",
    rows: "18",
    spellcheck: "false",
    autocapitalize: "off",
    wrap: "off",
    "aria-label": "Overrides as TOML",
    value: tomlOf(draft.overrides),
  }));
  const gutter = h("pre", { class: "gutter", "aria-hidden": "true" });
  const wrong = h("div", { class: "toml-errors", role: "status" });
  const number = () => put(gutter, numbersOf(text.value, errorsOf(draft)));
  let timer = 0;
  const changed = () => {
    number();
    clearTimeout(timer);
    timer = setTimeout(() => void draft.validate(text.value), CHECK_MS);
  };
  const told = () => {
    number();
    put(wrong, errorList(errorsOf(draft), text), nullNote(draft));
  };
  text.addEventListener("input", changed);
  text.addEventListener("scroll", () => (gutter.scrollTop = text.scrollTop));
  const list = offerNames(
    text,
    (path) => namesUnder(schema, draft.inForce.effective, path),
    (path) => isTable(schema, path),
  );
  draft.listen(told, signal);
  told();
  return h(
    "div",
    { class: "toml-editor" },
    h("p", { class: "soft" }, "Only what is overridden. Ctrl+Space offers the names that fit here."),
    h("div", { class: "toml-box" }, gutter, text),
    list,
    wrong,
  );
}

/** Return what is wrong, with the lines. @param {Draft} draft @returns {{line: number | null, text: string}[]} */
function errorsOf(draft) {
  if (draft.problem) {
    const told = /** @type {any} */ (draft.problem);
    const all = told.errors?.length ? told.errors : [{ path: "", message: told.detail ?? String(told) }];
    return all.map((/** @type {any} */ one) => ({
      line: Number(/^line (\d+)$/.exec(one.path)?.[1]) || null,
      text: one.message,
    }));
  }
  return (draft.check?.errors ?? []).map((one) => ({
    line: one.line,
    text: `${one.path.replace(/^overrides\./, "")}: ${one.message}`,
  }));
}

/** @param {string} text @param {{line: number | null}[]} errors */
function numbersOf(text, errors) {
  const wrong = new Set(errors.map((one) => one.line));
  return text.split("\n").map((_, place) =>
    h("span", { class: wrong.has(place + 1) ? "wrong" : null }, `${wrong.has(place + 1) ? "✗ " : ""}${place + 1}\n`)
  );
}

/** @param {{line: number | null, text: string}[]} errors @param {HTMLTextAreaElement} text */
function errorList(errors, text) {
  if (!errors.length) return h("p", { class: "soft" }, "The server takes it.");
  const goTo = (/** @type {number} */ line) => {
    const start = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    text.focus();
    text.setSelectionRange(start, start + (text.value.split("\n")[line - 1] ?? "").length);
  };
  return h(
    "ul",
    { class: "errors" },
    errors.map((one) =>
      h(
        "li",
        null,
        one.line
          ? h("button", {
            type: "button",
            class: "small",
            on: { click: () => goTo(Number(one.line)) },
          }, `Line ${one.line}`)
          : null,
        " ",
        one.text,
      )
    ),
  );
}

/** @param {Draft} draft */
function nullNote(draft) {
  const nulls = draft.nulls;
  return nulls.length
    ? h("p", { class: "soft" }, `TOML has no word for none; these stay set to none: ${nulls.join(", ")}.`)
    : null;
}
