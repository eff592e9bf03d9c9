/**
 * A day of a person or an account: what was decided about them in every domain, in their own hours; to the right of now
 * what waits and what is expected.
 */
import { get, part } from "./api.js";
import { lanes, MARKS_MAX } from "./day_lanes.js";
import { dayOf, LANES, waits } from "./day_model.js";
import { personSection, waitingSection } from "./day_person.js";
import { bandsDetails, CLASSES, classOf, marksSection } from "./day_rows.js";
import { dateWords, neighbour, windowOf, ZOOMS, zoomTo } from "./day_window.js";
import { isWithin, loadWorld, worldMarks, worldNote } from "./day_world.js";
import { h, put, svg } from "./dom.js";
import { button } from "./forms.js";
import { onPulse } from "./live.js";
import { answerClass, markShape } from "./marks.js";
import { emptyState, pageHead, section, tabs } from "./parts.js";
import { choiceIn } from "./queries.js";
import { addressWith } from "./router.js";
import { curlOf, pythonOf } from "./samples.js";
import { may } from "./session.js";
import { dateText, now, rangeText, zoneFor, zoneWords } from "./time.js";

/** @typedef {import("./router.js").View} View */
/** @typedef {{id: string, isPerson: boolean}} Subject */
const DELIVERIES_MAX = 200;
const WAITING_MS = 31 * 86_400_000;
const INEXACT = "Some bands and windows of the past are shown as far as they are still remembered.";

/** The names that it knows in a query. @type {string[]} */
export const QUERY = ["date", "from", "hours", "answer", "backtest", "candidate"];

/** @param {View} view */
export async function show(view) {
  const isPerson = view.params.person !== undefined;
  const subject = { id: isPerson ? view.params.person : view.params.account, isPerson };
  view.title(`${subject.id}'s day`);
  const world = loadWorld(subject.id, view);
  const [{ chosen, theirs, seen, timelines }, ahead, effects, flips] = await Promise.all([
    loadDay(subject, view, world),
    loadWaiting(subject, view.signal),
    loadDeliveries(subject, view.signal),
    world,
  ]);
  const day = dayOf(timelines, effects, seen);
  const only = view.query.get("answer") ? choiceIn(view.query, "answer", CLASSES) : null;
  const others = worldMarks(flips.filter((one) => isWithin(one, seen)), subject.id, view);
  const head = [pageHead(subject.id, whose(subject, timelines), ...moves(view, seen)), news(view, subject, seen)];
  if (isEmpty(day, chosen)) return put(view.main, ...head, nobody(subject));
  put(
    view.main,
    ...head,
    section(
      dateWords(seen),
      h(
        "p",
        { class: "soft day-zone" },
        zoneWords(seen.zone, seen.since, seen.until - 1),
        seen.isDay ? "" : `, ${rangeText(seen.since, seen.until, seen.zone)}`,
      ),
      counts(day, ahead.length),
      missing(day, seen),
      worldNote(flips, seen),
      lanes(day, seen, others),
      legend(day, others.length > 0),
      day.isExact ? null : h("p", { class: "soft day-notes" }, INEXACT),
      bandsDetails(day, theirs),
    ),
    waitingSection(ahead, theirs, view),
    chosen ? personSection(subject.id, chosen, day.bands, ahead, view) : null,
    marksSection(rowsOf(day, others, ahead, only), theirs, only),
  );
}

/** Load what they chose, and the day in their zone: the one asked for, else the first on which a backtest changes something, else today. @param {Subject} subject @param {View} view @param {Promise<any[]>} world */
async function loadDay(subject, view, world) {
  const path = `/v1/users/${part(subject.id)}/preferences`;
  const chosen = may("notifications:read") ? await get(path, {}, view.signal) : null;
  const theirs = chosen?.timezone ?? "UTC";
  const first = view.query.get("backtest") ? (await world)[0] : null;
  const seen = windowOf(view.query, zoneFor(theirs), first ? Date.parse(first.at) : now());
  return { chosen, theirs, seen, timelines: await loadTimelines(subject, seen, view.signal) };
}

/** Load the timeline of the person and of the account that is called the same. @param {Subject} subject @param {{since: number, until: number}} seen @param {AbortSignal} signal */
function loadTimelines(subject, seen, signal) {
  const [since, until] = [seen.since, seen.until].map((at) => new Date(at).toISOString());
  const names = subject.isPerson ? ["user_id", "account_id"] : ["account_id", "user_id"];
  return Promise.all(names.map((name) => get("/v1/timeline", { [name]: subject.id, since, until }, signal)));
}

