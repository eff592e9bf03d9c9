/**
 * Incidents: while one is open, only what is critical is sent.
 */
import { act, actionButton } from "./actions.js";
import { get, part } from "./api.js";
import { h, put } from "./dom.js";
import { button, field, openDialog, select, submitButtons } from "./forms.js";
import { countText, emptyState, streamLink, table } from "./parts.js";
import { mayAct } from "./session.js";
import { recordedAt, when } from "./time.js";

/** @typedef {import("./router.js").View} View */

const LASTS = /** @type {[string, string][]} */ ([["3600", "an hour"], ["7200", "two hours"], ["14400", "four hours"], [
  "86400",
  "a day",
]]);

const COUNTED_MAX = 200;

/** @param {any[]} items @param {View} view */
export function incidentsTable(items, view) {
  return table({
    caption: "Open incidents, newest first",
    columns: [
      { name: "Of", cell: (one) => one.user_id ? streamLink("inbox", one.user_id) : "everybody" },
      { name: "Reason", cell: (one) => one.reason ?? h("span", { class: "soft" }, "–") },
      { name: "Opened", cell: (one) => recordedAt(one.opened_at) },
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

/** @param {any} one @param {View} view @returns {import("./actions.js").Action} */
function closing(one, view) {
  return {
    title: `Close the incident of ${one.user_id ?? "everybody"}`,
    scope: "notifications:write",
    method: "DELETE",
    path: `/v1/incidents/${part(one.incident_id)}`,
    before: waitingPeople(one.user_id, "What waits because of it is judged again at once."),
    done: () => view.refresh(),
  };
}

/** @param {any} one @param {View} view */
function closeButton(one, view) {
  const props = { class: "small", "aria-label": closing(one, view).title };
  return actionButton("Close", () => closing(one, view), props);
}

/** Say how many people are affected, and what of theirs waits already. @param {string | null} user whom alone it is about @param {string} words */
function waitingPeople(user, words) {
  const told = h("p", { role: "status" }, "Counting who is affected…");
  const count = async () => {
    const query = user ? { kind: "inbox", prefix: user } : { kind: "inbox" };
    const [people, waiting] = await Promise.all([
      get("/v1/streams", { ...query, limit: COUNTED_MAX }),
      get("/v1/upcoming/items", { kinds: "inbox", limit: COUNTED_MAX }),
    ]);
    const known = people.items.filter((/** @type {any} */ one) => !user || one.id === user).length;
    const items = waiting.items.filter((/** @type {any} */ one) => !user || one.id === user).length;
    const more = (/** @type {any} */ page, /** @type {string} */ text) => page.next_cursor ? `${text} or more` : text;
    const affected = more(people, countText(known, "known persons"));
    put(told, `${affected} affected; ${more(waiting, countText(items, "notifications"))} of theirs wait now.`);
  };
  count().catch(() => put(told, "Who is affected cannot be counted now."));
  return h("div", null, h("p", null, words), told);
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
    field("Reason", reason, "It stands in this list, and on the day of whomever it concerns."),
    field("Lasts", lasts),
    submitButtons("See what it would do", close),
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
      before: waitingPeople(
        user.value.trim() || null,
        `For ${user.value.trim() || "everybody"}: what is not critical waits until it ends.`,
      ),
      done: () => view.refresh(),
      undo: (answer) => closing(answer, view),
    });
  });
  return form;
}
