/**
 * The draft of a policy: overrides, and settings to sweep. It is kept in the address, so that it can be shared, and in
 * the tab's storage, so that it is still there after a look at another page.
 */
import { ask, Problem } from "./api.js";
import { canonical, leaves, readValue, valueAt, withChanges, withValue } from "./lab_schema.js";
import { unreadable } from "./queries.js";
import { whoAmI } from "./session.js";

/** @typedef {import("./lab_schema.js").Body} Body */
/** @typedef {{overrides: Body, sweep: Record<string, string>, version: number, place?: string}} Kept */
/** @typedef {{valid: boolean, errors: {path: string, message: string, line: number | null}[], changes: {path: string, from: unknown, to: unknown}[], overrides: Body}} Check */

const NAME = "betimes.draft.";
const CHECK_MS = 250;

/** Return where the draft is kept: each tenant has its own, for somebody may look at several without keys. */
function draftName() {
  return NAME + (whoAmI()?.tenant ?? "");
}

/** Return the draft that other pages may try: overrides, or `null` if there is none. @returns {Body | null} */
export function keptOverrides() {
  return read(sessionStorage.getItem(draftName()))?.overrides ?? null;
}

/** Return what the draft changes of the policy in force, as a dry run takes it: what it takes back is written out. @returns {Promise<Body>} */
export async function draftChanges() {
  const check = await ask("POST", "/v1/policy/check", { body: { overrides: keptOverrides() ?? {} } });
  if (!check.valid) throw new Problem({ status: 422, title: "The lab's draft would be refused", errors: check.errors });
  return withChanges({}, check.changes);
}

/** @param {string | null} text @returns {Kept | null} */
function read(text) {
  try {
    const found = JSON.parse(text ?? "");
    return typeof found?.overrides === "object" && found.overrides ? { sweep: {}, version: 0, ...found } : null;
  } catch {
    return null;
  }
}

/** Return the draft in the address, if there is one. */
function readHash() {
  const found = /^#draft=(.*)$/.exec(location.hash);
  try {
    return found ? read(decodeURIComponent(found[1])) : null;
  } catch {
    return null;
  }
}

/** Return the draft of this tab, unless it says nothing but what is in force and was made elsewhere. @param {Kept} fresh */
function stored(fresh) {
  const kept = read(sessionStorage.getItem(draftName()));
  const isSame = kept && canonical(kept.overrides) === canonical(fresh.overrides) && !Object.keys(kept.sweep).length;
  return isSame && kept.place !== location.pathname ? null : kept;
}

/** One draft, and whoever wants to know when it changes. */
export class Draft {
  /** @param {any} inForce what `GET /v1/policy` answers @param {URLSearchParams} query @param {Body | null} [tried] what a backtest in the address tried */
  constructor(inForce, query, tried = null) {
    this.inForce = inForce;
    const fresh = { overrides: inForce.overrides, sweep: {}, version: inForce.version };
    const asked = query.getAll("set");
    const kept = asked.length ? fresh : readHash() ?? stored(fresh);
    /** @type {Kept} */
    this.kept = kept ?? (tried ? { ...fresh, overrides: tried } : fresh);
    asked.forEach((one) => this.#take(one));
    /** @type {Check | null} */
    this.check = null;
    /** @type {unknown} */
    this.problem = null;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    this.timer = 0;
    this.turn = 0;
  }

  /** Take `path=value`, or `path=6,8,10` as values to sweep. @param {string} text */
  #take(text) {
    const [path, value] = [text.slice(0, text.indexOf("=")), text.slice(text.indexOf("=") + 1)];
    if (!path || text.indexOf("=") < 0) throw unreadable("set", text, "path=value, or path=6,8,10 to sweep");
    if (/^[^[{"]*,/.test(value)) this.kept.sweep = { ...this.kept.sweep, [path]: value };
    else this.kept.overrides = withValue(this.kept.overrides, path, readValue(value));
  }

  get overrides() {
    return this.kept.overrides;
  }

  /** Return the values to sweep as the API takes them. */
  get sweep() {
    const rows = Object.entries(this.kept.sweep).filter(([path, text]) => path && text.trim());
    return Object.fromEntries(rows.map(([path, text]) => [path, text.split(",").map((one) => readValue(one.trim()))]));
  }

  /** Return whether the draft is what is in force. */
  get isSame() {
    return canonical(this.overrides) === canonical(this.inForce.overrides);
  }

  /** Return settings of the draft that TOML has no words for. */
  get nulls() {
    return leaves(this.overrides).filter(([path, value]) => path && value === null).map(([path]) => path);
  }

  /** @param {() => void} listener @param {AbortSignal} signal */
  listen(listener, signal) {
    this.listeners.add(listener);
    signal.addEventListener("abort", () => this.listeners.delete(listener));
  }

  tell() {
    for (const listener of this.listeners) listener();
  }

  /** Change overrides; the server is asked what they come to, a moment later. @param {Body} overrides */
  set(overrides) {
    this.kept = { ...this.kept, overrides };
    this.keep();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.validate(), CHECK_MS);
  }

  /** @param {Record<string, string>} sweep */
  setSweep(sweep) {
    this.kept = { ...this.kept, sweep };
    this.keep();
    this.tell();
  }

  /** Begin again with what is in force. */
  reset() {
    this.kept = { overrides: this.inForce.overrides, sweep: {}, version: this.inForce.version };
    this.keep();
    return this.validate();
  }

  /** Keep the draft in the storage and in the address; `?set=` is in it now. */
  keep() {
    const text = JSON.stringify(this.kept);
    sessionStorage.setItem(draftName(), JSON.stringify({ ...this.kept, place: location.pathname }));
    const query = new URLSearchParams(location.search);
    query.delete("set");
    const rest = query.toString() ? `?${query}` : "";
    const isEmpty = this.isSame && !Object.keys(this.kept.sweep).length;
    history.replaceState(null, "", location.pathname + rest + (isEmpty ? "" : `#draft=${encodeURIComponent(text)}`));
  }

  /** Ask the server what the draft changes; of TOML, take over what it read. @param {string} [toml] @returns {Promise<void>} */
  async validate(toml) {
    clearTimeout(this.timer);
    const turn = (this.turn += 1);
    try {
      const asked = toml === undefined ? { body: { overrides: this.overrides } } : { toml };
      const check = await ask("POST", "/v1/policy/check", asked);
      if (turn !== this.turn) return;
      this.check = check;
      this.problem = null;
      if (toml !== undefined && check.valid) this.#takeRead(check.overrides);
    } catch (error) {
      if (turn !== this.turn) return;
      this.check = null;
      this.problem = error;
    }
    this.tell();
  }

  /** @param {Body} overrides as the server read them; what TOML cannot say stays */
  #takeRead(overrides) {
    const unsaid = this.nulls.filter((path) => valueAt(overrides, path) === undefined);
    this.kept.overrides = unsaid.reduce((body, path) => withValue(body, path, null), overrides);
    this.keep();
  }
}
