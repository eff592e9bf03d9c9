/**
 * The history of the policy: who changed what, why, after which backtest, and the way back.
 */
import { get, part } from "./api.js";
import { h } from "./dom.js";
import { folded } from "./forms.js";
import { valueLine } from "./lab_schema.js";
import { rollbackButton } from "./lab_watch.js";
import { emptyState, pagedList, table, whyHref } from "./parts.js";
import { recordedAt } from "./time.js";

const PAGE = 20;

/** @param {import("./router.js").View} view */
export async function policyHistory(view) {
  const load = (/** @type {string | null} */ cursor) => get("/v1/policy/history", { limit: PAGE, cursor }, view.signal);
  const first = await load(null);
  const last = first.items[0] ?? null;
  return pagedList(load, (items) => versionsTable(items, last, view), first);
}

/** @param {any[]} items @param {any} last @param {import("./router.js").View} view */
function versionsTable(items, last, view) {
  return table({
    caption: "Versions of the policy, newest first",
    columns: [
      {
        name: "Version",
        cell: (one) => [String(one.version), one === last ? h("span", { class: "chip" }, "in force") : null],
      },
      { name: "When", cell: (one) => h("a", { href: whyHref(one.segment_id), class: "plain" }, recordedAt(one.at)) },
      { name: "By", cell: (one) => one.actor },
      { name: "Why", kind: "text", cell: (one) => one.note ?? h("span", { class: "soft" }, "–") },
      { name: "Changes", cell: changesCell },
      {
        name: "Backtest",
        cell: (one) =>
          one.backtest_id ? h("a", { class: "id", href: `/console/lab/${part(one.backtest_id)}` }, "tried") : null,
      },
      {
        name: "Do",
        cell: (one) => one === last ? rollbackButton(last, null, view) : rollbackButton(last, null, view, one.version),
      },
    ],
    rows: items,
    empty: emptyState(
      "The policy was never changed",
      "Every change of the tenant's overrides is listed here, with whoever made it and why.",
      { href: "/console/lab", link: "Try one in the lab" },
    ),
  });
}

/** @param {any} one */
function changesCell(one) {
  const changes = one.changes;
  if (changes === null) return h("span", { class: "soft" }, "the version before is pruned");
  if (!changes.length) return h("span", { class: "soft" }, "none");
  const item = (/** @type {any} */ change) =>
    h(
      "li",
      null,
      h("code", null, change.path),
      h("div", null, h("del", null, valueLine(change.from)), " → ", h("ins", null, valueLine(change.to))),
    );
  return folded(
    `${changes.length} setting${changes.length === 1 ? "" : "s"}`,
    () => h("ul", { class: "setting-changes" }, changes.map(item)),
  );
}
