/**
 * Instants for people: in a zone of their choice, with its offset, by the server's clock.
 *
 * The browser's clock is never *now*: the server says what time it is, and between two of its answers real time is added,
 * unless its clock is virtual and stands still.
 */
import { h } from "./dom.js";

/** @typedef {"theirs" | "mine" | "utc"} ZoneChoice */

const KEPT = "betimes.zone";
export const MINE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
let told = { at: Date.now(), since: performance.now(), virtual: false };

/** Take over the server's clock. @param {string} now @param {boolean} [virtual] */
export function setNow(now, virtual = told.virtual) {
  told = { at: Date.parse(now), since: performance.now(), virtual };
}

/** Take note that something was recorded at an instant: the server's clock is at least there, whatever it said last. @param {number} at */
function hearOf(at) {
  if (at > now()) told = { ...told, at, since: performance.now() };
}

/** Do something again and again until `signal` says to stop. @param {number} ms @param {() => void} work @param {AbortSignal} signal */
export function repeat(ms, work, signal) {
  const timer = setInterval(work, ms);
  signal.addEventListener("abort", () => clearInterval(timer));
}

/** Return now, in milliseconds, by the server's clock. */
export function now() {
  return told.virtual ? told.at : told.at + performance.now() - told.since;
}

export function isVirtual() {
  return told.virtual;
}

/** @returns {ZoneChoice} */
export function zoneChoice() {
  const kept = localStorage.getItem(KEPT);
  return kept === "mine" || kept === "utc" ? kept : "theirs";
}

/** @param {ZoneChoice} choice */
export function setZoneChoice(choice) {
  localStorage.setItem(KEPT, choice);
}

/** Return the zone to show an instant in; *theirs* is UTC where nobody's zone is known. @param {string | null} [theirs] */
export function zoneFor(theirs) {
  const choice = zoneChoice();
  return choice === "mine" ? MINE : choice === "theirs" && theirs ? theirs : "UTC";
}

/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();
/** @param {string} zone @param {Intl.DateTimeFormatOptions} options */
function formatter(zone, options) {
  const name = zone + JSON.stringify(options);
  let found = formats.get(name);
  if (!found) {
    formats.set(
      name,
      found = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: safeZone(zone), hourCycle: "h23" }),
    );
  }
  return found;
}

/** @param {string} zone */
function safeZone(zone) {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return zone;
  } catch {
    return "UTC";
  }
}

/** Return the parts of an instant in a zone. @param {number} at @param {string} zone */
export function partsOf(at, zone) {
  const options = /** @type {Intl.DateTimeFormatOptions} */ ({
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    weekday: "short",
    timeZoneName: "longOffset",
  });
  const found = Object.fromEntries(formatter(zone, options).formatToParts(at).map((one) => [one.type, one.value]));
  return { ...found, offset: (found.timeZoneName ?? "").replace("GMT", "") || "+00:00" };
}

/** @param {number} at @param {string} zone */
export function clockText(at, zone, seconds = false) {
  const found = /** @type {any} */ (partsOf(at, zone));
  return `${found.hour}:${found.minute}${seconds ? `:${found.second}` : ""}`;
}

/** @param {number} at @param {string} zone */
export function dateText(at, zone) {
  const found = /** @type {any} */ (partsOf(at, zone));
  return `${found.year}-${found.month}-${found.day}`;
}

/** Return the day of an instant as people write it, with the year where it is not this one. @param {number} at @param {string} zone */
export function dayText(at, zone) {
  const isThisYear = dateText(at, zone).slice(0, 4) === dateText(now(), zone).slice(0, 4);
  return formatter(zone, { day: "numeric", month: "short", year: isThisYear ? undefined : "numeric" }).format(at);
}

/** Return an instant whole: date, time and offset. @param {string | number} instant @param {string | null} [theirs] */
export function fullText(instant, theirs) {
  const at = typeof instant === "number" ? instant : Date.parse(instant);
  const zone = zoneFor(theirs);
  return `${/** @type {any} */ (partsOf(at, zone)).weekday} ${dayText(at, zone)} ${clockText(at, zone, true)} ${
    partsOf(at, zone).offset
  }`;
}

