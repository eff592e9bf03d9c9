/** Runs: what was allowed and how it went; what waits to be, and can be dropped. */
import { actionButton } from "./actions.js";
import { get, part } from "./api.js";
import { h, put } from "./dom.js";
import { firstOne, listSection } from "./list_page.js";
import { answer, pagedList, pageHead, reasonChips, section, shortId, streamLink, table, whyHref } from "./parts.js";
import { durationText, recordedAt, when } from "./time.js";

/** @typedef {import("./router.js").View} View */

const STATUSES = ["allowed", "started", "succeeded", "failed", "abandoned"];

/** @param {View} view */
export async function show(view) {
  view.title("Runs");
  const load = (/** @type {string | null} */ cursor) =>
    get("/v1/upcoming/items", { kinds: "account", limit: 20, cursor }, view.signal);
  const [waiting, list] = await Promise.all([load(null), listSection(view, runList(), "All runs")]);
  put(
    view.main,
    pageHead("Runs", "Expensive decisions that were allowed to run, and those that wait for it."),
    waiting.items.length ? await waitingSection(view, waiting, load) : null,
    list,
  );
}

/** @returns {import("./list_page.js").List} */
function runList() {
  return {
    path: "/v1/runs",
    noun: "runs",
    caption: "Runs, newest first",
    filters: [
      { name: "status", label: "Status", options: STATUSES },
      { name: "handler", label: "Handler", options: ["python", "webhook", "claim"] },
      { name: "trigger_type", label: "Type", text: "type" },
      { name: "account_id", label: "Account", text: "account" },
    ],
    idOf: (row) => row.run_id,
    hrefOf: (row) => `/console/runs/${part(row.run_id)}`,
    labelOf: (row) => shortId(row.run_id),
    idName: "Run",
    columns: [
      { name: "Status", cell: (row) => answer(row.status) },
      { name: "Account", cell: (row) => streamLink("account", row.account_id) },
      { name: "Type", cell: (row) => h("code", null, row.trigger_type) },
      { name: "Allowed", cell: (row) => recordedAt(row.allowed_at) },
      { name: "Waited", kind: "number", cell: (row) => between(row.allowed_at, row.started_at) },
      { name: "Took", kind: "number", cell: (row) => between(row.started_at, row.finished_at) },
      { name: "Worker", cell: (row) => row.worker ?? "–" },
      { name: "Error", kind: "text", cell: (row) => h("span", { class: "error-text" }, row.error ?? "") },
    ],
    empty: firstOne(
      "No run yet",
      "A trigger asks whether an expensive decision may run: allowed, deferred with an instant, or skipped, always with a reason.",
      {
        path: "/v1/triggers",
        body: { account_id: "acct-7", trigger_type: "SIGNAL_ARRIVED", idempotency_key: "sig-1" },
        python:
          'await bt.runs.trigger({"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED",\n    "idempotency_key": "sig-1"})',
      },
    ),
  };
}

/** Return the time between two instants. @param {string | null} from @param {string | null} to */
export function between(from, to) {
  return from && to ? durationText(Date.parse(to) - Date.parse(from)) : "–";
}

/** @param {View} view @param {any} first @param {(cursor: string | null) => Promise<any>} load */
async function waitingSection(view, first, load) {
  const columns = [
    { name: "Account", cell: (/** @type {any} */ one) => streamLink("account", one.id) },
    { name: "What", cell: (/** @type {any} */ one) => h("code", null, one.what) },
    { name: "Until", cell: (/** @type {any} */ one) => when(one.at, { theirs: one.timezone }) },
    { name: "Would pass", cell: (/** @type {any} */ one) => when(one.would_pass_at, { theirs: one.timezone }) },
    {
      name: "Why",
      cell: (/** @type {any} */ one) =>
        one.segment_id
          ? h("a", { href: whyHref(one.segment_id) }, one.reasons.join(", ") || "why")
          : reasonChips(one.reasons),
    },
    { name: "Act", cell: (/** @type {any} */ one) => one.key ? cancelButton(view, one) : null },
  ];
  const list = await pagedList(
    load,
    (rows) => table({ caption: "Triggers that wait, soonest first", columns, rows }),
    first,
  );
  return section("Waiting", list);
}

/** @param {View} view @param {any} item */
function cancelButton(view, item) {
  return actionButton("Cancel", () => ({
    title: `Cancel ${item.key}`,
    scope: "runs:write",
    method: "POST",
    path: `/v1/triggers/${part(item.key)}/cancel`,
    danger: true,
    before: h(
      "p",
      null,
      `${item.what} of ${item.id} was promised another look at `,
      when(item.at),
      "; it would be dropped with all that joined it.",
    ),
    preview: (told) => h("p", null, "It would be ", h("strong", null, told.body.status), "."),
    done: view.refresh,
  }), { class: "small", "aria-label": `Cancel ${item.key}` });
}
