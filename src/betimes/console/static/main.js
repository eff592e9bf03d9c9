/**
 * The console starts here: who looks, then the frame, then the page of the address.
 */
import { onSignedOut } from "./api.js";
import { h, put } from "./dom.js";
import { startKeys } from "./keys.js";
import { startLive, stopLive } from "./live.js";
import { problemBox } from "./parts.js";
import { place, refresh, startRouter } from "./router.js";
import { loadMeta } from "./server.js";
import { isBarred, loadMe, showSignIn, signInByProxy } from "./session.js";
import { hideShell, markNav, showShell } from "./shell.js";
import { isVirtual, setNow } from "./time.js";

const PLACES = [
  place("/console", "/console", () => import("./page_now.js")),
  place("/console/why/{segment}", "", () => import("./page_why.js")),
  place("/console/people/{person}", "", () => import("./page_day.js")),
  place("/console/accounts/{account}", "", () => import("./page_day.js")),
  place("/console/next", "/console/next", () => import("./page_next.js")),
  place("/console/schedules", "/console/schedules", () => import("./page_schedules.js")),
  place("/console/schedules/{schedule}", "/console/schedules", () => import("./page_schedule.js")),
  place("/console/sensors", "/console/sensors", () => import("./page_sensors.js")),
  place("/console/sensors/{sensor}", "/console/sensors", () => import("./page_sensor.js")),
  place("/console/intents", "/console/intents", () => import("./page_intents.js")),
  place("/console/intents/{intent}", "/console/intents", () => import("./page_intent.js")),
  place("/console/runs", "/console/runs", () => import("./page_runs.js")),
  place("/console/runs/{run}", "/console/runs", () => import("./page_run.js")),
  place("/console/scores", "/console/scores", () => import("./page_scores.js")),
  place("/console/scores/{user}", "/console/scores", () => import("./page_score.js")),
  place("/console/effects", "/console/effects", () => import("./page_effects.js")),
  place("/console/effects/{effect}", "/console/effects", () => import("./page_effect.js")),
  place("/console/ledger", "/console/ledger", () => import("./page_ledger.js")),
  place("/console/lab", "/console/lab", () => import("./page_lab.js"), "admin"),
  place("/console/lab/{backtest}", "/console/lab", () => import("./page_lab.js"), "admin"),
  place("/console/try", "/console/try", () => import("./page_try.js")),
  place("/console/health", "/console/health", () => import("./page_health.js")),
  place("/console/admin", "/console/admin", () => import("./page_admin.js"), "admin"),
];
const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const SIGNED_OUT = "Signed out.";
let isRouting = false;
let isAsking = false;
let isFollowing = false;
let isEnding = false;

/** Show whatever the address names, to whoever is signed in; without, the form to sign in. @param {string} [reason] */
async function start(reason) {
  try {
    isAsking = true;
    const me = (await loadMe()) ?? ((reason !== SIGNED_OUT && (await signInByProxy())) ? await loadMe() : null);
    isAsking = false;
    if (!me) {
      stopLive();
      hideShell();
      showSignIn(main, () => void start(), reason);
      return;
    }
    const meta = await loadMeta();
    setNow(meta.now, meta.virtual);
    showShell("", () => void start(SIGNED_OUT));
    startLive(`${me.tenant}-${me.key_id ?? "dev"}`);
    if (isRouting) await refresh();
    else {
      isRouting = true;
      await startRouter(PLACES, markNav, isBarred, followClock);
    }
  } catch (error) {
    if (/** @type {any} */ (error)?.status === 401) return;
    put(main, h("h1", null, "The console could not start"), problemBox(error, () => start()));
  }
}

/** Learn what time it is: a virtual clock moves in leaps, of which a page that is opened must know. */
async function followClock() {
  const isFirst = !isFollowing; // the start has just asked
  isFollowing = true;
  if (isVirtual() && !isFirst) setNow((await loadMeta()).now);
}

onSignedOut(async () => {
  // Many requests of a page may learn it at once, and whoever asks who is signed in learns it too.
  if (isAsking || isEnding) return;
  isEnding = true;
  await start("The session has ended. Sign in again to go on where you were.");
  isEnding = false;
});
startKeys();
void start();
