/** A schedule: its ticks on a line of time, the runs they caused, its versions, and what changes of the clock do to it. */
import { get, part } from "./api.js";
import {
  deleteButton,
  ofStatus,
  statusCounts,
  statusHref,
  switchButton,
  targetText,
  versionSection,
} from "./definition_parts.js";
import { h, put } from "./dom.js";
import { pagedRows } from "./list_page.js";
import { onDecisions } from "./live.js";
import { lagText, owedLink, owedText } from "./page_schedules.js";
import { answer, facts, figure, pageHead, section, table, tabs, tile, whyHref } from "./parts.js";
import { choiceIn, instantIn } from "./queries.js";
import { addressWith, go } from "./router.js";
import { dstSection } from "./schedule_clock.js";
import { backfillButton, backfillButtons, tickNowButton } from "./schedule_actions.js";
import { rawJson } from "./texts.js";
import { runGantt, tickTimeline } from "./tick_charts.js";
import { zoneLine } from "./timelines.js";
import { durationText, now, when, whenBoth, zoneFor } from "./time.js";

/** @typedef {import("./router.js").View} View */

const RANGES =
  /** @type {[string, number][]} */ ([["day", 86_400_000], ["week", 7 * 86_400_000], ["month", 30 * 86_400_000]]);
const TICKS = 150;
/** Rows of the table at first: drawings and table together stay a small page. */
const ROWS = 30;

/** The names that it knows in a query. @type {string[]} */
export const QUERY = ["range", "until", "status"];

/** @param {View} view */
export async function show(view) {
  const id = view.params.schedule;
  view.title(`Schedule ${id}`);
  const chosen = choiceIn(view.query, "range", RANGES.map(([name]) => name));
  const [range, ms] = RANGES.find(([name]) => name === chosen) ?? RANGES[0];
  const past = Math.min(instantIn(view.query, "until") ?? Infinity, now()); // or now, which goes on
  const end = () => view.query.get("until") ? past : now();
  const path = `/v1/schedules/${part(id)}`;
  const load = () => {
    const [since, until] = [end() - ms, end()].map((at) => new Date(at).toISOString());
    const query = { schedule_id: id, since, until: view.query.get("until") ? until : null, limit: TICKS };
    return Promise.all([get(path, {}, view.signal), get("/v1/ticks", query, view.signal)]);
  };
  const [[schedule, ticks], backfills, versions] = await Promise.all([
    load(),
    get(`${path}/backfills`, { limit: 20 }, view.signal),
    versionSection(view, "schedule", id, "Schedule"),
  ]);
  const moving = h("div");
  const paint = async (/** @type {any} */ current, /** @type {any} */ found) => {
    const window = { range, from: end() - ms, to: view.query.get("until") ? past : now() + ms / 8 };
    const isOpen = moving.querySelector("details")?.open;
    put(moving, tiles(current, found.items, range), await timelineSection(view, current, found, window));
    if (isOpen !== undefined) /** @type {HTMLDetailsElement} */ (moving.querySelector("details")).open = isOpen;
  };
  await paint(schedule, ticks);
  put(
    view.main,
    head(view, schedule),
    schedule.last_error ? section("Last error", h("p", { class: "error-text" }, schedule.last_error)) : null,
    moving,
    backfills.items.length ? backfillSection(view, schedule, backfills.items) : null,
    h("div", { class: "columns" }, definitionSection(schedule), await dstSection(schedule, view.signal)),
    versions,
  );
  onDecisions("automation", async () => {
    const [current, found] = await load();
    // Whoever is at work in there is left in peace.
    if (!moving.contains(document.activeElement)) await paint(current, found);
  }, view.signal);
}

