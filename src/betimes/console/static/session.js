/**
 * Who looks, and what they may do: signing in, *Operate*, signing out.
 *
 * A key is pasted once and sent once; what is kept is a cookie that no script can read. A session starts with scopes to
 * read; *Operate* asks for the key again and adds the others for a quarter of an hour.
 */
import { ask, isBehindProxy, isDev, offersActions, Problem } from "./api.js";
import { h, put } from "./dom.js";
import { button, field, openDialog, submitButtons } from "./forms.js";
import { problemBox } from "./parts.js";
import { forgetEarly, takeEarly, WHO } from "./server.js";
import { now, spanText } from "./time.js";

/** @typedef {{tenant: string, name: string, scopes: string[], key_id: string | null, elevated_until: string | null, expires_at: string | null}} Me */

/** Where tries are kept, before the tenant's name. */
export const TRIES = "betimes.tries.";

const WRONG_KEY = new Problem({
  status: 401,
  title: "That key opens nothing here",
  detail: "It is not known to this server, or it has ended. `betimes key create` makes another.",
});

/** @param {unknown} error @param {number} status */
function isStatus(error, status) {
  return error instanceof Problem && error.status === status;
}

/** @type {Me | null} */
let me = null;

/** Return whoever is signed in. */
export function whoAmI() {
  return me;
}

/** Ask the server who looks; `null` if somebody has to sign in first. @returns {Promise<Me | null>} */
export async function loadMe() {
  try {
    me = { elevated_until: null, ...(await takeEarly(WHO)) };
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 401) throw error;
    me = null;
    forgetEarly();
  }
  return me;
}

/** Sign in as whoever a proxy in front says it is, if there is one that says so. @returns {Promise<boolean>} */
export async function signInByProxy() {
  if (!isBehindProxy) return false;
  try {
    await ask("POST", "/v1/sessions", { body: {} });
    return true;
  } catch (error) {
    if (error instanceof Problem && error.status < 500) return false;
    throw error;
  }
}

/** Return whether the scopes of whoever looks cover one; `any:read` is that of at least one domain. @param {string} scope */
export function may(scope) {
  const scopes = me?.scopes ?? [];
  if (scopes.includes("admin") || scopes.includes(scope)) return true;
  const [area, right] = scope.split(":");
  return area === "any" && scopes.some((one) => one.endsWith(`:${right}`));
}

/** Return whether acting is offered at all here: by the settings, and by what the session is or may become. */
export function mayAct() {
  return offersActions;
}

/** Return whether the session must be let to act before it can do this. @param {string} scope */
export function mustOperate(scope) {
  return !isDev && !may(scope);
}

/** Return how long the session may act still, in milliseconds. */
export function operatingMs() {
  return me?.elevated_until ? Math.max(0, Date.parse(me.elevated_until) - now()) : 0;
}

/** Return a field for a key, which nothing remembers. */
function keyInput() {
  const secret = { type: "password", autocomplete: "off", spellcheck: "false" };
  return /** @type {HTMLInputElement} */ (h("input", { ...secret, required: true, placeholder: "bt_…" }));
}

/** Show the form to sign in with; call `done` when somebody did. @param {HTMLElement} main @param {() => void} done @param {string} [reason] */
export function showSignIn(main, done, reason) {
  const key = keyInput();
  const told = h("div", { "aria-live": "assertive" });
  const form = h(
    "form",
    { class: "sign-in card" },
    h("h1", null, "Sign in"),
    reason ? h("p", { role: "status" }, reason) : null,
    h(
      "p",
      { class: "soft" },
      "Paste a key once. It is exchanged for a session with scopes to read only, in a cookie that no script can see.",
    ),
    field("Key", key, [
      "Made by ",
      h("code", null, "betimes key create"),
      "; the session ends after twelve hours, or after one without use.",
    ]),
    h("button", { type: "submit", class: "primary" }, "Sign in"),
    told,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await ask("POST", "/v1/sessions", { body: {}, authorization: key.value.trim() });
      key.value = "";
      done();
    } catch (error) {
      put(told, problemBox(isStatus(error, 401) ? WRONG_KEY : error));
    }
  });
  put(main, form);
  document.title = "Sign in · betimes";
  key.focus();
}

/** Ask for the key again, and let the session act for a while; resolves to whether it may. @returns {Promise<boolean>} */
export async function askToOperate() {
  if (isBehindProxy && (await operateByProxy())) return true;
  return await askForKey();
}

/** @returns {Promise<boolean>} */
async function operateByProxy() {
  try {
    me = { ...(await ask("POST", "/v1/sessions/current/operate", { body: {} })) };
    return true;
  } catch {
    return false; // whoever signed in with a key shows it again
  }
}

/** @returns {Promise<boolean>} */
function askForKey() {
  return new Promise((resolve) => {
    const key = keyInput();
    const told = h("div", { "aria-live": "assertive" });
    let allowed = false;
    const dialog = openDialog("Operate", (close) => {
      const form = h(
        "form",
        null,
        h("p", null, "The session reads only. Show its key again to act with all of the key's scopes for 15 minutes."),
        field("Key", key),
        submitButtons("Operate", close),
        told,
      );
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        try {
          const session = await ask("POST", "/v1/sessions/current/operate", { body: { key: key.value.trim() } });
          me = { ...session };
          allowed = true;
          close();
        } catch (error) {
          put(told, problemBox(error));
        }
      });
      return form;
    });
    dialog.addEventListener("close", () => resolve(allowed));
    key.focus();
  });
}

/**
 * Say in the page what is missing to see it, if something is; a session that may not yet read this can ask to.
 * @param {string} scope @param {import("./router.js").View} view
 */
export function isBarred(scope, view) {
  if (!scope || may(scope)) return false;
  view.title("Operate first");
  const operate = button("Operate", async () => (await askToOperate()) && view.refresh(), { class: "primary" });
  put(
    view.main,
    h("h1", null, "This needs more than reading"),
    h(
      "p",
      null,
      "Keys, policies and backtests need the scope ",
      h("code", null, scope),
      ", which a session has only while it operates.",
    ),
    offersActions ? h("p", null, operate) : h("p", { class: "soft" }, "Acting is switched off on this server."),
  );
  return true;
}

/** End the session, and forget what this browser has kept for it: tries with their texts, and the lab's draft. */
export async function signOut() {
  await ask("DELETE", "/v1/sessions/current");
  me = null;
  sessionStorage.clear();
  for (const name of Object.keys(localStorage)) {
    if (name.startsWith(TRIES)) localStorage.removeItem(name);
  }
}

/** Return in words what the session may do now. */
export function sessionText() {
  if (!me) return "signed out";
  const left = operatingMs();
  return isDev
    ? `${me.tenant} · no keys`
    : `${me.tenant} · ${me.name}${left ? ` · operating for ${spanText(left)}` : ""}`;
}
