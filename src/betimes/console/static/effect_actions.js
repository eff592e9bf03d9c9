/** Acting on dead letters: once more, or away; those chosen, or all that fit. */
import { h } from "./dom.js";
import { countText, facts, figure } from "./parts.js";
import { goOn } from "./selection.js";
import { recordedAt } from "./time.js";

/** @typedef {import("./actions.js").Action} Action */
/** @typedef {import("./router.js").View} View */

/** @param {View} view @param {string} title @param {string} action @returns {Action} */
function acting(view, title, action) {
  const isRetry = action === "retry";
  return {
    title,
    scope: "any:write",
    method: "POST",
    path: `/v1/effects/${action}`,
    danger: !isRetry,
    preview: (told) => outcome(told.body, isRetry ? "would be tried again" : "would be removed for good"),
    result: (told) => outcome(told, isRetry ? "will be tried again" : "removed"),
    done: view.refresh,
  };
}

/** Act on all dead letters that fit. @param {View} view @param {string} action @param {Record<string, string>} filter @param {number} [count] @param {string | null} [cursor] @returns {Action} */
export function onMatching(view, action, filter, count, cursor = null) {
  const verb = action === "retry" ? "Retry" : "Discard";
  const which = count === undefined ? "all dead letters that match" : countText(count, "dead letters");
  const whole = acting(view, `${cursor ? "Go on: " : ""}${verb} ${which}`, action);
  return {
    ...whole,
    body: { filter, ...(cursor ? { cursor } : {}) },
    before: facts(Object.entries(filter).map(([name, value]) => [name.replaceAll("_", " "), h("code", null, value)])),
    confirmText: (told) => `${verb} ${countText(told.body.done, "dead letters")}`,
    result: (told) => [
      whole.result?.(told),
      told.next_cursor ? goOn(() => onMatching(view, action, filter, count, told.next_cursor)) : null,
    ],
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
      told.oldest_at ? [", the oldest from ", recordedAt(told.oldest_at)] : null,
      told.complete ? "." : "; more match.",
    ),
    told.skipped ? [h("p", null, `${figure(told.skipped)} cannot be:`), h("ul", null, skipped)] : null,
  );
}

/** Act on dead letters by their ids. @param {View} view @param {string} title @param {string} action @param {string[]} ids @returns {Action} */
export function onChosen(view, title, action, ids) {
  return { ...acting(view, title, action), body: { ids } };
}
