/**
 * The frame around every page: navigation, search, clock, zone, theme, session, and the line that says what is wrong.
 */
import { devTenant, isDev, setDevTenant } from "./api.js";
import { h, keyed, put } from "./dom.js";
import { frameAge, onLiveState, onPulse } from "./live.js";
import { button, openDialog, select } from "./forms.js";
import { refresh } from "./router.js";
import { openSearch } from "./search.js";
import { readableDomains } from "./server.js";
import { askToOperate, loadMe, may, mayAct, operatingMs, sessionText, signOut } from "./session.js";
import {
  clockText,
  isVirtual,
  now,
  partsOf,
  repeat,
  retellAges,
  setZoneChoice,
  spanText,
  zoneChoice,
  zoneFor,
} from "./time.js";

/** Entries of the navigation: name, path, the scope without which it is absent, the key after g. */
export const NAV = /** @type {const} */ ([
  ["See", "Now", "/console", "any:read", "n"],
  ["See", "What's next", "/console/next", "any:read", "x"],
  ["See", "Ledger", "/console/ledger", "any:read", "l"],
  ["Work", "Schedules", "/console/schedules", "automation:read", "s"],
  ["Work", "Sensors", "/console/sensors", "automation:read", "o"],
  ["Work", "Intents", "/console/intents", "intents:read", "i"],
  ["Work", "Runs", "/console/runs", "runs:read", "r"],
  ["Work", "Scores", "/console/scores", "scores:read", "c"],
  ["Work", "Effects", "/console/effects", "any:read", "e"],
  ["Change", "Policy lab", "/console/lab", "admin:read", "p"],
  ["Change", "Playground", "/console/try", "any:read", "t"],
  ["Run", "Health", "/console/health", "any:read", "h"],
  ["Run", "Admin", "/console/admin", "admin:read", "a"],
]);
const THEME = "betimes.theme";
const AGE_MS = 5_000;
/** @type {AbortController | null} */
let replacing = null;

/** Return the entries that whoever looks may open. */
export function visibleNav() {
  return NAV.filter(([, , , scope]) => may(scope) || (scope === "admin:read" && (may("admin") || !isDev)));
}

/** Show the navigation with one entry marked. @param {string} current */
export function markNav(current) {
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.getAttribute("href") === current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.getElementById("nav")?.classList.remove("open");
  document.getElementById("menu")?.setAttribute("aria-expanded", "false");
}

/** Build the frame. @param {string} current path of the navigation's entry @param {() => void} leave called after signing out */
export function showShell(current, leave) {
  const nav = /** @type {HTMLElement} */ (document.getElementById("nav"));
  const groups = [...new Set(visibleNav().map(([group]) => group))];
  put(
    nav,
    groups.map((group) =>
      h(
        "div",
        { class: "nav-group" },
        h("p", { class: "nav-title", id: `nav-${group}` }, group),
        h(
          "ul",
          { "aria-labelledby": `nav-${group}` },
          visibleNav().filter(([one]) => one === group).map(([, text, href]) => h("li", null, h("a", { href }, text))),
        ),
      )
    ),
  );
  replacing?.abort(); // whoever signs in again gets a new bar
  replacing = new AbortController();
  put(/** @type {HTMLElement} */ (document.getElementById("bar")), ...barParts(nav, leave, replacing.signal));
  markNav(current);
  applyTheme();
}

/** Take the frame away: nobody is signed in, and it would still name whoever was. */
export function hideShell() {
  replacing?.abort();
  for (const id of ["nav", "bar"]) put(/** @type {HTMLElement} */ (document.getElementById(id)));
}

/** @param {HTMLElement} nav @param {() => void} leave @param {AbortSignal} signal */
function barParts(nav, leave, signal) {
  const menu = h("button", {
    type: "button",
    id: "menu",
    class: "small menu",
    "aria-expanded": "false",
    "aria-controls": "nav",
  }, "Menu");
  menu.addEventListener("click", () => menu.setAttribute("aria-expanded", String(nav.classList.toggle("open"))));
  const search = h(
    "button",
    { type: "button", class: "search-button", on: { click: () => openSearch() } },
    h("span", null, "Find anything"),
    h("kbd", null, "/"),
  );
  return [
    menu,
    h("a", { href: "/console", class: "brand" }, "betimes"),
    search,
    clock(signal),
    zonePicker(),
    themeButton(),
    sessionPart(leave, signal),
    h("div", { id: "banner", class: "banner" }),
  ];
}

/** @param {AbortSignal} signal */
function clock(signal) {
  const face = h("span", { class: "clock-face" });
  const state = h("span", { class: "live-state", role: "status" });
  /** @type {import("./live.js").State} */
  let live = "connecting";
  let toldAt = now();
  const tell = () => {
    const age = Math.floor(frameAge() / AGE_MS) * AGE_MS; // a reader is told every few seconds
    const words = live === "reconnecting" && age ? `${live} · ${spanText(age)} old` : live;
    if (state.textContent !== words) put(state, words);
  };
  const tick = () => {
    if (live === "reconnecting") tell();
    const zone = zoneFor(null);
    put(face, clockText(now(), zone, true), h("span", { class: "soft" }, ` ${partsOf(now(), zone).offset}`));
    if (Math.abs(now() - toldAt) < AGE_MS) return;
    toldAt = now();
    retellAges();
  };
  repeat(1000, tick, signal);
  onPulse((frame) => (tick(), showBanner(frame.health)), signal);
  onLiveState((found) => {
    live = found;
    state.setAttribute("data-state", found);
    tell();
  }, signal);
  tick();
  return h(
    "div",
    { class: "clock" },
    face,
    isVirtual() ? clockBadge() : null,
    state,
  );
}

