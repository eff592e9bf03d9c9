/**
 * A second world over a day: the answers that a backtest gives to the same person, beside those that were given. Each
 * leads to both traces in the lab.
 */
import { get, part, Problem } from "./api.js";
import { h } from "./dom.js";
import { countText } from "./parts.js";
import { addressWith } from "./router.js";
import { may } from "./session.js";
import { dateText, dayText } from "./time.js";

/** @typedef {import("./day_model.js").Mark} Mark */
/** @typedef {import("./day_window.js").Window} Window */
/** @typedef {import("./router.js").View} View */
const FLIPS_MAX = 200;
const DAYS_MAX = 14;

/** Load the answers that a backtest in the address changes, the first one first. @param {string} id @param {View} view @returns {Promise<any[]>} */
export async function loadWorld(id, view) {
  const backtest = view.query.get("backtest");
  if (!backtest || !may("admin")) return [];
  const query = { id, candidate: view.query.get("candidate"), limit: FLIPS_MAX };
  try {
    const { items } = await get(`/v1/backtests/${part(backtest)}/flips`, query, view.signal);
    return items.sort((/** @type {any} */ one, /** @type {any} */ other) => Date.parse(one.at) - Date.parse(other.at));
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return [];
    throw error;
  }
}

/** @param {any} flip @param {Window} seen */
export function isWithin(flip, seen) {
  return Date.parse(flip.at) >= seen.since && Date.parse(flip.at) < seen.until;
}

/** Return the other answers as marks of lanes of their own. @param {any[]} flips @param {string} id @param {View} view @returns {Mark[]} */
export function worldMarks(flips, id, view) {
  return flips.map((flip) => ({
    at: Date.parse(flip.at),
    lane: flip.kind === "account" || flip.kind === "run" ? "runs" : flip.kind === "inbox" ? "notifications" : "intents",
    kind: "other-world",
    outcome: flip.after.outcome,
    what: flip.key || flip.kind,
    why: `In the backtest: ${flip.after.outcome} instead of ${flip.before.outcome}.`,
    reasons: [...(flip.after.reasons ?? [])],
    href: labHref(id, view),
    until: null,
    ids: [],
  }));
}

/** Return the changed answers of a person in the lab. @param {string} id @param {View} view */
function labHref(id, view) {
  const query = new URLSearchParams({ who: id });
  const candidate = view.query.get("candidate");
  if (candidate) query.set("candidate", candidate);
  return `/console/lab/${part(view.query.get("backtest") ?? "")}?${query}`;
}

/** Say what the backtest changes on this day, and lead to the others on which it changes something. @param {any[]} flips @param {Window} seen */
export function worldNote(flips, seen) {
  if (!flips.length) return null;
  const here = flips.filter((one) => isWithin(one, seen)).length;
  /** @type {Map<string, any[]>} */
  const days = new Map();
  for (const one of flips) {
    const date = dateText(Date.parse(one.at), seen.zone);
    days.set(date, [...(days.get(date) ?? []), one]);
  }
  days.delete(seen.date);
  const links = [...days].slice(0, DAYS_MAX).map(([date, all]) =>
    h(
      "a",
      { class: "chip", href: addressWith({ date, from: null, hours: null }) },
      `${dayText(Date.parse(all[0].at), seen.zone)}: ${all.length}`,
    )
  );
  return h(
    "p",
    { class: "day-trial chips" },
    h("strong", null, `The backtest changes ${here ? countText(here, "answers") : "nothing"} here`),
    links.length ? [h("span", { class: "soft" }, " and on "), links] : null,
  );
}
