/** Acting on dead letters: once more, or away; those chosen, or all that fit. */
import { h } from "./dom.js";
import { countText, facts, figure } from "./parts.js";
import { goOn } from "./selection.js";
import { when } from "./time.js";

/** @typedef {import("./actions.js").Action} Action */
/** @typedef {import("./router.js").View} View */

/** Act on all dead letters that fit. @param {View} view @param {string} action @param {Record<string, string>} filter @param {number} [count] @param {string | null} [cursor] @returns {Action} */
export function onMatching(view, action, filter, count, cursor = null) {
  const verb = action === "retry" ? "Retry" : "Discard";
  const which = count === undefined ? "all dead letters that match" : countText(count, "dead letters");
  return {
    title: `${cursor ? "Go on: " : ""}${verb} ${which}`,
    scope: "any:write",
    method: "POST",
    path: `/v1/effects/${action}`,
    body: { filter, ...(cursor ? { cursor } : {}) },
    noteIn: "body",
    danger: action === "discard",
    before: facts(Object.entries(filter).map(([name, value]) => [name.replaceAll("_", " "), h("code", null, value)])),
    preview: (told) => outcome(told.body, action === "retry" ? "would be tried again" : "would be removed for good"),
    confirmText: (told) => `${verb} ${countText(told.body.done, "dead letters")}`,
    result: (told) => [
      outcome(told, action === "retry" ? "will be tried again" : "removed"),
      told.next_cursor ? goOn(() => onMatching(view, action, filter, count, told.next_cursor)) : null,
    ],
    done: view.refresh,
  };
}

/** @param {any} told @param {string} done */
function outcome(told, done) {
  const skipped = told.skipped_first.map((/** @type {any} */ one) =>
    h("li", null, h("code", null, one.effect_id), `: ${one.message}`)
  );
  return h(
    "div",
    null,
    h(
      "p",
      null,
      h("strong", null, countText(told.done, "dead letters")),
      ` ${done}`,
      told.oldest_at ? [", the oldest from ", when(told.oldest_at)] : null,
      told.complete ? "." : "; more match.",
    ),
    told.skipped ? [h("p", null, `${figure(told.skipped)} cannot be:`), h("ul", null, skipped)] : null,
  );
}

/** Act on dead letters by their ids. @param {View} view @param {string} title @param {string} action @param {string[]} ids @returns {Action} */
export function onChosen(view, title, action, ids) {
  const told = (/** @type {any} */ body, /** @type {string} */ done) => {
    const refused = body.items.filter((/** @type {any} */ one) => one.problem);
    return [
      h("p", null, h("strong", null, countText(body.items.length - refused.length, "effects")), ` ${done}.`),
      refused.length
        ? h(
          "ul",
          null,
          refused.map((/** @type {any} */ one) =>
            h("li", null, h("code", null, ids[one.index]), `: ${one.problem.detail}`)
          ),
        )
        : null,
    ];
  };
  return {
    title,
    scope: "any:write",
    method: "POST",
    path: `/v1/effects/${action}`,
    body: { items: ids.map((effect_id) => ({ effect_id })) },
    isBatch: true,
    noteIn: "query",
    danger: action === "discard",
    preview: (answered) =>
      told(answered.body, action === "retry" ? "would be tried again" : "would be removed for good"),
    result: (answered) => told(answered, action === "retry" ? "will be tried again" : "removed"),
    done: view.refresh,
  };
}
