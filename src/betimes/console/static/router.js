/**
 * From an address to a page, and back: addresses are plain paths, filters and times stand in the query.
 *
 * A page is a module that exports `show(view)`. It fills `view.main`, and stops whatever it started when `view.signal`
 * says that somebody went elsewhere. A page's module is loaded when it is first looked at. `QUERY` are the names that it
 * knows in a query; a page without it sends what it does not know to the server, which says what it does not know either.
 */
import { h, put } from "./dom.js";
import { problemBox } from "./parts.js";
import { checkNames } from "./queries.js";

/**
 * @typedef {object} View
 * @property {HTMLElement} main where the page goes
 * @property {Record<string, string>} params what the path names
 * @property {URLSearchParams} query
 * @property {AbortSignal} signal aborted when the page is left
 * @property {(title: string) => void} title name the page, in the tab and for screen readers
 * @property {(change: Record<string, string | null>, options?: {replace?: boolean}) => void} setQuery change the query, and show the page again
 * @property {() => void} refresh show the page again
 */
/** @typedef {{pattern: RegExp, names: string[], load: () => Promise<{show: (view: View) => unknown, QUERY?: readonly string[]}>, nav: string, scope: string}} Place */

/** @param {string} path with `{names}` @param {string} nav which entry of the navigation it belongs to @param {Place["load"]} load @param {string} [scope] without which there is nothing to see @returns {Place} */
export function place(path, nav, load, scope = "") {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((found) => found[1]);
  return { pattern: new RegExp(`^${path.replace(/\{\w+\}/g, "([^/]+)")}/?$`), names, nav, load, scope };
}

/** @type {Place[]} */
let places = [];
/** @type {AbortController | null} */
let leaving = null;
/** @type {(nav: string) => void} */
let whenShown = () => {};
/** @type {(scope: string, view: View) => boolean} */
let isBarred = () => false;
let lastPath = "";
/** @type {() => Promise<unknown>} */
let beforeShown = () => Promise.resolve();

/** Go to an address of the console. @param {string} href @param {{replace?: boolean}} [options] */
export function go(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  return render(true);
}

/** Show the page of the current address again. */
export function refresh() {
  return render(false);
}

/**
 * Show the page of the address, and of every address from now on.
 * @param {Place[]} all
 * @param {(nav: string) => void} shown called with the navigation's entry whenever a page is shown
 * @param {(scope: string, view: View) => boolean} barred says, in the page, what is missing to see it
 * @param {() => Promise<unknown>} before done before another page is shown
 */
export function startRouter(all, shown, barred, before) {
  beforeShown = before;
  isBarred = barred;
  places = all;
  whenShown = shown;
  addEventListener("popstate", () => render(true));
  document.addEventListener("click", follow);
  return render(false);
}

/** Follow links of the console without loading the page again. @param {MouseEvent} event */
function follow(event) {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (
    !(link instanceof HTMLAnchorElement || link instanceof SVGAElement) || event.defaultPrevented || event.button ||
    event.metaKey || event.ctrlKey || event.shiftKey || event.altKey
  ) return;
  const href = link.getAttribute("href") ?? "";
  if (href.startsWith("#") && aim(href.slice(1))) event.preventDefault();
  if (
    !(href === "/console" || href.startsWith("/console/") || href.startsWith("/console?")) ||
    link.hasAttribute("download") || link.getAttribute("target")
  ) return;
  event.preventDefault();
  void go(href);
}

