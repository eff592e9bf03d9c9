/** Intents: what people asked to be told or done when something holds, and when it is looked at next. */
import { part } from "./api.js";
import { h } from "./dom.js";
import { firstOne, pauseAndResume, showList } from "./list_page.js";
import { answer, countLink, streamLink, tabs } from "./parts.js";
import { choiceIn } from "./queries.js";
import { fullText, spanText, when } from "./time.js";

const TYPES = ["price", "portfolio", "silence", "cron", "interval", "once"];

/** @param {import("./router.js").View} view */
export function show(view) {
  const isPending = choiceIn(view.query, "view", ["all", "pending"]) === "pending";
  const filters = isPending
    ? [
      { name: "in_cooldown", label: "In cooldown", text: "cooldown", options: ["true", "false"] },
      { name: "user_id", label: "Person", text: "user" },
    ]
    : [
      { name: "enabled", label: "Enabled", options: ["true", "false"] },
      { name: "trigger_type", label: "Type", text: "type", options: TYPES },
      { name: "user_id", label: "Person", text: "user" },
    ];
  const views = tabs("Intents", [
    { text: "all", href: "/console/intents", current: !isPending },
    { text: "pending", href: "/console/intents?view=pending", current: isPending },
  ]);
  return showList(view, "Intents", "What is watched for people, and what happens when it holds.", {
    path: isPending ? "/v1/intents/pending" : "/v1/intents",
    noun: isPending ? "pending intents" : "intents",
    caption: isPending ? "Pending intents, soonest first" : "Intents, newest first",
    filters,
    own: ["view"],
    idOf: (row) => row.intent_id,
    hrefOf: (row) => `/console/intents/${part(row.intent_id)}`,
    idName: "Intent",
    columns: [
      { name: "Status", cell: (row) => answer(row.enabled ? "active" : "paused") },
      { name: "Of", cell: (row) => streamLink("inbox", row.user_id) },
      { name: "Watches", cell: watchText },
      { name: "Then", cell: (row) => row.action_type.replaceAll("_", " ") },
      { name: "Next check", cell: (row) => when(nextLook(row), { theirs: row.schedule.timezone }) },
      {
        name: "Last",
        cell: (row) => row.last_status ? answer(row.last_status) : h("span", { class: "soft" }, "not yet"),
      },
      { name: "Fired", kind: "number", cell: firedLink },
      {
        name: "Cooldown",
        cell: (row) => row.in_cooldown ? ["until ", when(cooldownEnd(row), { theirs: row.schedule.timezone })] : "",
      },
    ],
    empty: isPending ? h("p", { class: "soft" }, "Nothing is pending: no enabled intent has a next check.") : firstOne(
      "No intent yet",
      "An intent watches a price, a portfolio, a silence or the clock for a person, and acts when it holds, with a cooldown.",
      {
        path: "/v1/intents",
        body: {
          user_id: "ana",
          trigger_type: "price",
          condition: { ticker: "NVDA", operator: "<", value: 120 },
          schedule: { check_interval_minutes: 60 },
          action_type: "notify",
          action_context: "NVDA is under 120.",
        },
        python:
          'await bt.intents.create({"user_id": "ana", "trigger_type": "price", "action_type": "notify",\n    "condition": {"ticker": "NVDA", "operator": "<", "value": 120},\n    "schedule": {"check_interval_minutes": 60}, "action_context": "NVDA is under 120."})',
      },
    ),
    bulk: isPending ? undefined : pauseAndResume(view, {
      noun: "intents",
      path: "/v1/intents",
      scope: "intents:write",
      lost: (row) => row.next_check && when(nextLook(row), { theirs: row.schedule.timezone }),
    }),
  }, h("p", { class: "views" }, views));
}

/** Return what an intent watches. @param {any} intent */
export function watchText(intent) {
  const { condition, schedule } = intent;
  const what = condition?.expression ??
    (condition?.ticker ? `${condition.ticker} ${condition.operator} ${condition.value}` : null) ??
    (condition?.metric
      ? `${condition.metric.replaceAll("_", " ")} ${condition.operator ?? ""} ${condition.value ?? ""}`
      : null) ??
    (condition?.threshold_hours ? `silent for ${condition.threshold_hours} h` : null);
  const when_ = schedule.cron ?? (schedule.trigger_at ? fullText(schedule.trigger_at, schedule.timezone) : null) ??
    (schedule.interval_minutes ? `every ${spanText(schedule.interval_minutes * 60_000)}` : null);
  return [
    intent.trigger_type,
    what || when_ ? ": " : "",
    what ? h("code", null, what) : when_ ? h("code", null, when_) : null,
  ];
}

/** Return when an intent is looked at next: after its cooldown, if it is in one. @param {any} intent @returns {string | null} */
export function nextLook(intent) {
  if (!intent.next_check || !intent.in_cooldown) return intent.next_check;
  return new Date(Math.max(Date.parse(cooldownEnd(intent)), Date.parse(intent.next_check))).toISOString();
}

/** Return when the cooldown of an intent ends. @param {any} intent */
export function cooldownEnd(intent) {
  return new Date(Date.parse(intent.last_condition_fire) + intent.condition.cooldown_hours * 3_600_000).toISOString();
}

/** @param {any} intent */
function firedLink(intent) {
  return countLink(intent.execution_count, `/console/intents/${part(intent.intent_id)}?status=success#history`);
}
