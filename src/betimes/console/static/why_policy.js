/**
 * The policy that a segment was decided by: its settings as they were, and what differs from today's.
 */
import { ask, get, part } from "./api.js";
import { h, put } from "./dom.js";
import { button, openDialog } from "./forms.js";
import { countText, problemBox, table } from "./parts.js";
import { may } from "./session.js";

/** Return a policy by its fingerprint: as a button that shows it, where whoever looks may. @param {any} told @param {Promise<any>} then */
export function policyFact(told, then) {
  if (!told.policy) return null;
  const isSame = told.policy === told.policy_in_force;
  const name = h("code", null, told.policy.slice(0, 12));
  const since = isSame ? "in force today" : "another is in force today";
  if (!may("admin")) return [name, " ", h("span", { class: "soft" }, since)];
  const show = button(told.policy.slice(0, 12), () => openPolicy(told, then), { class: "link-button id" });
  return [show, h("span", { class: isSame ? "soft" : "why-changed" }, ` ${since}`)];
}

/** @param {any} told @param {Promise<any>} then */
function openPolicy(told, then) {
  const box = h("div", { role: "status" }, h("p", { class: "soft" }, "Loading…"));
  openDialog(`The policy ${told.policy.slice(0, 12)}`, () => box, { wide: true });
  void fillPolicy(box, told, then);
}

/** @param {HTMLElement} box @param {any} told @param {Promise<any>} then */
async function fillPolicy(box, told, then) {
  try {
    const [old, today] = await Promise.all([
      then.then((found) => found ?? ask("GET", `/v1/policies/${part(told.policy)}`).then((one) => one.effective)),
      get("/v1/policy"),
    ]);
    const rows = differences(old, today.effective);
    put(
      box,
      h(
        "h3",
        null,
        rows.length ? `Different from today's: ${countText(rows.length, "settings")}` : "It is what is in force today",
      ),
      rows.length
        ? table({
          caption: "Settings that differ between the policy of then and that of today",
          columns: [
            { name: "Setting", cell: (row) => h("a", { class: "id", href: labHref(row.path, row.then) }, row.path) },
            { name: "Then", cell: (row) => shown(row.then) },
            { name: "Today", cell: (row) => shown(row.now) },
          ],
          rows,
        })
        : null,
      h("h3", null, "All of it"),
      h("pre", { tabindex: "0" }, h("code", null, JSON.stringify(old, null, 2))),
    );
  } catch (error) {
    put(box, problemBox(error));
  }
}

/** Return the path of a setting, which breaks at its dots where it has no room. @param {string} path */
export function pathCode(path) {
  const pieces = path.split(/(?<=\.)/);
  return h("code", null, pieces.map((piece, place) => place ? [h("wbr"), piece] : piece));
}

/** Return the lab with one setting changed. @param {string} path @param {unknown} value */
export function labHref(path, value) {
  return `/console/lab?set=${encodeURIComponent(`${path}=${settingText(value)}`)}`;
}

/** Return a setting's value as the lab reads it. @param {unknown} value @returns {string} */
export function settingText(value) {
  return typeof value === "string" ? value : JSON.stringify(value ?? null);
}

/** @param {unknown} value */
function shown(value) {
  return value === undefined ? h("span", { class: "soft" }, "–") : h("code", null, settingText(value));
}

/** Return the leaves in which two policies differ. @param {any} old @param {any} now @returns {{path: string, then: any, now: any}[]} */
function differences(old, now) {
  const [before, after] = [leaves(old), leaves(now)];
  return [...new Set([...before.keys(), ...after.keys()])].filter((path) =>
    JSON.stringify(before.get(path)) !== JSON.stringify(after.get(path))
  ).sort().map((path) => ({ path, then: before.get(path), now: after.get(path) }));
}

/** @param {any} value @param {string} [path] @param {Map<string, unknown>} [into] */
function leaves(value, path = "", into = new Map()) {
  if (value && typeof value === "object" && !Array.isArray(value)) {
    for (const [name, one] of Object.entries(value)) leaves(one, path ? `${path}.${name}` : name, into);
  } else into.set(path, value);
  return into;
}

/** Return a setting of a policy; an entry of a list is addressed by its name. @param {any} policy @param {string} path */
export function settingAt(policy, path) {
  return path.split(".").reduce(
    (found, name) =>
      Array.isArray(found) ? found.find((/** @type {any} */ one) => String(one?.name) === name) : found?.[name],
    policy,
  );
}
