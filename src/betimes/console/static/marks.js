/**
 * Answers as marks: a shape and a colour that say the same.
 */
import { h, svg } from "./dom.js";
import { wordOf } from "./server.js";

/** @typedef {"now" | "later" | "never" | "other"} AnswerClass */

/** Words of every domain that mean *it happens*, *later* and *not at all*. */
const CLASSES = {
  now: "NOW ALLOW fired success triggered FIRED SUCCESS ok done delivered active succeeded".split(" "),
  later: "LATER DEFER deferred waiting pending retry held paused allowed".split(" "),
  never: "NEVER SKIP skipped failed error FAILED dead game_over expired abandoned".split(" "),
};

/** Return which of four classes an outcome belongs to. @param {string} outcome @returns {AnswerClass} */
export function answerClass(outcome) {
  for (const [name, words] of Object.entries(CLASSES)) {
    if (words.includes(outcome)) return /** @type {AnswerClass} */ (name);
  }
  return "other";
}

/** Return the mark of an answer; its shape says the same as its colour: circle, half circle, cross, diamond. @param {string} outcome */
export function mark(outcome) {
  const kind = answerClass(outcome);
  return svg("svg", { class: `mark ${kind}`, viewBox: "0 0 12 12", "aria-hidden": "true" }, markShape(kind));
}

/** Return the shape of a mark, centred at 6,6 in a box of 12. @param {AnswerClass} kind */
export function markShape(kind) {
  if (kind === "now") return svg("circle", { cx: 6, cy: 6, r: 4.5 });
  if (kind === "later") {
    return svg(
      "g",
      null,
      svg("circle", { cx: 6, cy: 6, r: 4.2, class: "hollow" }),
      svg("path", { d: "M6 1.5a4.5 4.5 0 0 1 0 9z" }),
    );
  }
  if (kind === "never") return svg("path", { d: "M2.5 2.5l7 7m0-7l-7 7", class: "stroke" });
  return svg("path", { d: "M6 1.2L10.8 6 6 10.8 1.2 6z" });
}

/** Return an answer: its mark and its word. @param {string} outcome */
export function answer(outcome) {
  return h("span", { class: `answer ${answerClass(outcome)}` }, mark(outcome), wordOf(outcome));
}
