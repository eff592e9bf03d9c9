/** What changes of the clock do to a schedule: its ticks around the next two of its zone. */
import { ask } from "./api.js";
import { h } from "./dom.js";
import { section, table } from "./parts.js";
import { clockText, dayText, now, offsetMs, partsOf } from "./time.js";

/** Show what the next two changes of the clock do to it. @param {any} schedule @param {AbortSignal} signal */
export async function dstSection(schedule, signal) {
  const changes = clockChanges(schedule.timezone, now(), 2);
  if (!changes.length) {
    return section(
      "Changes of the clock",
      h("p", { class: "soft" }, `${schedule.timezone} does not change its clock in the next two years.`),
    );
  }
  const { cron, every, timezone, dst, exclude } = schedule;
  const previews = await Promise.all(changes.map((change) => {
    const from = new Date(change.at - 26 * 3_600_000).toISOString();
    const body = { ...(cron ? { cron } : { every }), timezone, dst, ...(exclude ? { exclude } : {}), from, count: 100 };
    return ask("POST", "/v1/schedules/preview", { body, signal });
  }));
  return section(
    "Changes of the clock",
    changes.map((change, place) => changeView(change, previews[place].items, timezone)),
  );
}

/** Return what a clock on a wall of a zone shows. @param {number} at @param {string} zone */
function wallText(at, zone) {
  return `${dayText(at, zone)} ${clockText(at, zone)} ${partsOf(at, zone).offset}`;
}

/** @param {{at: number, by: number}} change @param {{scheduled_for: string, local: string}[]} ticks @param {string} zone */
function changeView(change, ticks, zone) {
  const near = ticks.filter((one) => Math.abs(Date.parse(one.scheduled_for) - change.at) < 26 * 3_600_000);
  const after = near.findIndex((one) => Date.parse(one.scheduled_for) >= change.at);
  const start = Math.max(0, (after < 0 ? near.length : after) - 3);
  const hours = Math.abs(change.by) / 3_600_000;
  const rows = near.slice(start, start + 6).map((one) => ({
    ...one,
    isAfter: Date.parse(one.scheduled_for) >= change.at,
  }));
  const columns = [
    { name: "On the wall", cell: (/** @type {any} */ one) => wallText(Date.parse(one.scheduled_for), zone) },
    { name: "The clock", cell: (/** @type {any} */ one) => (one.isAfter ? "changed" : "not yet changed") },
  ];
  const words = `${wallText(change.at, zone)}: ${change.by > 0 ? "forward" : "back"} by ${hours} h`;
  const none = h("p", { class: "soft" }, "No tick near it.");
  return [h("h3", null, words), table({ caption: `Ticks around ${words}`, columns, rows, empty: none })];
}

/** Return the next changes of a zone's offset: when, and by how much. @param {string} zone @param {number} from @param {number} most */
function clockChanges(zone, from, most) {
  const day = 86_400_000;
  const found = [];
  let before = offsetMs(from, zone);
  for (let at = from; at < from + 730 * day && found.length < most; at += day) {
    const after = offsetMs(at + day, zone);
    if (after === before) continue;
    let [low, high] = [at, at + day];
    while (high - low > 1000) {
      const middle = (low + high) / 2;
      if (offsetMs(middle, zone) === before) low = middle;
      else high = middle;
    }
    found.push({ at: Math.round(high / 60_000) * 60_000, by: after - before });
    before = after;
  }
  return found;
}