/** @param {View} view @param {any} schedule */
function head(view, schedule) {
  const id = schedule.schedule_id;
  const lost = schedule.next_ticks.map((/** @type {string} */ at) =>
    h("li", null, when(at, { theirs: schedule.timezone }))
  );
  return pageHead(
    [h("span", { class: "soft" }, "Schedule "), h("span", { class: "id" }, id)],
    [answer(schedule.status), " · ", schedule.recurrence_text, " · ", schedule.timezone],
    tickNowButton(view, schedule),
    backfillButton(view, schedule),
    schedule.status === "ended" ? null : switchButton(view, {
      path: "/v1/schedules",
      id,
      scope: "automation:write",
      isOn: schedule.enabled,
      version: schedule.version,
      before: lost.length
        ? h(
          "div",
          null,
          h("p", null, "While it is paused nothing fires. The next that would not:"),
          h("ul", null, lost),
        )
        : null,
    }),
    deleteButton({
      path: "/v1/schedules",
      list: "/console/schedules",
      id,
      scope: "automation:write",
      version: schedule.version,
    }),
  );
}

/** @param {any} schedule @param {any[]} ticks @param {string} range */
function tiles(schedule, ticks, range) {
  return h(
    "div",
    { class: "tiles" },
    tile("Next tick", schedule.next_tick_at ? when(schedule.next_tick_at, { theirs: schedule.timezone }) : "none"),
    tile(`Ticks of this ${range}`, figure(ticks.length), {
      href: statusHref(null, "ticks"),
      below: statusCounts(ticks, "ticks"),
    }),
    tile("Late, median / p99", lagText(ticks), { href: statusHref(null, "ticks") }),
    tile("Owed", owedLink(schedule), { tone: owedText(schedule) === "0" ? "" : "bad" }),
  );
}

/** @param {View} view @param {any} schedule @param {any} page @param {{range: string, from: number, to: number}} told */
async function timelineSection(view, schedule, page, { range, from, to }) {
  const ticks = page.items;
  const shown = ofStatus(view, ticks, "ticks");
  const window = { from, to, now: now(), zone: zoneFor(schedule.timezone) };
  const next = schedule.next_ticks.filter((/** @type {string} */ at) => Date.parse(at) < to);
  const runs = ticks.filter((/** @type {any} */ one) => one.run);
  const choice = tabs(
    "Range",
    RANGES.map(([name]) => ({ text: name, href: addressWith({ range: name, until: null }), current: name === range })),
  );
  return section(
    "Ticks",
    h("div", { class: "chart-head" }, h("span", { class: "buttons" }, choice, moves(from, to)), legend()),
    page.next_cursor ? h("p", { class: "soft" }, `The newest ${TICKS} of this ${range} are shown.`) : null,
    tickTimeline(ticks, next, window, (tick) => void go(whyHref(tick.segment_id))),
    runs.length ? [h("h3", null, "Runs they caused"), runGantt(ticks, window)] : null,
    zoneLine(window),
    h(
      "details",
      { open: ticks.length < 12 || shown.rows !== ticks },
      h("summary", null, "Ticks as a table"),
      shown.chip,
      await pagedRows(shown.rows, ROWS, (rows) => tickTable(schedule, rows)),
    ),
  );
}

/** Return links to the window before this one and after it. @param {number} from @param {number} to */
function moves(from, to) {
  const after = to + (to - from);
  const link = (/** @type {string} */ text, /** @type {string} */ key, /** @type {number} */ until) =>
    h("a", {
      class: "button small",
      href: addressWith({ until: until < now() ? new Date(until).toISOString() : null }),
      [`data-${key}`]: true,
    }, text);
  return [link("← Earlier", "earlier", from), to < now() ? link("Later →", "later", after) : null];
}

function legend() {
  return h(
    "span",
    { class: "legend" },
    answer("fired"),
    answer("failed"),
    h("span", null, h("span", { class: "key key-skipped" }), "skipped"),
    h("span", null, h("span", { class: "key key-late" }), "late, from when it was due"),
    h("span", null, h("span", { class: "key key-coming" }), "to come"),
  );
}

