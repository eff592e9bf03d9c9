/**
 * Finding: one box over ids, pages and actions, opened with / or Ctrl-K.
 *
 * What is typed is looked up by its beginning, a moment after the last key. The arrow keys walk, Enter opens.
 */
import { get, isDev } from "./api.js";
import { h, put, uid } from "./dom.js";
import { openDialog } from "./forms.js";
import { problemBox, streamHref, whyHref } from "./parts.js";
import { go, refresh } from "./router.js";
import { toggleTheme, visibleNav } from "./shell.js";
import { may, mayAct } from "./session.js";
import { isVirtual, setZoneChoice } from "./time.js";

/** @typedef {{text: string, what: string, open: () => void, href?: string}} Hit */
const WAIT_MS = 120;
const HITS_MAX = 20;
/** What people call the streams whose kind is another word. @type {Record<string, string>} */
const WORDS = { inbox: "person", feed: "in-app messages", owner: "limit of intents" };

/** What can be done, where, and the scope that shows it. */
const WORK = /** @type {const} */ ([
  ["Hold everything", "/console/admin", "admin"],
  ["Open an incident", "/console/admin", "admin"],
  ["Make a key", "/console/admin", "admin"],
  ["Retry dead letters", "/console/effects?status=dead", "any:read"],
  ["Pause schedules", "/console/schedules?status=active", "automation:read"],
  ["Try a calmer policy", "/console/lab", "admin"],
]);

/** Open the box. @param {string} [text] to look for at once */
export function openSearch(text = "") {
  const listId = uid("hits");
  const input = /** @type {HTMLInputElement} */ (h("input", {
    type: "search",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": listId,
    "aria-autocomplete": "list",
    "aria-label": "Find",
    placeholder: "A person, an account, an event, a key, a segment, a page …",
    autocomplete: "off",
    spellcheck: "false",
    class: "find",
    value: text,
  }));
  const list = h("ul", { class: "hits", id: listId, role: "listbox", "aria-label": "Found" });
  const told = h("p", { class: "soft", role: "status" });
  const dialog = openDialog("Find", () => [input, list, told]);
  /** @type {Hit[]} */
  let hits = [];
  let chosen = 0;
  const open = (/** @type {number} */ place) => {
    dialog.close();
    hits[place]?.open();
  };
  const paint = () => {
    put(
      list,
      hits.map((hit, place) =>
        h(
          "li",
          {
            role: "option",
            id: `${listId}-${place}`,
            "aria-selected": place === chosen,
            class: place === chosen ? "chosen" : null,
            on: { click: () => open(place) },
          },
          h("span", { class: "id" }, hit.text),
          h("span", { class: "soft" }, hit.what),
        )
      ),
    );
    input.setAttribute("aria-activedescendant", hits.length ? `${listId}-${chosen}` : "");
  };
  const look = async () => {
    const asked = input.value.trim();
    const near = pagesLike(asked);
    try {
      const found = asked ? (await get("/v1/search", { q: asked })).items.map(hitOf) : [];
      if (input.value.trim() !== asked) return;
      hits = [...found, ...near].slice(0, HITS_MAX);
      chosen = 0;
      put(
        told,
        hits.length
          ? ""
          : "Nothing begins with that. Segments, effects and correlations are found by their whole name.",
      );
      paint();
    } catch (error) {
      put(told, problemBox(error));
    }
  };
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, WAIT_MS);
  });
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && hits.length) {
      event.preventDefault();
      chosen = (chosen + step + hits.length) % hits.length;
      paint();
    } else if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(timer);
      void look().then(() => open(chosen));
    }
  });
  void look();
  input.focus();
  input.select();
}

/** @param {any} hit @returns {Hit} */
function hitOf(hit) {
  const href = hrefOf(hit);
  return {
    text: hit.id,
    what: [hit.type === "stream" ? WORDS[hit.kind] ?? hit.kind : `${hit.type} of ${hit.kind}`, hit.status]
      .filter(Boolean).join(" · "),
    href,
    open: () => void go(href),
  };
}

/** @param {any} hit */
function hrefOf(hit) {
  if (hit.type === "segment") return whyHref(hit.id);
  if (hit.type === "effect") return `/console/effects/${encodeURIComponent(hit.id)}`;
  if (hit.type === "stream" && hit.kind) return streamHref(hit.kind, hit.id);
  if (hit.segment_id) return whyHref(hit.segment_id);
  return `/console/ledger?${hit.type === "key" ? "key" : "correlation_id"}=${encodeURIComponent(hit.id)}`;
}

/** Return pages and small actions whose name holds a text. @param {string} text @returns {Hit[]} */
function pagesLike(text) {
  const pages = visibleNav().map(([, name, href]) => ({ text: name, what: "page", href, open: () => void go(href) }));
  const zone = (/** @type {import("./time.js").ZoneChoice} */ choice) => () => (setZoneChoice(choice), void refresh());
  const actions = [
    { text: "Switch between light and dark", what: "action", open: toggleTheme },
    { text: "Show times in UTC", what: "action", open: zone("utc") },
    { text: "Show times in my zone", what: "action", open: zone("mine") },
    { text: "Show times in their zone", what: "action", open: zone("theirs") },
    { text: "See all keys", what: "action", open: async () => (await import("./keys.js")).showHelp() },
    ...(isVirtual() && isDev && mayAct()
      ? [{ text: "Move the virtual clock", what: "action", open: async () => (await import("./clock.js")).openClock() }]
      : []),
    ...WORK.filter(([, , scope]) => mayAct() && may(scope)).map(([text, href]) => ({
      text,
      what: "action",
      href,
      open: () => void go(href),
    })),
  ];
  return [...pages, ...actions].filter((one) => one.text.toLowerCase().includes(text.toLowerCase()));
}
