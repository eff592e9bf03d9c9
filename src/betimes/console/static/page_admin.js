/** Admin: the hold, keys and sessions, the history of the policy, incidents, the webhook secret. */
import { incidentsTable, openIncidentButton } from "./admin_incidents.js";
import { holdCard } from "./admin_hold.js";
import { isSession, keysTable, newKeyButton, webhookButton } from "./admin_keys.js";
import { policyHistory } from "./admin_policy.js";
import { get } from "./api.js";
import { h, put } from "./dom.js";
import { pageHead, section } from "./parts.js";

const KEYS = 200;
const SCOPES = ["runs", "notifications", "intents", "automation", "scores"].flatMap((
  area,
) => [`${area}:read`, `${area}:write`]);

/** The names that it knows in a query. @type {string[]} */
export const QUERY = [];

/** @param {import("./router.js").View} view */
export async function show(view) {
  view.title("Admin");
  const head = pageHead("Admin", "Who may come in, which policy holds, and what is stopped.");
  const [keys, incidents, history, hold] = await Promise.all([
    get("/v1/keys", { limit: KEYS }, view.signal),
    get("/v1/incidents", { limit: KEYS }, view.signal),
    policyHistory(view),
    holdCard(view),
  ]);
  const sessions = keys.items.filter(isSession);
  put(
    view.main,
    head,
    hold,
    section("Policy", history),
    section(
      "Keys",
      h("div", { class: "buttons" }, newKeyButton([...SCOPES, "sweep", "tick", "metrics", "admin"], view)),
      keysTable(keys.items.filter((/** @type {any} */ one) => !isSession(one)), view),
    ),
    sessions.length ? section("Sessions of browsers", keysTable(sessions, view)) : null,
    section(
      "Incidents",
      h("div", { class: "buttons" }, openIncidentButton(view)),
      incidentsTable(incidents.items, view),
    ),
    section(
      "Webhook secret",
      h("p", { class: "soft" }, "Outbound calls are signed with it. Both the old and the new one sign for a while."),
      webhookButton(view),
    ),
  );
}
