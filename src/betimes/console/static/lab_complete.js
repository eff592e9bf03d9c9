/**
 * Completion of names in a text of TOML: what fits is offered below the text while somebody writes, or at Ctrl+Space.
 */
import { h, put, uid } from "./dom.js";

const OFFERED_MAX = 8;

/**
 * Offer names while somebody writes; return the list to put below the text.
 * @param {HTMLTextAreaElement} text @param {(path: string) => string[]} namesUnder @param {(path: string) => boolean} isTable
 */
export function offerNames(text, namesUnder, isTable) {
  const list = h("ul", {
    class: "offers",
    role: "listbox",
    "aria-label": "Names that fit",
    id: uid("offers"),
    hidden: true,
  });
  text.setAttribute("aria-autocomplete", "list");
  text.setAttribute("aria-controls", list.id);
  const close = () => {
    list.hidden = true;
    text.removeAttribute("aria-activedescendant");
  };
  const choose = (/** @type {Element} */ item) => {
    list.querySelectorAll("li").forEach((one) => one.setAttribute("aria-selected", String(one === item)));
    text.setAttribute("aria-activedescendant", item.id);
  };
  const offer = (asked = false) => {
    const found = fitting(text, namesUnder, isTable, asked);
    if (!found.length) return close();
    put(list, found.map(({ name, rest }) => h("li", { role: "option", id: uid("offer"), "data-rest": rest }, name)));
    list.hidden = false;
    choose(/** @type {Element} */ (list.firstElementChild));
  };
  const take = (/** @type {Element | null} */ item) => {
    if (!item) return;
    text.setRangeText(
      /** @type {HTMLElement} */ (item).dataset.rest ?? "",
      text.selectionStart,
      text.selectionEnd,
      "end",
    );
    close();
    text.dispatchEvent(new Event("input"));
    close();
  };
  text.addEventListener("input", () => offer());
  text.addEventListener("blur", close);
  text.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      return offer(true);
    }
    if (list.hidden) return;
    const items = [...list.children];
    const place = items.findIndex((one) => one.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown") choose(items[(place + 1) % items.length]);
    else if (event.key === "ArrowUp") choose(items[(place + items.length - 1) % items.length]);
    else if (event.key === "Enter" || event.key === "Tab") take(items[place]);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
  list.addEventListener("mousedown", (event) => {
    event.preventDefault();
    take(event.target instanceof Element ? event.target.closest("li") : null);
  });
  return list;
}

/** Return what may be written where the caret is. @param {HTMLTextAreaElement} text @param {(path: string) => string[]} namesUnder @param {(path: string) => boolean} isTable @param {boolean} asked */
function fitting(text, namesUnder, isTable, asked) {
  const place = placeOf(text);
  if (!place || (!asked && !place.word)) return [];
  const cut = place.word.lastIndexOf(".") + 1;
  const start = place.word.slice(cut);
  const path = [place.path, place.word.slice(0, Math.max(0, cut - 1))].filter(Boolean).join(".");
  const pathOf = (/** @type {string} */ name) => (path ? `${path}.${name}` : name);
  return namesUnder(path)
    .filter((name) => name.startsWith(start) && name !== start && (!place.head || isTable(pathOf(name))))
    .slice(0, OFFERED_MAX)
    .map((name) => ({
      name,
      rest: name.slice(start.length) + (place.head ? "" : isTable(pathOf(name)) ? "." : " = "),
    }));
}

/** Return the table that the caret is in, and the word before it. @param {HTMLTextAreaElement} text */
function placeOf(text) {
  const before = text.value.slice(0, text.selectionStart);
  const line = before.slice(before.lastIndexOf("\n") + 1);
  const head = /^\s*\[([\w.-]*)$/.exec(line);
  if (head) return { path: "", word: head[1], head: true };
  const key = /^\s*([\w.-]*)$/.exec(line);
  const tables = [...before.matchAll(/^\s*\[([^\][]+)\]/gm)];
  return key ? { path: tables.at(-1)?.[1].trim() ?? "", word: key[1], head: false } : null;
}