/** Say that the clock is virtual; without keys it is moved from here. */
function clockBadge() {
  const title = "A virtual clock: it stands still until it is moved";
  if (!isDev || !mayAct()) return h("span", { class: "chip", title }, "virtual");
  const open = async () => (await import("./clock.js")).openClock();
  return button("virtual", open, { class: "chip", title: `${title}, here`, "aria-haspopup": "dialog" });
}

function zonePicker() {
  const found = select(
    [["theirs", "Their zone"], ["mine", "My zone"], ["utc", "UTC"]],
    zoneChoice(),
    (value) => (setZoneChoice(/** @type {any} */ (value)), void refresh()),
  );
  found.setAttribute("aria-label", "Time zone");
  found.id = "zone";
  return found;
}

function themeButton() {
  return button("◐", () => toggleTheme(), {
    class: "small quiet theme",
    "aria-label": "Switch between light and dark",
    title: "Light or dark (t)",
  });
}

/** Switch between light and dark. */
export function toggleTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark" ||
    (document.documentElement.dataset.theme ??
        (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  localStorage.setItem(THEME, dark ? "light" : "dark");
  applyTheme();
}

function applyTheme() {
  const kept = localStorage.getItem(THEME);
  if (kept) document.documentElement.dataset.theme = kept;
}

/** @param {() => void} leave @param {AbortSignal} signal */
function sessionPart(leave, signal) {
  const text = h("span", { class: "who" }, sessionText());
  const open = () =>
    openDialog(
      "Session",
      (close) =>
        h(
          "div",
          null,
          h("p", null, sessionText()),
          isDev ? tenantForm(close) : [
            mayAct() && !operatingMs()
              ? button("Operate", async () => (close(), await askToOperate(), put(text, sessionText()), refresh()))
              : null,
            " ",
            button("Sign out", async () => (close(), await signOut(), leave())),
          ],
        ),
    );
  if (!isDev) repeat(30_000, () => put(text, sessionText()), signal);
  return h(
    "button",
    { type: "button", class: "small quiet session", on: { click: open }, "aria-haspopup": "dialog" },
    text,
  );
}

/** @param {() => void} close */
function tenantForm(close) {
  const name =
    /** @type {HTMLInputElement} */ (h("input", { value: devTenant(), "aria-label": "Tenant", required: true }));
  return h(
    "form",
    {
      on: {
        submit: async (
          /** @type {Event} */ event,
        ) => (event.preventDefault(),
          setDevTenant(name.value.trim()),
          close(),
          await loadMe(),
          location.assign("/console")),
      },
    },
    h("p", { class: "soft" }, "This server needs no keys; choose the tenant to look at."),
    name,
    " ",
    h("button", { type: "submit" }, "Look"),
  );
}

/** Say what is wrong, only while something is. @param {any} health */
function showBanner(health) {
  const banner = document.getElementById("banner");
  if (!banner || !health) return;
  keyed(banner, troubles(health), (one) => one.text, (one) => h("a", { href: one.href, class: "trouble" }, one.text));
}

/** @param {any} health @returns {{text: string, href: string}[]} */
export function troubles(health) {
  const found = [];
  const late = health.oldest_alarm_at ? Date.parse(health.now) - Date.parse(health.oldest_alarm_at) : 0;
  if (health.hold) found.push({ text: `On hold: ${health.hold.reason ?? "nothing fires"}`, href: "/console/health" });
  const isAllHeld = health.hold && readableDomains().every((one) => health.hold.domains.includes(one)); // then nobody is late, and nobody is missing
  if (late > 5000 && !isAllHeld) found.push({ text: `Alarms are ${spanText(late)} late`, href: "/console/next" });
  if (health.effects_dead) {
    found.push({
      text: `${health.effects_dead}${health.capped ? " or more" : ""} dead letter${
        health.effects_dead === 1 ? "" : "s"
      }`,
      href: "/console/effects?status=dead",
    });
  }
  const orphans = Object.keys(health.orphaned ?? {});
  if (orphans.length && !isAllHeld) {
    found.push({
      text: `Nobody carries out ${orphans[0]}${orphans.length > 1 ? ` and ${orphans.length - 1} more` : ""}`,
      href: "/console/effects",
    });
  }
  if (health.checks_overdue && !isAllHeld) {
    found.push({
      text: `${health.checks_overdue} overdue check${health.checks_overdue === 1 ? "" : "s"} without a worker`,
      href: "/console/intents?view=pending",
    });
  }
  if (health.snoozed) {
    found.push({ text: `${health.snoozed} snoozed wake${health.snoozed === 1 ? "" : "s"}`, href: "/console/health" });
  }
  return found;
}
