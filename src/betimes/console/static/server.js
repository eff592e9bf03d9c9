/**
 * What the server is, and the first two questions of every page.
 *
 * This module needs `api.js` alone and runs before the others have come, so that who looks and what the server is are
 * answered while they are still fetched.
 */
import { ask, get, isDev } from "./api.js";

export const WHO = isDev ? "/v1/whoami" : "/v1/sessions/current";
const META = "/v1/meta";
/** @type {Map<string, Promise<any>>} */
const early = new Map([WHO, META].map((path) => [path, ask("GET", path, { isFirst: true })]));
for (const answer of early.values()) answer.catch(() => {}); // whoever takes it says what went wrong
/** @type {any} */
let meta = null;

/** Return the answer that was asked for early, once; after that, a new one. @param {string} path */
export function takeEarly(path) {
  const found = early.get(path);
  early.delete(path);
  return found ?? get(path);
}

/** Forget what was asked for early: it was asked by nobody, and somebody may sign in. */
export function forgetEarly() {
  early.clear();
}

/** Learn what the server is, and what time it has. @returns {Promise<{now: string, virtual: boolean}>} */
export async function loadMeta() {
  return (meta = await takeEarly(META));
}

/** Return a code in words, as the server says them. @param {string} code */
export function wordOf(code) {
  return meaningOf(code) ?? code;
}

/** Return what a reason means, if the server says so. @param {string} reason @returns {string | null} */
export function meaningOf(reason) {
  return meta && Object.hasOwn(meta.words, reason) ? meta.words[reason] : null;
}

/** Return the domains that whoever looks may read. @returns {string[]} */
export function readableDomains() {
  return meta?.domains ?? [];
}
