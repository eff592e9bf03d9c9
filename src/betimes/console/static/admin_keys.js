/**
 * Keys and sessions: made, given a new secret, revoked. A secret is shown once, in a dialog of its own.
 */
import { actionButton } from "./actions.js";
import { ask, newKey, part } from "./api.js";
import { h, put } from "./dom.js";
import { button, field, openDialog, select, submitButtons } from "./forms.js";
import { code, emptyState, problemBox, table } from "./parts.js";
import { askToOperate, mayAct, mustOperate, whoAmI } from "./session.js";
import { now, recordedAt, when } from "./time.js";

/** @typedef {import("./router.js").View} View */

const DAY_MS = 86_400_000;
const EXPIRIES =
  /** @type {[string, string][]} */ ([["", "never"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"]]);
const OVERLAPS = /** @type {[string, string][]} */ ([["86400", "a day"], ["3600", "an hour"], ["604800", "a week"], [
  "0",
  "not at all",
]]);

/** Return whether a key is a browser's session. @param {any} key */
export function isSession(key) {
  return key.name.startsWith("console · ");
}

/** Say whether a key works. @param {any} key */
function stateOf(key) {
  if (key.revoked_at) return h("span", { class: "soft" }, "revoked ", when(key.revoked_at));
  if (key.expires_at && Date.parse(key.expires_at) <= now()) {
    return h("span", { class: "soft" }, "expired ", when(key.expires_at));
  }
  const old = key.previous_expires_at && Date.parse(key.previous_expires_at) > now()
    ? [", its old secret until ", when(key.previous_expires_at)]
    : null;
  return h("span", null, h("strong", null, "works"), key.expires_at ? [" until ", when(key.expires_at)] : null, old);
}

/** @param {any} key */
function isLive(key) {
  return !key.revoked_at && (!key.expires_at || Date.parse(key.expires_at) > now());
}

/** @param {any[]} keys @param {View} view */
export function keysTable(keys, view) {
  const mine = whoAmI()?.key_id;
  return table({
    caption: "Keys, newest first",
    columns: [
      {
        name: "Name",
        cell: (key) => [key.name, key.key_id === mine ? h("span", { class: "chip" }, "this session") : null],
      },
      { name: "Id", cell: (key) => h("span", { class: "id" }, key.key_id) },
      {
        name: "Scopes",
        cell: (key) =>
          h(
            "span",
            { class: "chips" },
            key.scopes.map((/** @type {string} */ one) => h("span", { class: "chip" }, one)),
          ),
      },
      { name: "Made", cell: (key) => recordedAt(key.created_at) },
      { name: "State", cell: stateOf },
      {
        name: "Do",
        cell: (key) =>
          isLive(key)
            ? h("span", { class: "buttons" }, isSession(key) ? null : rotateButton(key, view), revokeButton(key, view))
            : null,
      },
    ],
    rows: keys,
    empty: emptyState(
      "No keys",
      "Without keys only a server in dev mode answers. A key is made here or at the terminal.",
      { terminal: "betimes key create --name crm --scope runs:write --scope runs:read" },
    ),
  });
}

/** @param {any} key @param {View} view */
function revokeButton(key, view) {
  const what = isSession(key) ? `End ${key.name}` : `Revoke ${key.name}`;
  return actionButton(isSession(key) ? "End" : "Revoke", () => ({
    title: what,
    scope: "admin",
    method: "DELETE",
    path: `/v1/keys/${part(key.key_id)}`,
    danger: true,
    before: h("p", null, "Whoever uses it is refused at once, with both of its secrets. This cannot be undone."),
    done: () => view.refresh(),
  }), { class: "small", "aria-label": what });
}

/** @param {any} key @param {View} view */
function rotateButton(key, view) {
  return actionButton(
    "New secret",
    () =>
      rotation(`New secret for ${key.name}`, `/v1/keys/${part(key.key_id)}/rotate`, "The old secret works for", view),
    {
      class: "small",
      "aria-label": `New secret for ${key.name}`,
    },
  );
}

/** Return the action that makes a new secret; the old one goes on for a while. @param {string} title @param {string} path @param {string} label @param {View} view @returns {import("./actions.js").Action} */
export function rotation(title, path, label, view) {
  const body = { overlap_s: 86_400 };
  const overlap = select(OVERLAPS, "86400", (value) => (body.overlap_s = Number(value)));
  return {
    title,
    scope: "admin",
    method: "POST",
    path,
    body,
    noDryRun: true,
    before: field(label, overlap),
    done: (answer) => {
      showSecret(title, answer.secret);
      view.refresh();
    },
  };
}

/** Show a secret, this once. @param {string} title @param {string | null} secret */
function showSecret(title, secret) {
  openDialog(title, (close) => [
    h(
      "p",
      null,
      h("strong", null, "It is shown once, here and now."),
      " Copy it to where it is used; nobody can show it again.",
    ),
    secret ? code(secret, "Secret") : h("p", null, "It was made before, and shown then."),
    h("div", { class: "buttons" }, button("I have it", close, { class: "primary" })),
  ], { wide: true });
}

/** Return the button that makes a key. @param {string[]} scopes that there are @param {View} view */
export function newKeyButton(scopes, view) {
  if (!mayAct()) return null;
  return button("Make a key…", async () => {
    if (mustOperate("admin") && !(await askToOperate())) return;
    openDialog("Make a key", (close) => newKeyForm(scopes, close, view));
  }, { class: "primary" });
}

/** @param {string[]} scopes @param {() => void} close @param {View} view */
function newKeyForm(scopes, close, view) {
  const name =
    /** @type {HTMLInputElement} */ (h("input", { type: "text", required: true, maxlength: "64", placeholder: "crm" }));
  const expiry = select(EXPIRIES, "");
  const boxes = scopes.map((scope) => /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", value: scope })));
  const told = h("div", { "aria-live": "assertive" });
  const key = newKey();
  const form = h(
    "form",
    null,
    field("Name", name),
    h(
      "fieldset",
      { class: "world" },
      h("legend", null, "Scopes"),
      h("div", { class: "scope-boxes" }, boxes.map((box) => h("label", null, box, " ", box.value))),
    ),
    field("Expires", expiry),
    submitButtons("Make the key", close),
    told,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const expires = expiry.value ? new Date(now() + Number(expiry.value) * DAY_MS).toISOString() : null;
    const body = {
      name: name.value,
      scopes: boxes.filter((box) => box.checked).map((box) => box.value),
      ...(expires ? { expires_at: expires } : {}),
    };
    try {
      const made = await ask("POST", "/v1/keys", { body, key });
      close();
      showSecret(`The key ${made.name}`, made.secret);
      view.refresh();
    } catch (error) {
      put(told, problemBox(error));
    }
  });
  return form;
}

/** Return the button that signs outbound calls with a new secret. @param {View} view */
export function webhookButton(view) {
  return actionButton(
    "New webhook secret…",
    () => rotation("New webhook secret", "/v1/webhook-secret/rotate", "The old secret signs too for", view),
  );
}
