/**
 * The public API: the only thing the console knows.
 *
 * Every request goes through `ask`. A session is a cookie that this code never sees; `--dev` needs none and takes the
 * tenant from a header. What goes wrong is thrown as `Problem`, with the server's own words.
 */

/** @typedef {{path: string, message: string}} FieldProblem */
/** @typedef {Record<string, string | number | boolean | null | undefined>} Query */
/**
 * @typedef {object} Ask
 * @property {Query} [query]
 * @property {unknown} [body]
 * @property {string} [toml] the body as TOML, in place of JSON
 * @property {boolean} [dryRun] decide, and commit nothing
 * @property {string | null} [at] the instant of a dry run
 * @property {unknown} [policy] the policy of a dry run: overrides of a draft
 * @property {string} [key] the Idempotency-Key of a write
 * @property {string} [note] why, for the ledger
 * @property {number | string | null} [version] the version that a change is made on condition of
 * @property {string} [authorization] a key, while signing in only
 * @property {boolean} [isFirst] asked before anybody is known to be signed in: a 401 ends no session
 * @property {string} [reveal] where personal texts are shown, for the server's log
 * @property {AbortSignal} [signal]
 */

const root = document.documentElement;
export const isDev = root.dataset.dev === "true";
export const isBehindProxy = root.dataset.proxy === "true";
export const offersActions = root.dataset.actions === "true";
export const texts = root.dataset.texts ?? "click";
/** The address of the dashboard in Grafana; empty where none is known. */
export const grafana = root.dataset.grafana ?? "";
const TENANT = "betimes.tenant";

/** An answer that is not one, in the words of the server. */
export class Problem extends Error {
  /** @param {{status: number, code?: string, title?: string, detail?: string, errors?: FieldProblem[], error_id?: string | null}} told */
  constructor(told) {
    super(told.detail || told.title || `HTTP ${told.status}`);
    this.status = told.status;
    this.code = told.code ?? "";
    this.title = told.title ?? "Internal error";
    this.detail = told.detail ?? "";
    this.errors = told.errors ?? [];
    this.errorId = told.error_id ?? null;
  }
}

/** The tenant of `--dev`; elsewhere the key has one. */
export function devTenant() {
  return new URLSearchParams(location.search).get("tenant") ?? sessionStorage.getItem(TENANT) ?? "default";
}

/** @param {string} tenant */
export function setDevTenant(tenant) {
  sessionStorage.setItem(TENANT, tenant);
}

/** @type {(() => void) | null} */
let whenSignedOut = null;
/** Call this when an answer says that the session has ended. @param {() => void} listener */
export function onSignedOut(listener) {
  whenSignedOut = listener;
}

/** Say that an answer told that the session has ended: a request's, or the stream's of what happens. */
export function noteSignedOut() {
  whenSignedOut?.();
}

/** @param {Query} [query] */
export function queryText(query) {
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value != null && value !== "") text.set(name, String(value));
  }
  const told = text.toString();
  return told ? `?${told}` : "";
}

/** @param {string} method @param {Ask} asked */
export function headersOf(method, asked) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (isDev) headers["X-Tenant"] = devTenant();
  if (asked.authorization) headers.Authorization = `Bearer ${asked.authorization}`;
  if (asked.toml != null) headers["Content-Type"] = "application/toml";
  else if (asked.body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-Betimes-Console"] = "1";
  if (asked.reveal) headers["Betimes-Reveal"] = asked.reveal;
  if (asked.dryRun) headers["Betimes-Dry-Run"] = "true";
  if (asked.at) headers["Betimes-At"] = asked.at;
  if (asked.policy !== undefined && asked.policy !== null) headers["Betimes-Policy"] = asciiJson(asked.policy);
  if (asked.key && !asked.dryRun) headers["Idempotency-Key"] = asked.key;
  if (asked.note) headers["Betimes-Note"] = encodeURIComponent(asked.note);
  if (asked.version != null) headers["If-Match"] = `"${asked.version}"`;
  return headers;
}

/** Return JSON that a header can hold. @param {unknown} value */
function asciiJson(value) {
  return JSON.stringify(value).replace(/[^ -~]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/**
 * Ask the API; return the answer's body, or throw a `Problem`.
 * @param {string} method @param {string} path @param {Ask} [asked] @returns {Promise<any>}
 */
export async function ask(method, path, asked = {}) {
  return (await write(method, path, asked)).answer;
}

/**
 * Ask the API; return the answer's body and the segment that the write has left, or throw a `Problem`.
 * @param {string} method @param {string} path @param {Ask} [asked] @returns {Promise<{answer: any, segment: string | null}>}
 */
export async function write(method, path, asked = {}) {
  const body = asked.toml ?? (asked.body === undefined ? undefined : JSON.stringify(asked.body));
  const request = {
    method,
    headers: headersOf(method, asked),
    body,
    signal: asked.signal,
    credentials: /** @type {const} */ ("same-origin"),
  };
  let response;
  try {
    response = await fetch(path + queryText(asked.query), request);
  } catch (error) {
    if (asked.signal?.aborted) throw error;
    throw new Problem({
      status: 0,
      code: "UNREACHABLE",
      title: "The server does not answer",
      detail: "It may be restarting. What was shown stays; try again.",
    });
  }
  const segment = response.headers.get("Betimes-Segment");
  if (response.status === 204) return { answer: null, segment };
  const text = await response.text();
  const told = parse(text);
  if (response.ok) return { answer: told ?? text, segment };
  if (response.status === 401 && !asked.authorization && !asked.isFirst) noteSignedOut();
  throw new Problem({ title: response.statusText, ...(told ?? {}), status: response.status });
}

/** @param {string} text */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** @param {string} path @param {Query} [query] @param {AbortSignal} [signal] */
export function get(path, query, signal) {
  return ask("GET", path, { query, signal });
}

/** Return a key under which a write happens once, however often it is sent. */
export function newKey() {
  return `console-${crypto.randomUUID()}`;
}

/** Escape one segment of a path. @param {string} text */
export function part(text) {
  return encodeURIComponent(text);
}
