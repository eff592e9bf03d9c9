/** A sensor: its evaluations on a line of time, where its cursor is and was, its versions. */
import { get, part } from "./api.js";
import {
  cursorMoves,
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
import { typeText } from "./page_sensors.js";
import { answer, answerClass, countText, facts, figure, pageHead, section, table, tile, whyHref } from "./parts.js";
import { go } from "./router.js";
import { cursorButton, evaluateButton } from "./sensor_actions.js";
import { rawJson } from "./texts.js";
import { laneTimeline, pastWindow, zoneLine } from "./timelines.js";
import { durationText, fullText, recordedAt, when } from "./time.js";

/** @typedef {import("./router.js").View} View */

const EVALUATIONS = 100;

/** The names that it knows in a query. @type {string[]} */
export const QUERY = ["cursor", "status"];

/** @param {View} view */
export async function show(view) {
  const id = view.params.sensor;
  view.title(`Sensor ${id}`);
  const path = `/v1/sensors/${part(id)}`;
  const [sensor, first, versions] = await Promise.all([
    get(path, {}, view.signal),
    get(`${path}/evaluations`, { limit: EVALUATIONS, cursor: view.query.get("cursor") }, view.signal),
    versionSection(view, "sensor", id, "Sensor"),
  ]);
  const isOn = sensor.status !== "paused";
  put(
    view.main,
    pageHead(
      [h("span", { class: "soft" }, "Sensor "), h("span", { class: "id" }, id)],
      [answer(sensor.status), " · ", typeText(sensor)],
      evaluateButton(view, sensor),
      switchButton(view, { path: "/v1/sensors", id, scope: "automation:write", isOn, version: sensor.version }),
      deleteButton({
        path: "/v1/sensors",
        list: "/console/sensors",
        id,
        scope: "automation:write",
        version: sensor.version,
      }),
    ),
    sensor.last_error ? section("Last error", h("p", { class: "error-text" }, sensor.last_error)) : null,
    tiles(sensor, first.items),
    await evaluationSection(view, first),
    h("div", { class: "columns" }, cursorSection(view, sensor, first.items), definitionSection(sensor)),
    versions,
  );
}

/** @param {any} sensor @param {any[]} evaluations */
function tiles(sensor, evaluations) {
  const isBad = sensor.consecutive_errors > 0;
  return h(
    "div",
    { class: "tiles" },
    tile("Last evaluated", sensor.last_evaluated_at ? recordedAt(sensor.last_evaluated_at) : "never"),
    tile(
      "Next",
      sensor.next_evaluation_at
        ? when(sensor.next_evaluation_at)
        : sensor.sensor_type === "push"
        ? "on arrival"
        : "none",
      { below: sensor.sensor_type === "push" ? "when a message comes" : null },
    ),
    tile(
      `Last ${countText(evaluations.length, "evaluations")}`,
      figure(evaluations.filter((one) => one.status === "triggered").length),
      {
        href: statusHref("triggered", "evaluations"),
        below: statusCounts(evaluations, "evaluations"),
      },
    ),
    tile("Errors in a row", `${sensor.consecutive_errors} of ${sensor.max_errors}`, {
      href: isBad ? statusHref("error", "evaluations") : undefined,
      tone: isBad ? "bad" : "",
    }),
  );
}

/** @param {View} view @param {any} page */
async function evaluationSection(view, page) {
  /** @type {any[]} */
  const evaluations = page.items;
  if (!evaluations.length) return section("Evaluations", h("p", { class: "soft" }, "Not evaluated yet."));
  const shown = ofStatus(view, evaluations, "evaluations");
  const newest = view.query.get("cursor") ? evaluations[0].evaluated_at : undefined;
  const window = pastWindow(evaluations[evaluations.length - 1].evaluated_at, newest);
  const marks = evaluations.map((one) => ({
    lane: one.cause,
    at: Date.parse(one.evaluated_at),
    kind: answerClass(one.status),
    words: `${one.status} · ${fullText(one.evaluated_at)}`,
    item: one,
  }));
  const lanes =
    /** @type {[string, string][]} */ ([["poll", "polled"], ["message", "messages"], ["manual", "by hand"]]);
  const used = lanes.filter(([name]) => marks.some((mark) => mark.lane === name));
  const open = (/** @type {any} */ one) => one.segment_id && void go(whyHref(one.segment_id));
  return section(
    "Evaluations",
    h("div", { class: "buttons" }, cursorMoves(view, page.next_cursor)),
    laneTimeline(used, marks, window, open),
    zoneLine(window),
    shown.chip,
    await evaluationTable(shown.rows),
  );
}

/** @param {any[]} evaluations */
function evaluationTable(evaluations) {
  const columns = [
    { name: "When", cell: (/** @type {any} */ one) => recordedAt(one.evaluated_at, { seconds: true }) },
    {
      name: "Found",
      cell: (/** @type {any} */ one) =>
        one.segment_id
          ? h("a", { class: "plain", href: whyHref(one.segment_id) }, answer(one.status))
          : answer(one.status),
    },
    {
      name: "Because of",
      cell: (/** @type {any} */ one) => one.message_id ? ["message ", h("code", null, one.message_id)] : one.cause,
    },
    { name: "Took", kind: "number", cell: (/** @type {any} */ one) => durationText(one.duration_ms) },
    { name: "Runs", cell: runLinks },
    {
      name: "Error",
      kind: "text",
      cell: (/** @type {any} */ one) => h("span", { class: "error-text" }, one.error ?? ""),
    },
  ];
  return pagedRows(evaluations, 20, (rows) => table({ caption: "Evaluations, newest first", columns, rows }));
}

/** @param {any} evaluation */
function runLinks(evaluation) {
  const runs = evaluation.run_requests;
  if (!runs.length) return "";
  const first = runs[0];
  const link = h(
    "a",
    { class: "plain", href: `/console/runs/${part(first.run_id)}` },
    answer(first.run?.status ?? first.outcome),
  );
  const more = () =>
    h("a", { href: evaluation.segment_id ? whyHref(evaluation.segment_id) : null }, `${runs.length - 1} more`);
  return runs.length === 1 ? link : [link, " and ", more()];
}

/** @param {View} view @param {any} sensor @param {any[]} evaluations */
function cursorSection(view, sensor, evaluations) {
  const moved = evaluations.filter((one) => JSON.stringify(one.cursor) !== JSON.stringify(one.cursor_before)).slice(
    0,
    12,
  );
  const columns = [
    {
      name: "When",
      cell: (/** @type {any} */ one) =>
        h("a", { href: one.segment_id ? whyHref(one.segment_id) : "#" }, recordedAt(one.evaluated_at)),
    },
    { name: "State", kind: "number", cell: (/** @type {any} */ one) => String(one.state_version ?? "–") },
    {
      name: "Moved",
      cell: (/** @type {any} */ one) =>
        h("code", { class: "clip" }, `${JSON.stringify(one.cursor_before)} → ${JSON.stringify(one.cursor)}`),
    },
  ];
  const none = h("p", { class: "soft" }, "Its evaluations have not moved it lately.");
  return section(
    "Cursor",
    h(
      "p",
      null,
      h("code", { class: "clip" }, JSON.stringify(sensor.cursor)),
      h("span", { class: "soft" }, ` at state version ${sensor.state_version}`),
    ),
    cursorButton(view, sensor),
    h("h3", null, "Where it was"),
    table({ caption: "Moves of the cursor, newest first", columns, rows: moved, empty: none }),
  );
}

/** @param {any} sensor */
function definitionSection(sensor) {
  return section(
    "Definition",
    facts([
      ["Type", typeText(sensor)],
      [
        "Evaluator",
        sensor.evaluator
          ? [`${sensor.evaluator.kind} `, h("code", null, sensor.evaluator.name ?? sensor.evaluator.url)]
          : null,
      ],
      ["Leads to", targetText(sensor.target)],
      ["Senders prove themselves by", sensor.sensor_type === "push" ? sensor.auth : null],
      ["Messages go to", sensor.push_url ? h("code", { class: "clip" }, sensor.push_url) : null],
      ["Times out after", sensor.sensor_type === "poll" ? `${sensor.timeout_seconds} s` : null],
      ["Runs at once, at most", figure(sensor.max_run_requests)],
      ["Declared by", sensor.declared_by],
      ["Version", String(sensor.version)],
    ]),
    rawJson(sensor),
  );
}
