/** Finding: one box over ids and pages, opened with / or Ctrl-K. */
import { get } from "./api.js";
import { h, put } from "./dom.js";
import { openDialog } from "./forms.js";
import { streamHref, whyHref } from "./parts.js";
import { go } from "./router.js";

/** Open the box. */
export function openSearch() {
  const input = /** @type {HTMLInputElement} */ (h("input", {
    type: "search",
    "aria-label": "Find a person, account, event, key, run, schedule, segment …",
    placeholder: "A person, an account, an event, a key, a segment …",
    autocomplete: "off",
  }));
  const list = h("ul", { class: "hits" });
  const dialog = openDialog("Find", () => [input, list]);
  input.addEventListener("input", async () => {
    const asked = input.value.trim();
    const found = asked ? (await get("/v1/search", { q: asked })).items : [];
    if (input.value.trim() === asked) {
      put(
        list,
        found.map((/** @type {any} */ one) =>
          h(
            "li",
            null,
            h(
              "a",
              { href: hrefOf(one), on: { click: () => dialog.close() } },
              one.id,
              h("span", { class: "soft" }, ` ${one.kind ?? one.type}`),
            ),
          )
        ),
      );
    }
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target === input) {
      const first = list.querySelector("a");
      if (first) (dialog.close(), void go(first.getAttribute("href") ?? "/console"));
    }
  });
  input.focus();
}

/** @param {any} hit */
function hrefOf(hit) {
  if (hit.type === "segment") return whyHref(hit.id);
  if (hit.type === "effect") return `/console/effects/${encodeURIComponent(hit.id)}`;
  if (hit.kind) return streamHref(hit.kind, hit.id);
  return `/console/ledger?${hit.type === "key" ? "key" : "correlation_id"}=${encodeURIComponent(hit.id)}`;
}
