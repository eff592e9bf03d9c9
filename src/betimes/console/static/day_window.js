/**
 * Which hours of which day are shown: a whole day of a zone, or a few hours of it, from the query of the address.
 */
import { choiceIn, dateIn, instantIn } from "./queries.js";
import { addressWith } from "./router.js";
import { dateText, dayStart, now, offsetMs, partsOf } from "./time.js";

export const HOUR = 3_600_000;
export const ZOOMS = [24, 12, 6, 1];

/** @typedef {{since: number, until: number, zone: string, date: string, hours: number, isDay: boolean}} Window */

/** @param {URLSearchParams} query @param {string} zone @param {number} [at] an instant of the day, if the query names none @returns {Window} */
export function windowOf(query, zone, at = now()) {
  const hours = Number(choiceIn(query, "hours", ZOOMS.map(String)));
  const from = instantIn(query, "from", zone);
  if (hours < 24 && from !== null) {
    return { since: from, until: from + hours * HOUR, zone, date: dateText(from, zone), hours, isDay: false };
  }
  const date = dateIn(query, "date") ?? dateText(at, zone);
  return { since: dayStart(date, zone), until: dayStart(dayAfter(date, 1), zone), zone, date, hours: 24, isDay: true };
}

/** @param {string} date @param {number} days */
export function dayAfter(date, days) {
  return new Date(Date.parse(`${date}T00:00:00Z`) + days * 24 * HOUR).toISOString().slice(0, 10);
}

/** Return the address of what comes before or after. @param {Window} seen @param {1 | -1} way */
export function neighbour(seen, way) {
  if (seen.isDay) return addressWith({ date: dayAfter(seen.date, way), from: null, hours: null });
  return addressWith({ from: new Date(seen.since + way * seen.hours * HOUR).toISOString() });
}

/** Return the address of more or fewer hours, around now if that is shown, else around the middle. @param {Window} seen @param {number} hours */
export function zoomTo(seen, hours) {
  if (hours >= 24) return addressWith({ date: seen.date, from: null, hours: null });
  const isNow = now() >= seen.since && now() < seen.until;
  const middle = isNow ? now() : (seen.since + seen.until) / 2;
  const from = Math.floor((middle - (hours * HOUR) / 2) / HOUR) * HOUR;
  return addressWith({ date: null, from: new Date(from).toISOString(), hours: String(hours) });
}

/** Return where in a window the offset of its zone changes. @param {Window} seen @returns {{at: number, before: string, after: string} | null} */
export function seamOf({ since, until, zone }) {
  if (offsetMs(since, zone) === offsetMs(until - 1, zone)) return null;
  let [low, high] = [since, until - 1];
  while (high - low > 1000) {
    const middle = Math.floor((low + high) / 2);
    if (offsetMs(middle, zone) === offsetMs(since, zone)) low = middle;
    else high = middle;
  }
  const at = Math.round(high / 60_000) * 60_000;
  return { at, before: partsOf(since, zone).offset, after: partsOf(until - 1, zone).offset };
}

/** Return a date as people say it; of hours of two days both. @param {Window} seen */
export function dateWords(seen) {
  const format = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeZone: "UTC" });
  const last = dateText(seen.until - 1, seen.zone);
  const dates = seen.isDay || last === seen.date ? [seen.date] : [seen.date, last];
  return dates.map((date) => format.format(Date.parse(`${date}T12:00:00Z`))).join(" to ");
}
