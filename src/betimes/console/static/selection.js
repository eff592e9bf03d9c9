/**
 * Choosing rows of a list, and acting on those chosen or on all that match its filters.
 */
import { act, actionButton } from "./actions.js";
import { h, put } from "./dom.js";
import { countText } from "./parts.js";
import { mayAct } from "./session.js";

/** @typedef {import("./actions.js").Action} Action */
/**
 * @typedef {object} Bulk
 * @property {string} noun of what is listed, in the plural
 * @property {[string, string][]} verbs words of a button, and the action it stands for
 * @property {(verb: string, action: string, ids: string[]) => Action} ofChosen
 * @property {(verb: string, action: string) => Action} ofMatching
 */

/** Rows that are ticked, by their ids; they stay so when the list grows. */
export class Selection {
  constructor() {
    /** @type {Set<string>} */
    this.ids = new Set();
    /** @type {() => void} */
    this.changed = () => {};
  }

  /** Return a box to tick a row with; nothing where acting is not offered. @param {string} id */
  box(id) {
    if (!mayAct()) return null;
    const input =
      /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", class: "tick", "aria-label": `Select ${id}` }));
    input.checked = this.ids.has(id);
    input.addEventListener("change", () => {
      input.checked ? this.ids.add(id) : this.ids.delete(id);
      this.changed();
    });
    return input;
  }
}

/** Return buttons that act on what is ticked, and on everything that matches. @param {Selection} selection @param {Bulk} bulk */
export function bulkBar(selection, bulk) {
  if (!mayAct()) return null;
  const count = h("span", { role: "status", class: "soft" });
  const chosen = bulk.verbs.map(([verb, action]) => /** @type {HTMLButtonElement} */ (actionButton(
    `${verb} selected`,
    () => bulk.ofChosen(`${verb} ${countText(selection.ids.size, bulk.noun)}`, action, [...selection.ids]),
    { class: "small" },
  )));
  const all = bulk.verbs.map(([verb, action]) =>
    actionButton(`${verb} all that match`, () => bulk.ofMatching(`${verb} all that match`, action), {
      class: "small quiet",
    })
  );
  selection.changed = () => {
    put(count, selection.ids.size ? `${selection.ids.size} selected` : "");
    chosen.forEach((one) => (one.disabled = !selection.ids.size));
  };
  selection.changed();
  return h("div", { class: "buttons bulk" }, chosen, all, count);
}

/**
 * Return the actions of a list of definitions: pausing, resuming, deleting in bulk.
 * @param {{noun: string, path: string, scope: string, verbs: [string, string][], filter: () => Record<string, unknown>, refresh: () => void, lost?: (id: string) => import("./dom.js").Child}} told `lost` is what does not happen while one is paused @returns {Bulk}
 */
export function definitionBulk({ noun, path, scope, verbs, filter, refresh, lost }) {
  const verbOf = (/** @type {string} */ action) => verbs.find(([, one]) => one === action)?.[0] ?? action;
  /** @param {string} title @param {string} action @param {object} which @returns {Action} */
  const bulkAction = (title, action, which) => ({
    title,
    scope,
    method: "POST",
    path: `${path}/bulk`,
    body: { action, ...which },
    preview: (answer) => [
      outcomeView(answer.body, noun, "would be changed"),
      action === "disable" && lost ? lostView(answer.body.items, lost) : null,
    ],
    confirmText: (answer) => `${verbOf(action)} ${countText(answer.body.changed, noun)}`,
    result: (answer) => [
      outcomeView(answer, noun, "changed"),
      answer.next_cursor
        ? goOn(() => bulkAction(`Go on: ${title}`, action, { ...which, cursor: answer.next_cursor }))
        : null,
    ],
    done: refresh,
    undo: (answer) => {
      const other = verbs.find(([, one]) => one !== action)?.[1] ?? action;
      const ids = answer.items.filter((/** @type {any} */ one) => one.ok).map((/** @type {any} */ one) => one.id);
      return bulkAction(`${verbOf(other)} ${countText(ids.length, noun)}`, other, { ids });
    },
  });
  return {
    noun,
    verbs,
    ofChosen: (title, action, ids) => bulkAction(title, action, { ids }),
    ofMatching: (title, action) => bulkAction(title, action, { filter: filter() }),
  };
}

/** Return a button that goes on where one call ended. @param {() => Action} next */
export function goOn(next) {
  return h("p", null, "More match. ", h("button", { type: "button", on: { click: () => void act(next()) } }, "Go on"));
}

/** Say what does not happen while these are paused. @param {any[]} items @param {(id: string) => import("./dom.js").Child} lost */
function lostView(items, lost) {
  const rows = items.map((one) => ({ id: one.id, next: lost(one.id) })).filter((one) => one.next).slice(0, 12);
  const lines = rows.map((one) => h("li", null, h("span", { class: "id" }, one.id), " ", one.next));
  return rows.length ? [h("p", null, "The next that would not fire:"), h("ul", null, lines)] : null;
}

/** @param {any} outcome @param {string} noun @param {string} done */
function outcomeView(outcome, noun, done) {
  const items = outcome.items ?? [];
  const failed = items.filter((/** @type {any} */ one) => !one.ok);
  return h(
    "div",
    null,
    h(
      "p",
      null,
      h("strong", null, countText(outcome.changed, noun)),
      ` ${done}`,
      outcome.complete ? "." : ", and more match.",
    ),
    items.length
      ? h(
        "p",
        { class: "soft clip" },
        items.slice(0, 12).map((/** @type {any} */ one) => one.id).join(", "),
        items.length > 12 ? " …" : "",
      )
      : null,
    failed.length
      ? h(
        "ul",
        null,
        failed.slice(0, 10).map((/** @type {any} */ one) => h("li", null, h("code", null, one.id), `: ${one.message}`)),
      )
      : null,
  );
}
