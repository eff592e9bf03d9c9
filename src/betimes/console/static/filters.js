/**
 * Filters with a text form: `reason:QUIET_HOURS kind:inbox`, kept in the query of the address.
 *
 * A name that the page does not know is an error beside the box, never ignored.
 */
import { h, put, uid } from "./dom.js";
import { addressWith } from "./router.js";

/**
 * Return a box for filters and a chip for each that is set.
 * @param {import("./router.js").View} view @param {readonly string[]} names @param {{words?: Record<string, string>}} [how] words: what a name is called in the hint
 */
export function filterForm(view, names, { words = {} } = {}) {
  const set = names.filter((name) => view.query.get(name));
  const text = set.map((name) => `${name}:${quoted(view.query.get(name) ?? "")}`).join(" ");
  const id = uid("filter");
  const told = h("p", { class: "hint", role: "alert" });
  const input = /** @type {HTMLInputElement} */ (h("input", {
    id,
    type: "search",
    value: text,
    spellcheck: "false",
    autocomplete: "off",
    "aria-describedby": `${id}-hint`,
  }));
  const form = h(
    "form",
    { class: "filter card", role: "search" },
    h("label", { for: id }, "Filter"),
    input,
    h("button", { type: "submit" }, "Apply"),
    h(
      "p",
      { class: "hint", id: `${id}-hint` },
      `For example ${names.slice(0, 3).map((name) => `${name}:…`).join(" ")}. Known: ${
        names.map((name) => words[name] ?? name).join(", ")
      }.`,
    ),
    told,
    chips(view, set),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { found, unknown } = parseFilters(input.value, names);
    if (unknown.length) put(told, `There is no filter ${unknown[0]}.`);
    else view.setQuery({ ...Object.fromEntries(names.map((name) => [name, null])), ...found });
  });
  return form;
}

/** @param {import("./router.js").View} view @param {string[]} set */
function chips(view, set) {
  if (!set.length) return null;
  return h(
    "p",
    { class: "chips" },
    set.map((name) =>
      h(
        "a",
        { class: "chip", href: addressWith({ [name]: null }), "aria-label": `Remove the filter ${name}` },
        `${name}:${view.query.get(name)} ✕`,
      )
    ),
  );
}

/** @param {string} value */
function quoted(value) {
  return /\s/.test(value) ? `"${value}"` : value;
}

/** Read the text form; a word without a name is an id, if the page knows ids. @param {string} text @param {readonly string[]} names */
export function parseFilters(text, names) {
  /** @type {Record<string, string>} */
  const found = {};
  const unknown = [];
  for (const [, name, inQuotes, plain] of text.matchAll(/(?:([\w.-]+):)?(?:"([^"]*)"|(\S+))/g)) {
    const known = name === undefined ? "id" : name;
    if (names.includes(known)) found[known] = inQuotes ?? plain;
    else unknown.push(name ?? plain);
  }
  return { found, unknown };
}
