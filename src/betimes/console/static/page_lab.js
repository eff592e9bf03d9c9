/** The policy lab: edit a draft, try it on what was recorded, apply it. */
import { get, part } from "./api.js";
import { put } from "./dom.js";
import { applyPane } from "./lab_apply.js";
import { Draft } from "./lab_draft.js";
import { editPane } from "./lab_edit.js";
import { panes } from "./lab_panes.js";
import { tryPane } from "./lab_try.js";
import { copyButton, pageHead } from "./parts.js";
import { choiceIn } from "./queries.js";

const PAST = 20;

/** The names that it knows in a query. @type {string[]} */
export const QUERY = ["set", "edit", "days", "domain", "candidate", "before", "after", "who"];

/** @param {import("./router.js").View} view */
export async function show(view) {
  view.title("Policy lab");
  const id = view.params.backtest;
  const [inForce, schema, past, history, detail] = await Promise.all([
    get("/v1/policy", {}, view.signal),
    get("/v1/policy/schema", {}, view.signal),
    get("/v1/backtests", { limit: PAST }, view.signal),
    get("/v1/policy/history", { limit: 5 }, view.signal),
    id ? get(`/v1/backtests/${part(id)}`, {}, view.signal) : null,
  ]);
  const candidates = detail?.result?.candidates.map((/** @type {any} */ one) => one.name);
  if (candidates) choiceIn(view.query, "candidate", candidates);
  const draft = new Draft(inForce, view.query, detail?.result?.candidates[0]?.policy ?? null);
  draft.keep();
  const trial = { detail, listeners: new Set() };
  put(
    view.main,
    pageHead(
      "Policy lab",
      "Change the policy in a draft, try it on what was recorded, and apply it when you like what you see.",
      copyButton(() => location.href, "Copy link", "Copy link"),
    ),
    panes({
      edit: editPane(schema, draft, trial, view),
      attempt: tryPane(draft, trial, past.items, view),
      apply: applyPane(draft, trial, history.items, view),
    }),
  );
  void draft.validate();
}