/** Return the offset between midnight there and UTC, in milliseconds. @param {number} at @param {string} zone */
export function offsetMs(at, zone) {
  const [sign, hours, minutes] = /([+-])(\d\d):(\d\d)/.exec(partsOf(at, zone).offset)?.slice(1) ?? ["+", "0", "0"];
  return (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;
}

/** Return the first instant of a date in a zone. @param {string} date YYYY-MM-DD @param {string} zone */
export function dayStart(date, zone) {
  return Date.parse(instantOf(`${date}T00:00:00`, zone));
}

/** Return the instant at which a clock in a zone shows a date and a time. @param {string} local YYYY-MM-DDTHH:MM @param {string} zone */
export function instantOf(local, zone) {
  const utc = Date.parse(`${local}Z`);
  const first = utc - offsetMs(utc, zone);
  return new Date(utc - offsetMs(first, zone)).toISOString();
}

/** Return how long a step of the API is, such as `15m`, in milliseconds. @param {string} step */
export function stepOf(step) {
  const [, number, unit] = /^(\d+)([mhd])$/.exec(step) ?? ["", "15", "m"];
  return Number(number) * { m: 60_000, h: 3_600_000, d: 86_400_000 }[/** @type {"m" | "h" | "d"} */ (unit)];
}

/** Return a duration in words of one unit or two. @param {number} ms */
export function spanText(ms) {
  const s = Math.round(Math.abs(ms) / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h${s % 3600 >= 60 ? ` ${Math.floor((s % 3600) / 60)} min` : ""}`;
  const hours = Math.floor((s % 86_400) / 3600);
  return `${Math.floor(s / 86_400)} d${hours ? ` ${hours} h` : ""}`;
}

/** Return a short duration, to the millisecond. @param {number} ms */
export function durationText(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : spanText(ms);
}

/** @param {string | number} instant */
export function agoText(instant) {
  const at = typeof instant === "number" ? instant : Date.parse(instant);
  const apart = now() - at;
  return Math.abs(apart) < 1000 ? "now" : apart > 0 ? `${spanText(apart)} ago` : `in ${spanText(apart)}`;
}

/**
 * Return an instant as an element: the time, the day if it is not today or is asked for, the offset, the distance from
 * now beside it.
 * @param {string | null | undefined} instant @param {{theirs?: string | null, seconds?: boolean, relative?: boolean, day?: boolean}} [how]
 */
export function when(instant, { theirs = null, seconds = false, relative = true, day = false } = {}) {
  if (!instant) return h("span", { class: "soft" }, "–");
  const at = Date.parse(instant);
  // A text that somebody recorded may look like an instant and be none.
  if (Number.isNaN(at)) return h("span", { class: "id" }, instant);
  const zone = zoneFor(theirs);
  const isToday = dateText(at, zone) === dateText(now(), zone);
  const absolute = `${isToday && !day ? "" : `${dayText(at, zone)} `}${clockText(at, zone, seconds)}`;
  const title = `${fullText(at, theirs)} · ${zone}`;
  return h(
    "time",
    { datetime: instant, title, class: "when" },
    absolute,
    h("span", { class: "offset" }, ` ${partsOf(at, zone).offset}`),
    relative && [" ", h("span", { class: "soft ago" }, agoText(at))],
  );
}

/** Return the instant of something that is recorded, as `when` does; it is never ahead of the clock. @param {string | null | undefined} instant @param {Parameters<typeof when>[1]} [how] */
export function recordedAt(instant, how) {
  hearOf(Date.parse(instant ?? ""));
  return when(instant, how);
}

/** Say anew how far instants that are shown are from now; what a reader is told by itself stays as it is. */
export function retellAges() {
  for (const ago of document.querySelectorAll("time > .ago")) {
    const text = agoText(/** @type {HTMLTimeElement} */ (ago.parentElement).dateTime);
    if (ago.textContent !== text && !ago.closest("[role=status], [aria-live]")) ago.textContent = text;
  }
}

/** Return the words of an instant on an axis: the time, with the day where it is another than that of the instant before; of a midnight the day. @param {number} at @param {number | undefined} before @param {string} zone */
export function axisText(at, before, zone) {
  const [day, clock] = [dayText(at, zone), clockText(at, zone)];
  if (clock === "00:00") return day;
  return before !== undefined && dayText(before, zone) === day ? clock : `${day} ${clock}`;
}

/**
 * Return the two ends of a range as elements, as `when` does: with the day of each where they are of different ones.
 * @param {string} from @param {string | null} to @param {Parameters<typeof when>[1]} [how]
 */
export function whenBoth(from, to, how) {
  const day = Boolean(to) && areDaysApart([from, to ?? from], zoneFor(how?.theirs));
  return [from, to].map((at) => when(at, { relative: false, day, ...how }));
}

/** @param {string[]} instants @param {string} zone */
function areDaysApart(instants, zone) {
  return new Set(instants.map((one) => dateText(Date.parse(one), zone))).size > 1;
}

/** Return two instants as a range in a zone: with the day of each where they are of different ones. @param {number} from @param {number} to @param {string} zone */
export function rangeText(from, to, zone) {
  const [first, last] = [from, to].map((at) => dayText(at, zone));
  return `${first} ${clockText(from, zone)} – ${first === last ? "" : `${last} `}${clockText(to, zone)}`;
}

/** An instant in a text; one that is part of an id, such as a key, is none. */
const INSTANTS = /(?<![\w:./-])(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))(?![\w:/-])/;

/** Return a sentence of the server with its instants as elements, in the zone that was chosen, and with their days where these differ; its words stay. @param {string | null | undefined} text @param {string | null} [theirs] @returns {(string | HTMLElement)[]} */
export function timedText(text, theirs = null) {
  const pieces = (text ?? "").split(INSTANTS);
  const isInstant = (/** @type {string} */ piece, /** @type {number} */ place) =>
    place % 2 === 1 && !Number.isNaN(Date.parse(piece));
  const day = areDaysApart(pieces.filter(isInstant), zoneFor(theirs));
  return pieces.map((piece, place) =>
    place % 2 ? when(piece, { theirs, seconds: !/:00(\.0+)?(Z|[+-]..:..)$/.test(piece), relative: false, day }) : piece
  );
}

/** Return a sentence of the server as `timedText` does, as a text. @param {string} text @param {string | null} [theirs] */
export function timedWords(text, theirs) {
  return timedText(text, theirs).map((piece) => typeof piece === "string" ? piece : piece.textContent).join("");
}

/** Return a zone with its offset, and with both where the clock changes between two instants. @param {string} zone @param {number} from @param {number} to */
export function zoneWords(zone, from, to) {
  if (zone === "UTC") return zone;
  const [before, after] = [from, to].map((at) => partsOf(at, zone).offset);
  return `${zone}, UTC${before}${before === after ? "" : ` and then UTC${after}`}`;
}