/** @param {boolean} moved whether somebody went to another page, whose heading then gets the focus */
async function render(moved) {
  leaving?.abort();
  const controller = (leaving = new AbortController());
  const main = /** @type {HTMLElement} */ (document.getElementById("main"));
  const found = isReadable(location.pathname)
    ? places.map((one) => ({ one, match: one.pattern.exec(location.pathname) })).find(({ match }) => match)
    : undefined;
  const fresh = h("div", { class: "page" });
  const view = viewOf(fresh, found?.match, found?.one, controller.signal);
  whenShown(found?.one.nav ?? "");
  if (moved || !main.firstElementChild?.classList.contains("page")) {
    put(main, fresh);
    if (moved) {
      main.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }
  try {
    if (lastPath !== location.pathname) await beforeShown();
    lastPath = location.pathname;
    if (!found) notFound(view);
    else if (!isBarred(found.one.scope, view)) {
      const page = await found.one.load();
      if (page.QUERY) checkNames(view.query, page.QUERY);
      await page.show(view);
    }
  } catch (error) {
    // Without a session there is the form to sign in, which takes the page's place.
    if (/** @type {any} */ (error)?.status === 401) return;
    if (!controller.signal.aborted && found && /** @type {any} */ (error)?.status === 404 && found.one.names.length) {
      noSuchThing(fresh, found.one, view, error);
    } else if (!controller.signal.aborted) {
      const isOfAddress = /** @type {any} */ (error)?.code === "ADDRESS"; // which stays wrong, however often it is tried
      put(fresh, h("h1", null, "This did not work"), problemBox(error, isOfAddress ? undefined : refresh), wayBack());
    }
  }
  // A page that is shown again takes the place of the old one when it is ready, so that nothing flickers.
  if (!controller.signal.aborted && fresh.parentNode !== main) keepFocus(main, () => put(main, fresh));
  if (moved && !controller.signal.aborted) aim(location.hash.slice(1));
}

/** Go to a section of the page if it has one of that name, and open what is folded in it. @param {string} name */
function aim(name) {
  const found = name ? document.querySelector(`main section[data-name="${CSS.escape(name)}"]`) : null;
  if (!(found instanceof HTMLElement)) return false;
  for (const one of found.querySelectorAll("details")) one.open ||= Boolean(one.querySelector("table"));
  found.setAttribute("tabindex", "-1");
  found.focus({ preventScroll: true });
  found.scrollIntoView({ block: "start" });
  return true;
}

/** Offer the page without what its address asks for, which may be what went wrong. */
function wayBack() {
  return location.search
    ? h("p", null, h("a", { href: location.pathname }, "Show this page as it is without filters"))
    : null;
}

/** Change what is shown; the focus goes to the same thing in it, or to the whole if there is none. @param {HTMLElement} main @param {() => void} change */
function keepFocus(main, change) {
  const before = document.activeElement;
  const isInside = before !== main && main.contains(before);
  const nameOf = (/** @type {Element | null} */ one) => one?.getAttribute("aria-label") ?? one?.textContent;
  change();
  if (!isInside) return;
  const same = [...main.querySelectorAll(before?.tagName ?? "")].find((one) => nameOf(one) === nameOf(before));
  if (same instanceof HTMLElement) same.focus({ preventScroll: true });
  if (!main.contains(document.activeElement)) main.focus({ preventScroll: true });
}

/** Return whether every escape of an address stands for a character. @param {string} path */
function isReadable(path) {
  try {
    return Boolean(decodeURIComponent(path));
  } catch {
    return false;
  }
}

/** @param {HTMLElement} main @param {RegExpExecArray | null | undefined} match @param {Place | undefined} one @param {AbortSignal} signal @returns {View} */
function viewOf(main, match, one, signal) {
  const params = Object.fromEntries(
    (one?.names ?? []).map((name, index) => [name, decodeURIComponent(match?.[index + 1] ?? "")]),
  );
  return {
    main,
    params,
    query: new URLSearchParams(location.search),
    signal,
    refresh,
    title: (title) => {
      document.title = `${title} · betimes`;
    },
    setQuery: (change, { replace = false } = {}) => void go(addressWith(change), { replace }),
  };
}

/** Return the current address with another query; `null` removes a name. @param {Record<string, string | null>} change */
export function addressWith(change) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(change)) {
    value == null || value === "" ? query.delete(name) : query.set(name, value);
  }
  const text = query.toString();
  return location.pathname + (text ? `?${text}` : "");
}

/** Say that there is nothing of a name, and offer the list it would be in, and to search for it. @param {HTMLElement} box @param {Place} one @param {View} view @param {unknown} error */
function noSuchThing(box, one, view, error) {
  const id = view.params[one.names[0]];
  const list = one.nav || `/console/ledger?${partsOfSegment(id)}`;
  const name = document.querySelector(`#nav a[href="${one.nav || "/console/ledger"}"]`)?.textContent ?? "the list";
  const find = async () => (await import("./search.js")).openSearch(id);
  view.title("Not found");
  put(
    box,
    h("h1", null, `There is no ${one.names[0]} `, h("span", { class: "id" }, id)),
    problemBox(error),
    h("p", { class: "buttons" }, [
      h("a", { class: "button", href: list }, `Look in ${name}`),
      h("button", { type: "button", class: "small", on: { click: find } }, `Search for ${id}`),
    ]),
  );
}

/** Return the query that lists the stream of a segment in the ledger. @param {string} id of the segment */
function partsOfSegment(id) {
  const [, kind, stream] = /^([^:]+):(.+):\d+$/.exec(id) ?? [];
  return new URLSearchParams(kind ? { kind, id: stream } : { id });
}

/** @param {View} view */
function notFound(view) {
  view.title("No such page");
  put(
    view.main,
    h("h1", null, "There is no such page"),
    h("p", null, "The address names nothing of the console. ", h("a", { href: "/console" }, "Go to Now"), "."),
    h("p", { class: "soft" }, "Or find anything with ", h("kbd", null, "/"), "."),
  );
}
