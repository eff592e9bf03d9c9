/**
 * As it happens: one stream of pulses for all tabs of this browser.
 *
 * A Web Lock elects the tab that reads; a BroadcastChannel hands its frames to the others, because a browser allows few
 * connections to a server. A tab that is hidden for 30 s lets go. After a break the stream goes on at its last position,
 * and the break is a quiet word in the bar, never more.
 */
import { devTenant, headersOf, isDev, noteSignedOut } from "./api.js";
import { setNow } from "./time.js";

/** @typedef {{now: string, beats: number, total: number, counts: any[], sample: any[], missed: boolean, health: any}} Frame */
/** @typedef {"connecting" | "live" | "reconnecting" | "paused"} State */

const HIDDEN_MS = 30_000;
const CALM_MS = 5_000;
const RETRY_MIN_MS = 500;
const RETRY_MAX_MS = 15_000;

/** @type {Set<(frame: Frame) => void>} */
const listeners = new Set();
/** @type {Set<(state: State) => void>} */
const watchers = new Set();
/** @type {State} */
let state = "connecting";
let lastFrameAt = 0;
let position = "";
/** @type {AbortController | null} */
let reading = null;
/** @type {BroadcastChannel | null} */
let channel = null;
/** @type {AbortController | null} */
let watching = null;

/** Call `listener` with every frame until `signal` says to stop. @param {(frame: Frame) => void} listener @param {AbortSignal} [signal] */
export function onPulse(listener, signal) {
  listeners.add(listener);
  signal?.addEventListener("abort", () => listeners.delete(listener));
}

/** Call `listener` after decisions of a domain, at most once in five seconds, until `signal` says to stop. @param {string} domain @param {() => Promise<unknown>} listener @param {AbortSignal} signal */
export function onDecisions(domain, listener, signal) {
  let last = -CALM_MS;
  let isOwed = false;
  onPulse((frame) => {
    isOwed ||= frame.counts.some((one) => one.domain === domain);
    if (!isOwed || performance.now() - last < CALM_MS) return;
    [last, isOwed] = [performance.now(), false];
    // What could not be shown now is shown after the next decision.
    listener().catch(() => {});
  }, signal);
}

/** Return how many listen: as many as the frame and the page that is shown need, however many were shown before. */
export function listenerCount() {
  return listeners.size + watchers.size;
}

/** @param {(state: State) => void} watcher @param {AbortSignal} [signal] */
export function onLiveState(watcher, signal) {
  watchers.add(watcher);
  signal?.addEventListener("abort", () => watchers.delete(watcher));
  watcher(state);
}

/** Return how old what is shown live is, in milliseconds. */
export function frameAge() {
  return lastFrameAt ? performance.now() - lastFrameAt : 0;
}

/** @param {State} next */
function become(next) {
  state = next;
  for (const watcher of watchers) watcher(next);
}

/** @param {Frame} frame */
function hear(frame) {
  lastFrameAt = performance.now();
  setNow(frame.now);
  become("live");
  for (const listener of listeners) listener(frame);
}

/** Start, once, when somebody is signed in. @param {string} name of the tenant and the key: only tabs of the same one share */
export function startLive(name) {
  if (channel?.name === `betimes-pulse-${name}` && reading) return;
  stopLive(); // whoever was signed in before has gone, or reading has ended with their session
  watching = new AbortController();
  const { signal } = watching;
  channel = new BroadcastChannel(`betimes-pulse-${name}`);
  channel.addEventListener("message", (event) => hear(event.data));
  let hidden = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(() => (reading?.abort(), become("paused")), HIDDEN_MS);
    else if (!reading) void lead(name);
  }, { signal });
  signal.addEventListener("abort", () => clearTimeout(hidden));
  void lead(name);
}

/** Stop: the session has ended. */
export function stopLive() {
  reading?.abort();
  watching?.abort();
  channel?.close();
  channel = null;
}

/** Read as the tab that has the lock, for as long as somebody looks at it. @param {string} name */
async function lead(name) {
  const controller = (reading = new AbortController());
  try {
    await navigator.locks.request(
      `betimes-pulse-${name}`,
      { signal: controller.signal },
      () => readOn(controller.signal),
    );
  } catch (error) {
    if (!controller.signal.aborted) throw error;
  } finally {
    if (reading === controller) reading = null;
  }
}

/** Read, and read again after each break, later and later. @param {AbortSignal} signal */
async function readOn(signal) {
  let wait = RETRY_MIN_MS;
  while (!signal.aborted) {
    const began = performance.now();
    try {
      if (!(await readStream(signal))) return;
    } catch {
      if (signal.aborted) return;
    }
    if (performance.now() - began > 2 * RETRY_MAX_MS) wait = RETRY_MIN_MS;
    become("reconnecting");
    await pause(wait * (0.5 + Math.random() / 2), signal);
    wait = Math.min(RETRY_MAX_MS, wait * 2);
  }
}

/** @param {number} ms @param {AbortSignal} signal */
function pause(ms, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), done(null)));
  });
}

/** Read one response to its end; return false if there is no use in trying again. @param {AbortSignal} signal */
async function readStream(signal) {
  /** @type {Record<string, string>} */
  const headers = { ...headersOf("GET", {}), Accept: "text/event-stream" };
  if (isDev) headers["X-Tenant"] = devTenant();
  if (position) headers["Last-Event-ID"] = position;
  const response = await fetch("/v1/verdicts/stream?mode=pulse&sample=20", {
    headers,
    signal,
    credentials: "same-origin",
  });
  if (response.status === 401) noteSignedOut();
  if (response.status === 401 || response.status === 403) return false;
  if (!response.ok || !response.body) throw new Error(`HTTP ${response.status}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return true;
    const blocks = (buffer + value).split("\n\n");
    buffer = blocks.pop() ?? "";
    blocks.forEach(takeBlock);
  }
}

/** @param {string} block */
function takeBlock(block) {
  const lines = Object.fromEntries(
    block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]),
  );
  if (lines.id) position = lines.id;
  if (lines.event !== "frame" || !lines.data) return;
  const frame = JSON.parse(lines.data);
  channel?.postMessage(frame);
  hear(frame);
}
