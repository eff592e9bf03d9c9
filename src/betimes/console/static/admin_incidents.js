/**
 * Incidents: while one is open, only what is critical is sent.
 */
import { act, actionButton } from "./actions.js";
import { part } from "./api.js";
import { h } from "./dom.js";
import { button, field, openDialog, select } from "./forms.js";
import { emptyState, streamLink, table } from "./parts.js";
import { mayAct } from "./session.js";
import { when } from "./time.js";

/** @typedef {import("./router.js").View} View */

const LASTS = /** @type {[string, string][]} */ ([["3600", "an hour"], ["7200", "two hours"], ["14400", "four hours"], [
  "86400",
  "a day",
]]);

/** @param {any[]} items @param {View} view */
export function incidentsTable(items, view) {
  return table({
    caption: "Open incidents, newest first",
    columns: [
      { name: "Of", cell: (one) => one.user_id ? streamLink("inbox", one.user_id) : "everybody" },
      { name: "Reason", cell: (one) => one.reason ?? h("span", { class: "soft" }, "–") },
      { name: "Opened", cell: (one) => when(one.opened_at) },
      { name: "Ends", cell: (one) => when(one.ends_at) },
      { name: "Do", cell: (one) => closeButton(one, view) },
    ],
    rows: items,
    empty: emptyState(
      "No incident is open",
      "While one is open, notifications that are not critical wait until it ends.",
    ),
  });
}

/** @param {any} one @param {View} view */
function closeButton(one, view) {
  const title = `Close the incident of ${one.user_id ?? "everybody"}`;
  return actionButton("Close", () => ({
    title,
    scope: "notifications:write",
    method: "DELETE",
    path: `/v1/incidents/${part(one.incident_id)}`,
    done: () => view.refresh(),
  }), { class: "small", "aria-label": title });
}

/** @param {View} view */
export function openIncidentButton(view) {
  return mayAct()
    ? button("Open an incident…", () => openDialog("Open an incident", (close) => incidentForm(close, view)))
    : null;
}

/** @param {() => void} close @param {View} view */
function incidentForm(close, view) {
  const user = /** @type {HTMLInputElement} */ (h("input", { type: "text", spellcheck: "false" }));
  const reason = /** @type {HTMLInputElement} */ (h("input", { type: "text", maxlength: "200" }));
  const lasts = select(LASTS, "7200");
  const form = h(
    "form",
    null,
    field("Person", user, "Empty: everybody."),
    field("Reason", reason),
    field("Lasts", lasts),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "submit", class: "primary" }, "See what it would do"),
      button("Cancel", close),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    close();
    void act({
      title: "Open the incident",
      scope: "notifications:write",
      method: "POST",
      path: "/v1/incidents",
      body: { user_id: user.value.trim() || null, reason: reason.value || null, ttl_seconds: Number(lasts.value) },
      danger: true,
      before: h("p", null, `For ${user.value.trim() || "everybody"}: what is not critical waits until it ends.`),
      done: () => view.refresh(),
    });
  });
  return form;
}