/** Load all that waits for either, on whichever day, soonest first. @param {Subject} subject @param {AbortSignal} signal @returns {Promise<any[]>} */
async function loadWaiting(subject, signal) {
  const timelines = await loadTimelines(subject, { since: now() - 1000, until: now() + WAITING_MS }, signal);
  return timelines.flatMap((one) => one.waiting).sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

/** @param {Subject} subject @param {AbortSignal} signal @returns {Promise<any[]>} */
async function loadDeliveries(subject, signal) {
  if (!may("notifications:read")) return [];
  const query = { user_id: subject.id, effect_kind: "delivery", limit: DELIVERIES_MAX };
  return (await get("/v1/effects", query, signal)).items;
}

/** @param {Subject} subject @param {any[]} timelines */
function whose(subject, timelines) {
  const [, other] = timelines;
  const hasBoth = other.items.length || other.waiting.length || other.bands.length;
  const name = subject.isPerson ? "A person" : "An account";
  const both = subject.isPerson ? ", and the account of that name" : ", and the person of that name";
  return [
    `${name}${hasBoth ? both : ""}. `,
    h("a", { href: `/console/ledger?id=${part(subject.id)}` }, "Everything in the ledger"),
  ];
}

/** @param {View} view @param {import("./day_window.js").Window} seen */
function moves(view, seen) {
  const today = dateText(now(), seen.zone);
  const date = /** @type {HTMLInputElement} */ (h("input", { type: "date", value: seen.date, "aria-label": "Date" }));
  date.addEventListener("change", () => date.value && view.setQuery({ date: date.value, from: null, hours: null }));
  const unit = seen.isDay ? "day" : `${seen.hours} h`;
  return [
    h("a", { class: "button", href: neighbour(seen, -1), "data-earlier": true }, `← Previous ${unit}`),
    date,
    h("a", { class: "button", href: neighbour(seen, 1), "data-later": true }, `Next ${unit} →`),
    seen.date !== today ? h("a", { class: "button", href: addressWith({ date: null, from: null }) }, "Today") : null,
    tabs(
      "Hours",
      ZOOMS.map((hours) => ({ text: `${hours} h`, href: zoomTo(seen, hours), current: hours === seen.hours })),
    ),
  ];
}

/** Say that something new was decided, and let whoever looks choose when it is shown. @param {View} view @param {Subject} subject @param {import("./day_window.js").Window} seen */
function news(view, subject, seen) {
  const box = h("div", { role: "status" });
  let count = 0;
  onPulse((frame) => {
    if (now() >= seen.until) return;
    count += frame.sample.filter((one) => one.id === subject.id).length;
    if (count) put(box, button(`${count} new: show`, () => view.refresh(), { class: "small" }));
  }, view.signal);
  return box;
}

/** @param {import("./day_model.js").Day} day @param {number} waiting on whichever day, as the panel below counts */
function counts(day, waiting) {
  const words = { now: "now", later: "later", never: "never", waits: "wait" };
  return h(
    "p",
    { class: "shares" },
    CLASSES.map((name) => {
      const count = day.marks.filter((mark) => classOf(mark) === name).length;
      const text = name === "waits" && waiting !== count
        ? `${waiting} ${words[name]}, ${count} of them this day`
        : `${count} ${words[name]}`;
      return h("a", { class: "share chip", href: addressWith({ answer: name }) }, swatch(name), text);
    }),
  );
}

/** @param {string} name */
function swatch(name) {
  const shape = name === "waits"
    ? svg("circle", { class: "ring", cx: 6, cy: 6, r: 4.2 })
    : markShape(/** @type {any} */ (name));
  return svg("svg", { class: `mark ${name}`, viewBox: "0 0 12 12", "aria-hidden": "true" }, shape);
}

/** @param {import("./day_model.js").Day} day @param {boolean} hasWorlds */
function legend(day, hasWorlds) {
  const names = new Set(day.bands.map((band) => band.name));
  const band = (/** @type {string} */ name, /** @type {string} */ text) =>
    names.has(name) ? h("span", { class: `day-key ${name}` }, text) : null;
  const used = new Set([...day.marks.map((mark) => mark.lane), ...day.bands.map((band) => band.domain)]);
  const unused = LANES.filter(([key]) => !used.has(key) && key !== "automation").map(([, name]) => name.toLowerCase());
  return h(
    "p",
    { class: "legend" },
    ["now", "later", "never", "other"].map((name) =>
      day.marks.some((mark) => mark.kind !== "waits" && answerClass(mark.outcome) === name)
        ? h("span", { class: "share" }, swatch(name), name)
        : null
    ),
    day.waiting.length ? h("span", { class: "share" }, swatch("waits"), "waits") : null,
    day.links.length ? h("span", { class: "day-key promise-swatch" }, "promised, judged again at its end") : null,
    band("quiet_hours", "quiet hours"),
    band("digest", "digest"),
    band("cooldown", "cooldown"),
    band("debounce", "debounce"),
    band("grace", "grace"),
    band("incident", "incident"),
    band("ban", "ban"),
    hasWorlds
      ? h("span", { class: "day-key trial" }, "in the trial: the answer that the backtest gives instead")
      : null,
    unused.length ? h("span", null, `nothing in: ${unused.join(", ")}`) : null,
  );
}

/** Say which marks of the day are not drawn. @param {import("./day_model.js").Day} day @param {import("./day_window.js").Window} seen */
function missing(day, seen) {
  const isCut = day.marks.length > MARKS_MAX;
  if (!isCut && !day.truncated) return null;
  const which = now() >= seen.until ? "last" : now() < seen.since ? "first" : "nearest to now";
  const words = which === "nearest to now" ? `${MARKS_MAX} marks ${which}` : `${which} ${MARKS_MAX} marks`;
  return h(
    "p",
    { class: "soft day-notes" },
    isCut ? `Only the ${words} of ${day.marks.length} are drawn; choose fewer hours to see the others. ` : null,
    day.truncated ? "There was more than is shown; the ledger has all of it." : null,
  );
}

/** Return what the table shows: the day's marks, or, asked for what waits, all that waits on whichever day. @param {import("./day_model.js").Day} day @param {import("./day_model.js").Mark[]} others @param {any[]} ahead @param {string | null} only */
function rowsOf(day, others, ahead, only) {
  const marks = only === "waits" ? ahead.map(waits) : [...day.marks, ...others];
  return marks.sort((one, other) => one.at - other.at);
}

/** @param {import("./day_model.js").Day} day @param {any} chosen */
function isEmpty(day, chosen) {
  return !day.marks.length && !day.waiting.length && !day.bands.length && !chosen?.version;
}

/** @param {Subject} subject */
function nobody(subject) {
  return emptyState(
    `Nothing is known of ${subject.id} this day`,
    "What is decided about them appears here, in their own hours. Send a notification to see one:",
    { curl: curlOf("notification"), python: pythonOf("notification"), href: "/console/try" },
  );
}
