/** What can be done to a sensor: evaluate it now, move its cursor. */
import { act, previewForm } from "./actions.js";
import { ask, part } from "./api.js";
import { h } from "./dom.js";
import { button, field, openDialog } from "./forms.js";
import { answer, countText, facts, problemBox } from "./parts.js";
import { askToOperate, mayAct, mustOperate } from "./session.js";

/** @typedef {import("./router.js").View} View */

const SCOPE = "automation:write";

/** Evaluate first without keeping anything, then for good. @param {View} view @param {any} sensor */
export function evaluateButton(view, sensor) {
  if (!mayAct() || sensor.sensor_type !== "poll") return null;
  const id = sensor.sensor_id;
  const path = `/v1/sensors/${part(id)}/evaluate`;
  return button("Evaluate now", async () => {
    if (mustOperate(SCOPE) && !(await askToOperate())) return;
    const before = await ask("POST", path, { body: { dry_run: true } }).then(found, problemBox);
    void act({
      title: `Evaluate ${id} now`,
      scope: SCOPE,
      method: "POST",
      path,
      body: {},
      noDryRun: true,
      before: h(
        "div",
        { class: "dry-run" },
        h("p", null, h("strong", null, "A dry run: "), "nothing of it was kept."),
        before,
      ),
      result: found,
      done: view.refresh,
    });
  });
}

/** @param {any} evaluation */
function found(evaluation) {
  return facts([
    ["Found", answer(evaluation.status)],
    ["Runs", countText(evaluation.run_requests.length, "runs")],
    ["Cursor", h("code", null, JSON.stringify(evaluation.cursor))],
    ["Error", evaluation.error],
  ]);
}

/** Ask for another cursor, and set it if nothing has moved it since. @param {View} view @param {any} sensor */
export function cursorButton(view, sensor) {
  if (!mayAct()) return null;
  return button(
    "Reset the cursor",
    () => openDialog(`Reset the cursor of ${sensor.sensor_id}`, (close) => cursorForm(view, sensor, close)),
    { class: "small" },
  );
}

/** @param {View} view @param {any} sensor @param {() => void} close */
function cursorForm(view, sensor, close) {
  const text = /** @type {HTMLTextAreaElement} */ (h("textarea", {
    rows: "4",
    spellcheck: "false",
    value: JSON.stringify(sensor.cursor, null, 2),
  }));
  const fields = field("Cursor, as JSON", text, "null begins at the beginning.");
  return previewForm(close, fields, () => resetting(view, sensor, JSON.parse(text.value)));
}

/** @param {View} view @param {any} sensor @param {unknown} cursor @returns {import("./actions.js").Action} */
function resetting(view, sensor, cursor) {
  return {
    title: `Reset the cursor of ${sensor.sensor_id}`,
    scope: SCOPE,
    method: "POST",
    path: `/v1/sensors/${part(sensor.sensor_id)}/cursor`,
    body: { cursor, state_version: sensor.state_version },
    before: h(
      "p",
      null,
      h("del", null, JSON.stringify(sensor.cursor)),
      " → ",
      h("ins", null, JSON.stringify(cursor)),
      `, if its state is still at version ${sensor.state_version}.`,
    ),
    done: view.refresh,
  };
}
