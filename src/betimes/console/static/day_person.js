/**
 * What can be done about a day: what waits is cancelled or sent now, a person is banned or let back in, and other quiet
 * hours are tried in the playground.
 */
import { actionButton } from "./actions.js";
import { part } from "./api.js";
import { h } from "./dom.js";
import { field } from "./forms.js";
import { countText, facts, reasonChips, section, table, whyHref } from "./parts.js";
import { go } from "./router.js";
import { when } from "./time.js";

const WAITING_MAX = 25;

/** @param {any[]} waiting @param {string} theirs @param {import("./router.js").View} view */
export function waitingSection(waiting, theirs, view) {
  if (!waiting.length) return section("What waits", h("p", { class: "soft" }, "Nothing waits."));
  const shown = waiting.slice(0, WAITING_MAX);
  return section(
    `What waits: ${waiting.length}`,
    table({
      caption: "What waits, soonest first",
      columns: [
        { name: "When", cell: (item) => when(item.at, { theirs, seconds: true }) },
        { name: "What", cell: (item) => [item.what, " ", h("span", { class: "id" }, item.key ?? "")] },
        { name: "Reasons", cell: (item) => reasonChips(item.reasons) },
        { name: "Why", cell: (item) => item.segment_id ? h("a", { href: whyHref(item.segment_id) }, "why") : null },
        { name: "", cell: (item) => h("span", { class: "buttons" }, interventions(item, view)) },
      ],
      rows: shown,
    }),
    waiting.length > shown.length ? h("p", { class: "soft" }, `and ${waiting.length - shown.length} more`) : null,
  );
}

/** @param {any} item @param {import("./router.js").View} view */
function interventions(item, view) {
  if (!item.key || !["inbox", "account"].includes(item.kind)) return null;
  const isNote = item.kind === "inbox";
  const name = `${item.what} ${item.key}`;
  const action = (/** @type {string} */ verb, /** @type {string} */ title) => () => ({
    title: `${title} ${item.key}`,
    scope: isNote ? "notifications:write" : "runs:write",
    method: "POST",
    path: `/v1/${isNote ? "notifications" : "triggers"}/${part(item.key)}/${verb}`,
    before: facts([["It waits as", name], ["Promised", when(item.at)], ["Because of", item.reasons.join(", ")]]),
    danger: verb === "cancel",
    done: () => view.refresh(),
  });
  return [
    isNote
      ? actionButton("Send now", action("release", "Send now"), {
        class: "small",
        "aria-label": `Send now: ${item.key}`,
      })
      : null,
    actionButton("Cancel", action("cancel", "Cancel"), { class: "small", "aria-label": `Cancel: ${item.key}` }),
  ];
}

/** @param {string} id @param {any} chosen what the person chose @param {any[]} bands @param {any[]} waiting @param {import("./router.js").View} view */
export function personSection(id, chosen, bands, waiting, view) {
  const ban = bands.find((band) => band.name === "ban");
  const quiet = (chosen.quiet_hours ?? []).map((/** @type {any} */ one) =>
    `${one.start}–${one.end}${one.days?.length && one.days.length < 7 ? ` (${one.days.join(", ")})` : ""}`
  );
  const out = chosen.opt_out ?? {};
  const outOf = [out.all ? "everything" : null, ...(out.event_types ?? []), ...(out.channels ?? [])].filter(Boolean);
  return section(
    "Preferences",
    facts([
      ["Zone", chosen.timezone],
      ["Quiet hours", quiet.join("; ") || "none"],
      ["Opted out of", outOf.join(", ") || "nothing"],
      ["Digest windows", chosen.digest_windows ? chosen.digest_windows.join("; ") || "none" : "as the policy says"],
      ["Addresses for", Object.keys(chosen.addresses ?? {}).join(", ") || "none"],
      ["Banned", ban ? ban.label || "yes" : "no"],
    ]),
    whatIf(id, chosen),
    h(
      "div",
      { class: "buttons" },
      ban ? actionButton("Lift the ban", () => unban(id, view), { class: "small" }) : banButton(id, waiting, view),
    ),
  );
}

/** Ask what other quiet hours would do. @param {string} id @param {any} chosen */
function whatIf(id, chosen) {
  const now = chosen.quiet_hours?.[0] ?? { start: "22:00", end: "07:00" };
  const start = /** @type {HTMLInputElement} */ (h("input", { type: "time", value: now.start, required: true }));
  const end = /** @type {HTMLInputElement} */ (h("input", { type: "time", value: now.end, required: true }));
  const form = h(
    "form",
    { class: "what-if", "aria-label": "What if they set quiet hours to" },
    field("What if their quiet hours began at", start),
    field("and ended at", end),
    h("button", { type: "submit" }, "Try it in the playground"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const body = JSON.stringify({ quiet_hours: [{ start: start.value, end: end.value }] });
    void go(`/console/try?command=preferences&user_id=${part(id)}&body=${part(body)}`);
  });
  return form;
}

/** @param {string} id @param {any[]} waiting @param {import("./router.js").View} view */
function banButton(id, waiting, view) {
  const theirs = waiting.filter((one) => one.kind === "inbox").length;
  const reason = /** @type {HTMLInputElement} */ (h("input", { type: "text", maxlength: "200" }));
  return actionButton("Ban…", () => ({
    title: `Ban ${id}`,
    scope: "notifications:write",
    method: "PUT",
    path: `/v1/users/${part(id)}/ban`,
    body: { toJSON: () => ({ reason: reason.value || null }) },
    before: [
      h("p", null, "They are told nothing until the ban is lifted."),
      h(
        "p",
        null,
        `${countText(theirs, "notifications")} of theirs ${theirs === 1 ? "waits" : "wait"}, to be judged by it.`,
      ),
      field("Reason", reason, "For whoever looks at them: it stands on their page until the ban is lifted."),
    ],
    noteHint: "For whoever reads the ledger: why you decided so. It is not shown with the ban.",
    danger: true,
    done: () => view.refresh(),
    undo: () => unban(id, view),
  }), { class: "small" });
}

/** @param {string} id @param {import("./router.js").View} view @returns {import("./actions.js").Action} */
function unban(id, view) {
  return {
    title: `Lift the ban of ${id}`,
    scope: "notifications:write",
    method: "DELETE",
    path: `/v1/users/${part(id)}/ban`,
    done: () => view.refresh(),
  };
}
