/**
 * Filters of a list: chips, and a text that says the same, such as `status:dead error:"HTTP 503"`.
 *
 * They stand in the query, under the names of the API. A name that the list does not have is said where it was typed;
 * one in an address is sent on, so that the server says what it does not know.
 */
import { h, put } from "./dom.js";
import { field } from "./forms.js";
import { tabs } from "./parts.js";
import { addressWith } from "./router.js";
import { INSTANT_FORMS, readInstant } from "./queries.js";
import { timedText } from "./time.js";

/** @typedef {{name: string, label: string, options?: string[], text?: string, isInstant?: boolean}} Filter `options` are shown as links; `text` is its name in the text, if not `name`; an instant may be said as a distance from now */

/** The word without a name that was written last and read as an id. */
let readAsId = "";

/** Names in a query that narrow no list. */
const OWN = ["tenant"];

/** Return what the query narrows a list by. @param {import("./router.js").View} view @param {string[]} [own] names that the page uses itself @returns {Record<string, string>} */
export function chosenFilters(view, own = []) {
  return Object.fromEntries([...view.query].filter(([name]) => !OWN.includes(name) && !own.includes(name)));
}

/** Return what the query narrows a list by, its instants written out; one that is none is sent on, for the server to say so. @param {import("./router.js").View} view @param {Filter[]} filters @param {string[]} [own] @returns {Record<string, string>} */
export function wantedFilters(view, filters, own) {
  const instants = filters.filter((one) => one.isInstant).map((one) => one.name);
  const read = (
    /** @type {[string, string]} */ [name, value],
  ) => [name, (instants.includes(name) && readInstant(value)) || value];
  return Object.fromEntries(Object.entries(chosenFilters(view, own)).map(read));
}

/** Return filters as a text. @param {Record<string, string>} chosen @param {Filter[]} filters */
export function filterText(chosen, filters) {
  const nameOf = (/** @type {string} */ name) => filters.find((one) => one.name === name)?.text ?? name;
  return Object.entries(chosen).map(([name, value]) =>
    `${nameOf(name)}:${/[\s"]/.test(value) ? JSON.stringify(value) : value}`
  ).join(" ");
}

/**
 * Read a text of filters.
 * @param {string} text @param {Filter[]} filters @returns {{chosen: Record<string, string>, problems: string[], bare: string}} `bare` is the word without a name that was read as an id
 */
export function parseFilters(text, filters) {
  const known = filters.map((one) => one.text ?? one.name);
  /** @type {Record<string, string>} */
  const chosen = {};
  const problems = [];
  let bare = "";
  for (const [word, name, quoted, plain] of text.matchAll(/(?:(\w+):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))/g)) {
    // A word without a name is an id, where there are ids.
    const found = filters.find((one) => (one.text ?? one.name) === (name ?? "id"));
    const value = quoted === undefined ? plain : quoted.replace(/\\(.)/g, "$1");
    if (found && !name) bare = value;
    if (found && Object.hasOwn(chosen, found.name)) {
      problems.push(`${word}: there is a value of ${found.text ?? found.name} already`);
    } else if (!found) problems.push(`${word}: write name:value, where the name is one of ${known.join(", ")}`);
    else if (found.options && !found.options.includes(value)) {
      problems.push(`${word}: ${name} is one of ${found.options.join(", ")}`);
    } else if (found.isInstant && !readInstant(value)) {
      problems.push(`${word}: write ${INSTANT_FORMS}`);
    } else chosen[found.name] = found.isInstant ? readInstant(value) : value; // an address says the same to others
  }
  return { chosen, problems, bare };
}

/**
 * Return the filters of a list: links for those with few values, chips for what is chosen, and the text of it all.
 * @param {import("./router.js").View} view @param {Filter[]} filters @param {string[]} [own]
 */
export function filterBar(view, filters, own = []) {
  const chosen = chosenFilters(view, own);
  const input = /** @type {HTMLInputElement} */ (h("input", {
    type: "text",
    value: filterText(chosen, filters),
    spellcheck: "false",
    autocomplete: "off",
    placeholder: filters.filter((one) => one.name !== "from").slice(0, 3).map(sampleOf).join(" "),
  }));
  const problem = h("div", { role: "alert", class: "filter-problem" });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const { chosen: wanted, problems, bare } = parseFilters(input.value, filters);
    if (problems.length) return put(problem, problems.map((one) => h("p", null, one)));
    readAsId = bare;
    const gone = Object.fromEntries(Object.keys(chosen).map((name) => [name, null]));
    return view.setQuery({ ...gone, ...wanted });
  };
  const names = `Names: ${filters.map((one) => one.text ?? one.name).join(", ")}.`;
  return h(
    "form",
    { class: "filters", role: "search", "aria-label": "Filters", on: { submit } },
    filters.filter((one) => one.options).map((one) => optionLinks(one, chosen)),
    h("div", { class: "filter-text" }, field("Filter", input, names), h("button", { type: "submit" }, "Apply")),
    problem,
    chosenChips(chosen, filters),
    readingNote(chosen, filters),
  );
}

/** @param {Filter} filter */
function sampleOf(filter) {
  return `${filter.text ?? filter.name}:${filter.options?.[0] ?? (filter.isInstant ? "<1h" : "…")}`;
}

/** @param {Filter} filter @param {Record<string, string>} chosen */
function optionLinks(filter, chosen) {
  const links = ["", ...(filter.options ?? [])].map((value) => ({
    text: value.replaceAll("_", " ") || "all",
    href: addressWith({ [filter.name]: value || null }),
    current: (chosen[filter.name] ?? "") === value,
  }));
  return h("div", { class: "filter-options" }, h("span", { class: "soft" }, filter.label), tabs(filter.label, links));
}

/** Say that a word without a name was read as an id, and offer what else it may be. @param {Record<string, string>} chosen @param {Filter[]} filters */
function readingNote(chosen, filters) {
  if (!readAsId || chosen.id !== readAsId) return null;
  const others = filters.filter((one) => one.name !== "id" && !one.options && !one.isInstant);
  const links = others.map((one, place) => [
    place ? ", " : "",
    h("a", { href: addressWith({ id: null, [one.name]: readAsId }) }, one.label.toLowerCase()),
  ]);
  return h("p", { class: "soft reading", role: "status" }, `“${readAsId}” was read as an id. Read it as: `, links, ".");
}

/** @param {Record<string, string>} chosen @param {Filter[]} filters */
function chosenChips(chosen, filters) {
  const names = Object.keys(chosen);
  if (!names.length) return null;
  const nameOf = (/** @type {string} */ name) => filters.find((one) => one.name === name)?.text ?? name;
  const chips = names.map((name) =>
    h(
      "a",
      {
        class: "chip",
        href: addressWith({ [name]: null }),
        "aria-label": `Remove the filter ${nameOf(name)}:${chosen[name]}`,
      },
      `${nameOf(name)}:`,
      timedText(chosen[name]),
      h("span", { class: "cross", "aria-hidden": "true" }, "×"),
    )
  );
  const none = addressWith(Object.fromEntries(names.map((name) => [name, null])));
  return h(
    "div",
    { class: "chips" },
    chips,
    names.length > 1 ? h("a", { class: "chip", href: none }, "Clear all") : null,
  );
}
