/**
 * Parts that schedules, sensors and intents share: switching one on and off, its target, its versions.
 */
import { actionButton } from "./actions.js";
import { get, part } from "./api.js";
import { h } from "./dom.js";
import { answer, section, streamLink, table, whyHref } from "./parts.js";
import { go } from "./router.js";
import { when } from "./time.js";

/** @typedef {import("./dom.js").Child} Child */
/** @typedef {import("./router.js").View} View */

const VERSIONS = 20;

/**
 * Return the buttons that pause and resume a definition, whichever there is to do.
 * @param {View} view @param {{path: string, id: string, scope: string, isOn: boolean, version: number, before?: Child, words?: [string, string]}} told
 */
export function switchButton(view, { path, id, scope, isOn, version, before, words = ["Pause", "Resume"] }) {
  /** @param {boolean} on whether it is on before @param {number} version @returns {import("./actions.js").Action} */
  const turn = (on, version) => ({
    title: `${on ? words[0] : words[1]} ${id}`,
    scope,
    method: "POST",
    path: `${path}/${part(id)}/${on ? "disable" : "enable"}`,
    version,
    before: on ? before : null,
    done: view.refresh,
    undo: (answer) => turn(!on, answer.version),
  });
  return actionButton(isOn ? words[0] : words[1], () => turn(isOn, version));
}

/**
 * Return the button that deletes a definition; its page is left for the list afterwards.
 * @param {{path: string, list: string, id: string, scope: string, version: number, before?: Child}} told
 */
export function deleteButton({ path, list, id, scope, version, before }) {
  return actionButton("Delete", () => ({
    title: `Delete ${id}`,
    scope,
    method: "DELETE",
    path: `${path}/${part(id)}`,
    version,
    danger: true,
    confirmWord: id,
    before: before ?? h("p", null, "It never fires again. Its history stays in the ledger."),
    done: () => void go(list),
  }), { class: "danger-quiet" });
}

/** Return what something leads to. @param {any} target */
export function targetText(target) {
  if (!target) return null;
  if (target.kind === "trigger") {
    return ["run ", h("code", null, target.trigger_type), " for ", streamLink("account", target.account_id)];
  }
  const name = target.name ?? target.url ?? target.event_type ?? "";
  return [`${target.kind} `, name ? h("code", null, name) : null];
}

/** Return how often each status occurs, with its mark. @param {{status: string}[]} rows */
export function statusCounts(rows) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const row of rows) counts.set(row.status, (counts.get(row.status) ?? 0) + 1);
  return h(
    "span",
    { class: "legend" },
    [...counts].map(([status, count]) => h("span", null, answer(status), ` ${count}`)),
  );
}

/** Return what was done to a definition: changed, paused, resumed. @param {View} view @param {string} kind @param {string} id @param {string} name of its events: *Schedule* of ScheduleDefined */
export async function versionSection(view, kind, id, name) {
  const load = async (/** @type {string} */ event_type) =>
    (await get("/v1/ledger", { kind, id, event_type, order: "desc", limit: VERSIONS }, view.signal)).items;
  const [defined, paused, resumed] = await Promise.all(
    ["Defined", "Disabled", "Enabled"].map((one) => load(name + one)),
  );
  const rows = [
    ...defined.map((/** @type {any} */ segment, /** @type {number} */ place) => ({
      segment,
      what: changeList(definitionIn(defined[place + 1], `${name}Defined`), definitionIn(segment, `${name}Defined`)),
    })),
    ...paused.map((/** @type {any} */ segment) => ({ segment, what: answer("paused") })),
    ...resumed.map((/** @type {any} */ segment) => ({ segment, what: "resumed" })),
  ].sort((one, other) => other.segment.version - one.segment.version).slice(0, VERSIONS);
  const columns = [
    {
      name: "Since",
      cell: (/** @type {any} */ row) => h("a", { href: whyHref(row.segment.segment_id) }, when(row.segment.at)),
    },
    { name: "By", cell: (/** @type {any} */ row) => row.segment.actor || "–" },
    { name: "What changed", kind: "text", cell: (/** @type {any} */ row) => row.what },
  ];
  const none = h("p", { class: "soft" }, "Its history was pruned.");
  return section(
    "Versions",
    table({ caption: "Versions of the definition, newest first", columns, rows, empty: none }),
  );
}

/** @param {any} segment @param {string} eventType */
function definitionIn(segment, eventType) {
  const event = segment?.events.find((/** @type {any} */ one) => one.type === eventType);
  return event?.definition ?? event?.intent ?? null;
}

/** Return the fields that differ between two definitions. @param {any} before @param {any} after @returns {[string, unknown, unknown][]} */
export function changesBetween(before, after) {
  if (!before || !after) return [];
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
    .map((name) => [name, before[name], after[name]]);
}

/** @param {any} before @param {any} after */
function changeList(before, after) {
  const changes = changesBetween(before, after);
  if (!changes.length) return before ? "nothing" : "the oldest that is kept";
  return h(
    "ul",
    { class: "plain-list" },
    changes.map(([name, before, after]) =>
      h("li", null, h("code", null, name), ": ", h("del", null, brief(before)), " → ", h("ins", null, brief(after)))
    ),
  );
}

/** @param {unknown} value */
function brief(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "none";
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}
