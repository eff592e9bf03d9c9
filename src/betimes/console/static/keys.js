/** Keys: one letter each, and they can be switched off. */
import { openSearch } from "./search.js";

/** Listen for keys. */
export function startKeys() {
  addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element &&
      event.target.closest("input, textarea, select, dialog, [contenteditable]");
    const find = (event.key === "/" && !typing) || (event.key === "k" && (event.ctrlKey || event.metaKey));
    if (!find) return;
    event.preventDefault();
    if (!document.querySelector("dialog[open]")) openSearch();
  });
}
