/** Sensors: what they watch, how they are, what they found last. */
import { part } from "./api.js";
import { targetText } from "./definition_parts.js";
import { h } from "./dom.js";
import { firstOne, pauseAndResume, showList } from "./list_page.js";
import { answer, countLink } from "./parts.js";
import { loadNewest, statusStrip } from "./tick_charts.js";
import { recordedAt, spanText, when } from "./time.js";

/** @param {import("./router.js").View} view */
export function show(view) {
  /** @type {Map<string, any[]>} */
  const evaluations = new Map();
  return showList(view, "Sensors", "What outside changes cause: polled by an evaluator, or pushed as messages.", {
    path: "/v1/sensors",
    noun: "sensors",
    caption: "Sensors, newest first",
    filters: [
      { name: "status", label: "Status", options: ["active", "paused", "error"] },
      { name: "sensor_type", label: "Type", text: "type", options: ["poll", "push"] },
    ],
    idOf: (row) => row.sensor_id,
    hrefOf: (row) => `/console/sensors/${part(row.sensor_id)}`,
    idName: "Sensor",
    enrich: (rows, signal) => loadNewest("/v1/evaluations", "sensor_id", evaluations, rows, signal),
    columns: [
      { name: "Status", cell: (row) => answer(row.status) },
      { name: "Type", cell: typeText },
      { name: "Leads to", cell: (row) => targetText(row.target) },
      { name: "Last evaluations", cell: (row) => stripLink(row, evaluations) },
      { name: "Last evaluated", cell: (row) => recordedAt(row.last_evaluated_at) },
      { name: "Next", cell: (row) => when(row.next_evaluation_at) },
      {
        name: "Errors in a row",
        kind: "number",
        cell: (row) => [
          countLink(row.consecutive_errors, `/console/sensors/${part(row.sensor_id)}?status=error#evaluations`),
          ` of ${row.max_errors}`,
        ],
      },
      { name: "Last error", kind: "text", cell: (row) => h("span", { class: "error-text" }, row.last_error ?? "") },
    ],
    empty: firstOne(
      "No sensor yet",
      "A sensor turns outside changes into runs: a message with the same id causes its run once, and a poll remembers where it was.",
      {
        path: "/v1/sensors",
        body: { sensor_id: "mail", sensor_type: "push", target: { kind: "handler", name: "mail" } },
        python: '@bt.on_message("mail")\nasync def mail(message):\n    ...',
      },
    ),
    bulk: pauseAndResume(view, {
      noun: "sensors",
      path: "/v1/sensors",
      scope: "automation:write",
      lost: (row) => row.next_evaluation_at && when(row.next_evaluation_at),
    }),
  });
}

/** Return the last evaluations as a link to them. @param {any} row @param {Map<string, any[]>} evaluations */
function stripLink({ sensor_id: id }, evaluations) {
  const href = `/console/sensors/${part(id)}#evaluations`;
  return h("a", { class: "quiet-link", href }, statusStrip(evaluations.get(id) ?? []));
}

/** @param {any} sensor */
export function typeText(sensor) {
  return sensor.sensor_type === "poll" ? `polled every ${spanText(sensor.interval_seconds * 1000)}` : "pushed";
}
