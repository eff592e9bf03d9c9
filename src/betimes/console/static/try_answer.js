/**
 * The answer to a try, as a why: what would be said, every rule in order, and what would be written.
 */
import { dryRunView } from "./actions.js";
import { h } from "./dom.js";
import { answer } from "./marks.js";
import { facts, reasonChips } from "./parts.js";
import { rawJson } from "./texts.js";
import { timedText, when } from "./time.js";
import { pipeline } from "./why_pipeline.js";

const SAID_MAX = 12;

/** @param {any} told what the server answered @param {Promise<any>} policy the policy that it was decided by, if it may be seen */
export function answerView(told, policy) {
  const body = told?.body ?? told;
  const judged = judgedSegment(told);
  const verdict = judged?.verdict ?? (body?.outcome ? body : null);
  return h(
    "div",
    { class: "try-answer" },
    verdict ? headline(verdict, body) : plainAnswer(told, body),
    told?.dry_run
      ? facts([["At", when(told.dry_run.at, { seconds: true, relative: false })], [
        "Policy",
        h("code", null, told.dry_run.policy),
      ], [
        "Next alarm",
        told.dry_run.alarm_at ? when(told.dry_run.alarm_at) : null,
      ]])
      : null,
    judged?.rules?.length
      ? h("details", { open: true }, h("summary", null, "Rule by rule"), rulesOf(judged, policy))
      : null,
    dryRunView(told) ?? rawJson(told, "The whole answer"),
  );
}

/** Return the segment of the dry run that judged the request: alarms that ring on the way come before it. @param {any} told */
function judgedSegment(told) {
  const all = told?.dry_run?.segments ?? [];
  return all.find((/** @type {any} */ one) => one.segment_id === told.body?.segment_id) ??
    all.findLast((/** @type {any} */ one) => one.rules?.length) ?? null;
}

/** @param {any} verdict @param {any} body */
function headline(verdict, body) {
  const until = verdict.defer_until ?? body?.defer_until;
  return h(
    "div",
    { class: "try-verdict" },
    h("p", null, answer(verdict.outcome), " ", reasonChips(verdict.reasons)),
    h("p", null, timedText(verdict.explanation || body?.explanation)),
    until ? h("p", { class: "soft" }, "until ", when(until)) : null,
    body?.is_replay ? h("p", { class: "soft" }, "It was answered before: this is the recorded answer.") : null,
  );
}

/** Two answers may stand side by side, so that their rules have no ids. @param {any} judged @param {Promise<any>} policy */
function rulesOf(judged, policy) {
  const list = pipeline(judged, policy);
  list.querySelectorAll("[id]").forEach((one) => one.removeAttribute("id"));
  return list;
}

/** What is answered where nothing is judged: its figures and words. @param {any} told @param {any} body */
function plainAnswer(told, body) {
  const said = Object.entries(body ?? {}).filter(([, value]) => ["string", "number", "boolean"].includes(typeof value));
  const pairs = said.slice(0, SAID_MAX).map((
    [name, value],
  ) => /** @type {[string, any]} */ ([name, timedText(String(value))]));
  return [
    h("p", { class: "try-verdict" }, told?.status ? `It would answer ${told.status}.` : "It answered:"),
    facts(pairs),
  ];
}
