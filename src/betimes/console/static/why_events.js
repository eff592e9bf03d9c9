/**
 * What happened: the command as it was asked, and the events that the segment holds, without texts that are personal.
 */
import { h } from "./dom.js";
import { facts, section, table } from "./parts.js";
import { isPersonal, personalText } from "./texts.js";
import { when } from "./time.js";

const FIELDS_MAX = 40;
const EVENTS_MAX = 20;
const COLUMNS_MAX = 6;
/** What the engine keeps to recognise a text; the raw JSON has it. */
const INNER = new Set(["exact", "near", "refs", "pending"]);
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

/** @param {any} told @param {string | null} theirs */
export function eventsSection(told, theirs) {
  const events = told.events.slice(0, EVENTS_MAX);
  const more = told.events.length - events.length;
  return section(
    "What happened",
    h(
      "div",
      { class: "happened" },
      told.command ? part("Asked", told.command, theirs) : null,
      runsOf(events).map((same) =>
        same.length > 2 ? manyOf(same, theirs) : same.map((one) => part("Recorded", unsaid(one, told), theirs))
      ),
    ),
    more > 0 ? h("p", { class: "soft" }, `and ${more} more, in the raw JSON`) : null,
    !told.command && !events.length ? h("p", { class: "soft" }, "Nothing that can be shown.") : null,
  );
}

/** Return an event without what the answer says of it: an intent's next check is there, its cooldown heeded. @param {any} event @param {any} told */
function unsaid(event, told) {
  const { at, status, next_check_at: next, ...rest } = event;
  if (!told.verdict || status !== told.verdict.outcome) return event;
  return {
    ...rest,
    ...(at === told.at ? {} : { at }),
    ...(told.verdict.defer_until ? {} : { next_check_at: next ?? null }),
  };
}

/** Return events in runs of the same type. @param {any[]} events @returns {any[][]} */
function runsOf(events) {
  /** @type {any[][]} */
  const runs = [];
  for (const event of events) {
    if (runs.at(-1)?.[0].type === event.type) runs.at(-1)?.push(event);
    else runs.push([event]);
  }
  return runs;
}

/** Return several events of one type as a table. @param {any[]} events @param {string | null} theirs */
function manyOf(events, theirs) {
  const rows = events.map(({ type: _, v: __, ...rest }) => new Map(flatten(rest)));
  const names = [...new Set(rows.flatMap((row) => [...row.keys()]))].slice(0, COLUMNS_MAX);
  const title = `${words(events[0].type)}, ${events.length} times`;
  return h(
    "div",
    { class: "happened-part" },
    h("h3", null, h("span", { class: "soft" }, "Recorded: "), title),
    table({
      caption: title,
      columns: names.map((name) => ({
        name: name.replaceAll("_", " "),
        cell: (/** @type {Map<string, any>} */ row) => row.has(name) ? field(name, row.get(name), theirs) : null,
      })),
      rows,
    }),
  );
}

/** @param {string} name @param {any} value @param {string | null} theirs */
function part(name, value, theirs) {
  const { type, v: _, ...rest } = value;
  const pairs = flatten(rest).slice(0, FIELDS_MAX);
  return h(
    "div",
    { class: "happened-part" },
    h("h3", null, h("span", { class: "soft" }, `${name}: `), words(type ?? "Event")),
    pairs.length
      ? facts(pairs.map(([path, one]) => [path.replaceAll("_", " "), field(path, one, theirs)]))
      : h("p", { class: "soft" }, "Nothing besides."),
  );
}

/** @param {string} path @param {any} value @param {string | null} theirs */
function field(path, value, theirs) {
  const name = path.split(".").at(-1) ?? path;
  if (path.split(".").some(isPersonal)) return personalText(name.replaceAll("_", " "), text(value));
  if (typeof value === "string" && INSTANT.test(value)) return when(value, { theirs, seconds: true });
  return h("span", { class: "id" }, text(value));
}

/** @param {any} value */
function text(value) {
  return typeof value === "string"
    ? value
    : Array.isArray(value) && value.every((one) => typeof one !== "object")
    ? value.join(", ")
    : JSON.stringify(value);
}

/** Return fields by their paths, without those that are empty; of personal ones the whole. @param {any} value @param {string} [path] @returns {[string, any][]} */
function flatten(value, path = "") {
  return Object.entries(value).flatMap(([name, one]) => {
    const at = path && path !== "item" ? `${path}.${name}` : name;
    if (INNER.has(name) || one === null || one === "" || one === false || (Array.isArray(one) && !one.length)) {
      return [];
    }
    if (typeof one === "object" && !Array.isArray(one)) {
      if (!Object.keys(one).length) return [];
      return isPersonal(name) ? [/** @type {[string, any]} */ ([at, one])] : flatten(one, at);
    }
    return [/** @type {[string, any]} */ ([at, one])];
  });
}

/** Return a name of the code as words. @param {string} name */
export function words(name) {
  const text = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();
  return text[0].toUpperCase() + text.slice(1);
}
