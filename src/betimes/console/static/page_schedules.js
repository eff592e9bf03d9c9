/** Schedules: when each ticks, how its last ticks went, what it owes. */
import { part } from "./api.js";
import { h } from "./dom.js";
import { targetText } from "./definition_parts.js";
import { firstOne, pauseAndResume, showList } from "./list_page.js";
import { answer } from "./parts.js";
import { loadNewest, statusStrip } from "./tick_charts.js";
import { clockText, dayText, durationText, now, when, zoneFor } from "./time.js";

/** @param {import("./router.js").View} view */
export function show(view) {
  /** @type {Map<string, any[]>} */
  const ticks = new Map();
  return showList(
    view,
    "Schedules",
    "What the clock causes: each with its zone, its next ticks and how the last ones went.",
    {
      path: "/v1/schedules",
      noun: "schedules",
      caption: "Schedules, newest first",
      filters: [{ name: "status", label: "Status", options: ["active", "paused", "ended", "error"] }],
      idOf: (row) => row.schedule_id,
      hrefOf: (row) => `/console/schedules/${part(row.schedule_id)}`,
      idName: "Schedule",
      enrich: (rows, signal) => loadNewest("/v1/ticks", "schedule_id", ticks, rows, signal),
      columns: [
        { name: "Status", cell: (row) => answer(row.status) },
        { name: "When", cell: (row) => [row.recurrence_text, h("span", { class: "soft under" }, row.timezone)] },
        { name: "Leads to", cell: (row) => targetText(row.target) },
        { name: "Next ticks", cell: nextTicks },
        { name: "Last ticks", cell: (row) => lead(row, statusStrip(ticks.get(row.schedule_id) ?? [])) },
        { name: "Late p50 / p99", kind: "number", cell: (row) => lead(row, lagText(ticks.get(row.schedule_id) ?? [])) },
        { name: "Owed", kind: "number", cell: owedLink },
      ],
      empty: firstOne(
        "No schedule yet",
        "A schedule ticks by a cron expression or an interval, in a zone, and each tick causes a run exactly once.",
        {
          path: "/v1/schedules",
          body: {
            schedule_id: "brief",
            cron: "30 7 * * *",
            timezone: "Europe/Berlin",
            target: { kind: "handler", name: "brief" },
          },
          python: '@bt.schedule("30 7 * * *", tz="Europe/Berlin")\nasync def brief(payload):\n    ...',
        },
      ),
      bulk: pauseAndResume(view, {
        noun: "schedules",
        path: "/v1/schedules",
        scope: "automation:write",
        lost: (row) => row.next_tick_at && when(row.next_tick_at, { theirs: row.timezone }),
      }),
    },
  );
}

/** @param {any} row */
function nextTicks(row) {
  const [first, ...others] = row.next_ticks;
  if (!first) return h("span", { class: "soft" }, "–");
  const zone = zoneFor(row.timezone);
  const days = row.next_ticks.map((/** @type {string} */ at) => dayText(Date.parse(at), zone));
  const times = others.map((/** @type {string} */ at, /** @type {number} */ place) => {
    const clock = clockText(Date.parse(at), zone);
    return days[place + 1] === days[place] ? clock : `${days[place + 1]} ${clock}`;
  }).join(", ");
  return [
    when(first, { theirs: row.timezone }),
    h("span", { class: "soft under" }, times ? `then ${times}` : "the last"),
  ];
}

/** Return something about the last ticks of a schedule as a link to them. @param {any} row @param {import("./dom.js").Child} shown */
function lead(row, shown) {
  return h("a", { class: "quiet-link", href: `/console/schedules/${part(row.schedule_id)}?range=month#ticks` }, shown);
}

/** Return how many ticks are due and not fired, as a link to what is late. @param {any} row */
export function owedLink(row) {
  const text = owedText(row);
  const href = `/console/next?kinds=schedule&to=${part(new Date(now()).toISOString())}`;
  return text === "0" ? text : h("a", { class: "plain", href }, text);
}

/** Return how late the middle tick was, and the latest of a hundred. @param {any[]} ticks */
export function lagText(ticks) {
  const lags = ticks.filter((one) => one.lag_ms != null && one.cause !== "backfill").map((one) => one.lag_ms).sort((
    a,
    b,
  ) => a - b);
  if (!lags.length) return "–";
  const at = (/** @type {number} */ share) => lags[Math.min(lags.length - 1, Math.floor(share * lags.length))];
  return `${durationText(at(0.5))} / ${durationText(at(0.99))}`;
}

/** Return how many ticks are due and not fired. @param {any} row */
export function owedText(row) {
  const owed = row.next_ticks.filter((/** @type {string} */ at) => Date.parse(at) < now() - 1000).length;
  return owed === row.next_ticks.length && owed > 1 ? `${owed} or more` : String(owed);
}
