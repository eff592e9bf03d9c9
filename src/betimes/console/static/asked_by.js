/** Who asked for a segment, and why, as lists show it. */
import { h } from "./dom.js";

/** @param {{actor: string, note: string}} segment */
export function askedBy(segment) {
  return [segment.actor || "–", segment.note ? h("span", { class: "soft note" }, segment.note) : null];
}
