/**
 * The hold, the big red button: nothing of some domains fires for a while, and nothing is lost.
 */
import { act, actionButton } from "./actions.js";
import { get } from "./api.js";
import { h, put } from "./dom.js";
import { button, field, instantIn, openDialog, submitButtons } from "./forms.js";
import { countOfKind } from "./next_combs.js";
import { facts, problemBox, section } from "./parts.js";
import { mayAct } from "./session.js";
import { now, when } from "./time.js";

/** @typedef {import("./router.js").View} View */

const DOMAINS = ["notifications", "runs", "intents", "automation", "scores"];
const HOUR_MS = 3_600_000;

/** Return the card of the hold: what is held, or the button that holds. @param {View} view */
export async function holdCard(view) {
  const { hold } = await get("/v1/hold", {}, view.signal);
  return section("Hold", hold ? heldView(hold, view) : freeView(view));
}

/** @param {any} hold @param {View} view */
function heldView(hold, view) {
  return h(
    "div",
    { class: "held" },
    h("p", { class: "problem-title" }, `Held: ${hold.domains.join(", ")}`),
    facts([["Until", when(hold.until)], ["Since", hold.since ? when(hold.since) : null], ["Reason", hold.reason], [
      "By",
      hold.actor ?? null,
    ]]),
    h(
      "p",
      { class: "soft" },
      "No alarm of these rings, nothing is sent, called or claimed. Requests are answered and recorded as usual.",
    ),
    actionButton("End the hold…", () => ending(view), { class: "primary" }),
  );
}

/** @param {View} view @returns {import("./actions.js").Action} */
function ending(view) {
  return {
    title: "End the hold",
    scope: "admin",
    method: "DELETE",
    path: "/v1/hold",
    danger: true, // also where it takes back a hold: what was postponed meanwhile happens, for good
    before: h("p", null, "What was postponed happens at once, the oldest first, and cannot be taken back."),
    done: () => view.refresh(),
  };
}

/** @param {View} view */
function freeView(view) {
  const hold = mayAct()
    ? button("Hold…", () => openDialog("Hold", (close) => holdForm(close, view), { wide: true }), { class: "danger" })
    : null;
  return [
    h(
      "p",
      { class: "soft" },
      "Nothing is held. A hold lets nothing fire until an instant; what it postpones happens afterwards.",
    ),
    hold,
  ];
}

/** @param {() => void} close @param {View} view */
function holdForm(close, view) {
  const boxes = DOMAINS.map((
    name,
  ) => /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", value: name, checked: true })));
  const until = /** @type {HTMLInputElement} */ (h("input", {
    type: "datetime-local",
    required: true,
    step: "1",
    value: new Date(now() + HOUR_MS).toISOString().slice(0, 19),
  }));
  const reason = /** @type {HTMLInputElement} */ (h("input", {
    type: "text",
    required: true,
    maxlength: "200",
    placeholder: "a wrong template",
  }));
  const due = h("div", { role: "status" });
  const chosen = () => boxes.filter((box) => box.checked).map((box) => box.value);
  const count = async () => {
    try {
      put(
        due,
        dueText(await get("/v1/upcoming", { from: new Date(now()).toISOString(), to: instantIn(until) }), chosen()),
      );
    } catch (error) {
      put(due, problemBox(error));
    }
  };
  for (const one of [...boxes, until]) one.addEventListener("change", () => void count());
  void count();
  const form = h(
    "form",
    null,
    h(
      "fieldset",
      { class: "world" },
      h("legend", null, "Domains"),
      h("div", { class: "scope-boxes" }, boxes.map((box) => h("label", null, box, " ", box.value))),
    ),
    field("Until (UTC)", until, "It ends then by itself, or when it is ended."),
    field("Reason", reason, "Everybody who meets the hold sees it."),
    due,
    submitButtons("See what it would do", close, "danger"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const body = { domains: chosen(), until: instantIn(until), reason: reason.value };
    close();
    void act({
      title: `Hold ${body.domains.length === DOMAINS.length ? "everything" : body.domains.join(", ")}`,
      scope: "admin",
      method: "PUT",
      path: "/v1/hold",
      body,
      danger: true,
      before: h("div", null, h("p", null, "Until ", when(body.until, { day: true }), `: ${body.reason}`), due),
      done: () => view.refresh(),
      undo: () => ending(view),
    });
  });
  return form;
}

/** Say what is due meanwhile in the domains that are chosen. @param {any} told @param {string[]} domains */
function dueText(told, domains) {
  const rows = told.rows.filter((/** @type {any} */ row) => domains.includes(row.domain)).map(
    (/** @type {any} */ row) => {
      const sum = row.counts.reduce((/** @type {number} */ all, /** @type {number} */ one) => all + one, 0);
      return { kind: row.kind, sum };
    },
  ).filter((/** @type {{sum: number}} */ row) => row.sum);
  const list = rows.map((/** @type {{kind: string, sum: number}} */ row) => countOfKind(row.kind, row.sum))
    .join(", ");
  return h(
    "p",
    null,
    h("strong", null, "Due meanwhile: "),
    list || "nothing that is known now",
    ". It waits, and happens once afterwards, the oldest first.",
  );
}