/** @param {any} schedule @param {any[]} ticks */
function tickTable(schedule, ticks) {
  const theirs = schedule.timezone;
  const columns = [
    { name: "Due", cell: (/** @type {any} */ one) => when(one.scheduled_for, { theirs, seconds: true }) },
    {
      name: "Status",
      cell: (/** @type {any} */ one) => h("a", { class: "plain", href: whyHref(one.segment_id) }, answer(one.status)),
    },
    { name: "Cause", cell: (/** @type {any} */ one) => one.cause },
    {
      name: "Late",
      kind: "number",
      cell: (/** @type {any} */ one) => one.lag_ms == null ? "–" : durationText(one.lag_ms),
    },
    { name: "Run", cell: (/** @type {any} */ one) => runCell(one) },
    { name: "Took", kind: "number", cell: (/** @type {any} */ one) => tookText(one.run) },
    { name: "Why", cell: (/** @type {any} */ one) => whyCell(one) },
  ];
  const empty = h("p", { class: "soft" }, "No tick in this range.");
  return table({ caption: "Ticks, newest first", columns, rows: ticks, href: (one) => whyHref(one.segment_id), empty });
}

/** @param {any} tick */
function runCell(tick) {
  if (!tick.run) return tick.run_id ? h("span", { class: "soft" }, "asked for") : "";
  return tick.run.verdict
    ? h("a", { class: "plain", href: `/console/runs/${part(tick.run_id)}` }, answer(tick.run.status))
    : answer(tick.run.status);
}

/** @param {any} run */
function tookText(run) {
  const from = run?.started_at ?? run?.allowed_at;
  return from && run.finished_at ? durationText(Date.parse(run.finished_at) - Date.parse(from)) : "–";
}

/** @param {any} tick */
function whyCell(tick) {
  const words = tick.error ?? tick.run?.error ??
    (tick.status === "skipped" ? `${tick.count ?? 1} skipped: ${tick.reason}` : tick.run?.verdict?.reason ?? "why");
  return h("a", { href: whyHref(tick.segment_id) }, words);
}

/** @param {View} view @param {any} schedule @param {any[]} rows */
function backfillSection(view, { schedule_id: id, timezone: theirs }, rows) {
  const columns = [
    { name: "Backfill", cell: (/** @type {any} */ one) => h("code", null, one.backfill_id) },
    { name: "Status", cell: (/** @type {any} */ one) => answer(one.status) },
    { name: "From", cell: (/** @type {any} */ one) => whenBoth(one.from, one.to, { theirs })[0] },
    { name: "To", cell: (/** @type {any} */ one) => whenBoth(one.from, one.to, { theirs })[1] },
    { name: "Done", kind: "number", cell: (/** @type {any} */ one) => `${figure(one.done)} of ${figure(one.total)}` },
    { name: "Existed", kind: "number", cell: (/** @type {any} */ one) => figure(one.existing) },
    { name: "Failed", kind: "number", cell: (/** @type {any} */ one) => figure(one.failed) },
    { name: "Act", cell: (/** @type {any} */ one) => h("span", { class: "buttons" }, backfillButtons(view, id, one)) },
  ];
  return section("Backfills", table({ caption: "Backfills, newest first", columns, rows }));
}

/** @param {any} schedule */
function definitionSection(schedule) {
  const cron = Array.isArray(schedule.cron) ? schedule.cron.join("; ") : schedule.cron;
  const at = (/** @type {string | null} */ instant) => instant ? when(instant, { theirs: schedule.timezone }) : null;
  return section(
    "Definition",
    facts([
      ["Recurrence", [schedule.recurrence_text, cron ? [" ", h("code", { class: "cron" }, cron)] : null]],
      ["Zone", schedule.timezone],
      ["Leads to", targetText(schedule.target)],
      ["If it is still running", schedule.overlap === "skip" ? "the tick is skipped" : "the next runs beside it"],
      [
        "Catches up",
        `${schedule.max_catchup_ticks} of the last ${
          durationText(schedule.catchup_window_minutes * 60_000)
        }, the ${schedule.catchup_keep}`,
      ],
      ["Jitter", schedule.jitter_seconds ? `up to ${schedule.jitter_seconds} s` : null],
      ["Starts", at(schedule.starts_at)],
      ["Ends", at(schedule.ends_at)],
      ["Partition", schedule.partition],
      ["Declared by", schedule.declared_by],
      ["Version", String(schedule.version)],
      ["Changed", at(schedule.changed_at)],
    ]),
    rawJson(schedule),
  );
}
