/**
 * Parts that schedules, sensors and intents share: switching one on and off, its target, its versions.
 */
import { actionButton } from "./actions.js";
import { get, part } from "./api.js";
import { askedBy } from "./asked_by.js";
import { h } from "./dom.js";
import { answer, countLink, figure, section, streamLink, table, whyHref } from "./parts.js";
import { addressWith, go } from "./router.js";
import { isPersonal } from "./texts.js";
import { recordedAt, timedText } from "./time.js";

/** @typedef {import("./dom.js").Child} Child */
/** @typedef {import("./router.js").View} View */

const VERSIONS = 20;
/** How many pages of the ledger are looked through for them: checks and ticks are there too, and far more of them. */
const PAGES = 4;

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

/** Return how often each status occurs, with its mark; each leads to those in a section of the page. @param {{status: string}[]} rows @param {string} name of the section */
export function statusCounts(rows, name) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const row of rows) counts.set(row.status, (counts.get(row.status) ?? 0) + 1);
  return h(
    "span",
    { class: "legend" },
    [...counts].map(([status, count]) =>
      h("span", null, answer(status), " ", countLink(count, statusHref(status, name)))
    ),
  );
}

/** Return the address of what has a status, in a section of the page. @param {string | null} status @param {string} name of the section */
export function statusHref(status, name) {
  return `${addressWith({ status })}#${name}`;
}

/** Return those with the status that the address names, and the chip that says so; all if it names none. @template {{status: string}} T @param {View} view @param {T[]} rows @param {string} name of the section @returns {{rows: T[], chip: Child}} */
export function ofStatus(view, rows, name) {
  const status = view.query.get("status");
  if (!status) return { rows, chip: null };
  const chip = h("a", { class: "chip", href: statusHref(null, name) }, `status:${status} ✕`);
  const found = rows.filter((one) => one.status === status);
  const there = [...new Set(rows.map((one) => one.status))].join(", ");
  const none = h("span", { class: "soft" }, `None of the ${figure(rows.length)} shown has it: they are ${there}.`);
  return { rows: found, chip: h("p", { class: "chips" }, chip, found.length || !rows.length ? null : none) };
}

/** Return links to what is older than a page of what happened, and back to the newest; `[` and `]` follow them. @param {View} view @param {string | null} next */
export function cursorMoves(view, next) {
  const link = (/** @type {string} */ text, /** @type {string} */ key, /** @type {string | null} */ cursor) =>
    h("a", { class: "button small", href: addressWith({ cursor }), [`data-${key}`]: true }, text);
  return [
    next ? link("← Earlier", "earlier", next) : null,
    view.query.get("cursor") ? link("Newest →", "later", null) : null,
  ];
}

/**
 * Return what was done to a definition: changed, paused, resumed; in its zone, which is that of its newest version.
 * @param {View} view @param {string} kind @param {string} id @param {string} name of its events: *Schedule* of ScheduleDefined @param {(definition: any) => string | null} [zoneOf]
 */
export async function versionSection(view, kind, id, name, zoneOf = (found) => found.timezone ?? null) {
  const [defined, paused, resumed] = await Promise.all(
    ["Defined", "Disabled", "Enabled"].map((one) => newestSegments(view, { kind, id, event_type: name + one })),
  );
  const newest = definitionIn(defined.items[0], `${name}Defined`);
  const theirs = newest && zoneOf(newest);
  const oldest = defined.isAll ? "the oldest that is kept" : "the oldest that was looked for";
  const rows = [
    ...defined.items.map((segment, place) => ({
      segment,
      what: changeList(
        definitionIn(defined.items[place + 1], `${name}Defined`),
        definitionIn(segment, `${name}Defined`),
        oldest,
        theirs,
      ),
    })),
    ...paused.items.map((segment) => ({ segment, what: answer("paused") })),
    ...resumed.items.map((segment) => ({ segment, what: "resumed" })),
  ].sort((one, other) => other.segment.version - one.segment.version).slice(0, VERSIONS);
  const columns = [
    {
      name: "Since",
      cell: (/** @type {any} */ row) =>
        h("a", { href: whyHref(row.segment.segment_id) }, recordedAt(row.segment.at, { theirs })),
    },
    { name: "By", cell: (/** @type {any} */ row) => askedBy(row.segment) },
    { name: "What changed", kind: "text", cell: (/** @type {any} */ row) => row.what },
  ];
  const none = h(
    "p",
    { class: "soft" },
    defined.isAll ? "Its history was pruned." : "It was not changed for long; the ledger goes further back.",
  );
  return section(
    "Versions",
    table({ caption: "Versions of the definition, newest first", columns, rows, empty: none }),
  );
}

/**
 * Return the newest segments with an event, and whether no older one was left out.
 * @param {View} view @param {{kind: string, id: string, event_type: string}} wanted
 */
async function newestSegments(view, wanted) {
  /** @type {any[]} */
  const items = [];
  /** @type {string | null} */
  let cursor = null;
  for (let page = 0; page < PAGES && items.length < VERSIONS && (page === 0 || cursor); page++) {
    /** @type {any} */
    const found = await get("/v1/ledger", { ...wanted, order: "desc", limit: VERSIONS, cursor }, view.signal);
    items.push(...found.items);
    cursor = found.next_cursor;
  }
  return { items, isAll: !cursor };
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

/** @param {any} before @param {any} after @param {string} oldest what is said where there is none before @param {string | null} theirs */
function changeList(before, after, oldest, theirs) {
  const changes = changesBetween(before, after);
  if (!changes.length) return before ? "nothing" : oldest;
  return h(
    "ul",
    { class: "plain-list" },
    changes.map(([name, before, after]) =>
      h(
        "li",
        null,
        h("code", null, name),
        isPersonal(name)
          ? null
          : [": ", h("del", null, brief(before, theirs)), " → ", h("ins", null, brief(after, theirs))],
      )
    ),
  );
}

/** @param {unknown} value @param {string | null} theirs */
function brief(value, theirs) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "none";
  return timedText(text.length > 120 ? `${text.slice(0, 120)}…` : text, theirs);
}
