/** What can be done to a schedule: tick now, fill a range that was missed. */
import { actionButton, previewForm } from "./actions.js";
import { get, part } from "./api.js";
import { h, put } from "./dom.js";
import { button, field, openDialog } from "./forms.js";
import { countText, figure } from "./parts.js";
import { mayAct } from "./session.js";
import { dateText, instantOf, now, when, zoneFor } from "./time.js";

/** @typedef {import("./router.js").View} View */

const SCOPE = "automation:write";
/** Pages of ticks that are looked at to count those that exist. */
const PAGES = 5;

/** @param {View} view @param {any} schedule */
export function tickNowButton(view, schedule) {
  const id = schedule.schedule_id;
  return actionButton("Tick now", () => ({
    title: `Tick ${id} now`,
    scope: SCOPE,
    method: "POST",
    path: `/v1/schedules/${part(id)}/trigger`,
    body: {},
    version: schedule.version,
    preview: (told) =>
      h(
        "p",
        null,
        "One tick ",
        h("strong", null, told.body.status),
        ", which would ask for the run ",
        h("code", null, told.body.run_key),
        ".",
      ),
    done: view.refresh,
  }));
}

/** Ask for a range, then show how many ticks of it were never fired. @param {View} view @param {any} schedule */
export function backfillButton(view, schedule) {
  if (!mayAct()) return null;
  return button(
    "Backfill",
    () => openDialog(`Backfill ${schedule.schedule_id}`, (close) => rangeForm(view, schedule, close)),
  );
}

/** @param {View} view @param {any} schedule @param {() => void} close */
function rangeForm(view, schedule, close) {
  const zone = zoneFor(schedule.timezone);
  const input = (
    /** @type {number} */ at,
  ) => /** @type {HTMLInputElement} */ (h("input", {
    type: "datetime-local",
    required: true,
    value: `${dateText(at, zone)}T00:00`,
  }));
  const from = input(now() - 86_400_000);
  const to = input(now());
  const most = /** @type {HTMLInputElement} */ (h("input", { type: "number", min: "1", max: "100", value: "4" }));
  const fields = [
    h("p", { class: "soft" }, "Fires the ticks of a range that were never fired. What was fired is left as it is."),
    field(`From (${zone})`, from),
    field(`To, not included (${zone})`, to),
    field("Runs at once", most),
  ];
  return previewForm(close, fields, () =>
    backfill(view, schedule, {
      from: instantOf(from.value, zone),
      to: instantOf(to.value, zone),
      max_concurrency: Number(most.value),
    }));
}

/** @param {View} view @param {any} schedule @param {{from: string, to: string, max_concurrency: number}} body @returns {import("./actions.js").Action} */
function backfill(view, schedule, body) {
  const id = schedule.schedule_id;
  return {
    title: `Backfill ${id}`,
    scope: SCOPE,
    method: "POST",
    path: `/v1/schedules/${part(id)}/backfills`,
    body,
    version: schedule.version,
    before: h("p", null, "From ", when(body.from), " to ", when(body.to), "."),
    preview: (told) => backfillPreview(view, id, body, told.body.total),
    result: (told) => h("p", null, countText(told.total, "ticks"), ` to look at, as ${told.backfill_id}.`),
    done: view.refresh,
  };
}

/** Say how many ticks are in a range, and how many of them exist already. @param {View} view @param {string} id @param {{from: string, to: string}} range @param {number} total */
function backfillPreview(view, id, range, total) {
  const existing = h("span", null, "; counting those that exist…");
  const count = async () => {
    const { found, isAll } = await countFired(id, range, view.signal);
    const few = isAll ? "" : "at least ";
    put(
      existing,
      found
        ? `: ${few}${figure(found)} of them exist already and are left as they are`
        : isAll
        ? ", none of which exists yet"
        : "; those that exist are left as they are",
      isAll ? `, ${figure(total - found)} would fire.` : ".",
    );
  };
  count().catch(() => put(existing, "; those that exist already are left as they are."));
  return h("p", null, h("strong", null, countText(total, "ticks")), " in the range", existing);
}

/** Count the ticks of a range that were fired, looking at a bounded number. @param {string} id @param {{from: string, to: string}} range @param {AbortSignal} signal */
async function countFired(id, { from, to }, signal) {
  const fired = new Set();
  let cursor = null;
  for (let count = 0; count < PAGES; count += 1) {
    // A tick is recorded after the instant it is for, so nothing of the range is older than its beginning.
    const query = { schedule_id: id, status: "fired", since: from, limit: 200, cursor };
    const page = await get("/v1/ticks", query, signal);
    for (const tick of page.items) {
      const at = Date.parse(tick.scheduled_for);
      if (tick.cause !== "manual" && at >= Date.parse(from) && at < Date.parse(to)) fired.add(at);
    }
    cursor = page.next_cursor;
    if (!cursor) return { found: fired.size, isAll: true };
  }
  return { found: fired.size, isAll: false };
}

/** Return the buttons of a backfill. @param {View} view @param {string} id @param {any} one */
export function backfillButtons(view, id, one) {
  const verbs = one.status === "running" ? ["Pause", "Cancel"] : one.status === "paused" ? ["Resume", "Cancel"] : [];
  return verbs.map((verb) =>
    actionButton(verb, () => ({
      title: `${verb} ${one.backfill_id}`,
      scope: SCOPE,
      method: "POST",
      path: `/v1/schedules/${part(id)}/backfills/${part(one.backfill_id)}/${verb.toLowerCase()}`,
      done: view.refresh,
    }), { class: "small", "aria-label": `${verb} ${one.backfill_id}` })
  );
}
