/** A run: why it was allowed, how it went step by step, who asked for it. */
import { get, part, Problem } from "./api.js";
import { askedBy } from "./asked_by.js";
import { h, put } from "./dom.js";
import { between } from "./page_runs.js";
import { answer, facts, pageHead, section, streamLink, table, whyHref } from "./parts.js";
import { shownJson } from "./texts.js";
import { recordedAt, timedText, when } from "./time.js";

/** @typedef {import("./router.js").View} View */

/** The names that it knows in a query. @type {string[]} */
export const QUERY = [];

/** @param {View} view */
export async function show(view) {
  const id = view.params.run;
  view.title(`Run ${id}`);
  const [run, segments] = await Promise.all([
    get(`/v1/runs/${part(id)}`, {}, view.signal),
    get("/v1/ledger", { kind: "run", id, limit: 50 }, view.signal),
  ]);
  const trigger = run.idempotency_key ? await verdictOf(run.idempotency_key, view.signal) : null;
  put(
    view.main,
    pageHead(
      [h("span", { class: "soft" }, "Run "), h("span", { class: "id" }, id)],
      [answer(run.status), " · ", h("code", null, run.trigger_type), " of ", streamLink("account", run.account_id)],
    ),
    run.error ? section("Error", h("p", { class: "error-text" }, run.error)) : null,
    lifeSection(run),
    h("div", { class: "columns" }, verdictSection(trigger), causeSection(run, segments.items)),
    stepSection(segments.items),
    run.payloads.length || run.result != null
      ? section("What it carries", shownJson({ payload: run.payloads, result: run.result }))
      : null,
  );
}

/** Return what was answered to the trigger, if it is still kept. @param {string} key @param {AbortSignal} signal */
async function verdictOf(key, signal) {
  try {
    return await get(`/v1/triggers/${part(key)}`, {}, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

/** Show the steps of a run's life, those that are behind it marked. @param {any} run */
function lifeSection(run) {
  const ended = run.finished_at ? run.status : "ended";
  const steps = /** @type {[string, string | null, string][]} */ ([
    ["allowed", run.allowed_at, ""],
    ["started", run.started_at, run.started_at ? `after ${between(run.allowed_at, run.started_at)}` : ""],
    [
      ended,
      run.finished_at,
      run.finished_at ? `after ${between(run.started_at ?? run.allowed_at, run.finished_at)}` : "",
    ],
  ]);
  const items = steps.map(([name, at, took]) =>
    h(
      "li",
      { class: at ? `step ${name === "failed" || name === "abandoned" ? "bad" : "past"}` : "step" },
      h("strong", null, name),
      h("span", null, at ? when(at, { seconds: true }) : "not yet"),
      took ? h("span", { class: "soft" }, took) : null,
    )
  );
  return section("Its life", h("ol", { class: "life" }, items));
}

/** @param {any} trigger */
function verdictSection(trigger) {
  if (!trigger) {
    return section("Verdict", h("p", { class: "soft" }, "It never met the gate, or its trigger is not kept any more."));
  }
  const verdicts = [trigger.verdict, trigger.retry].filter(Boolean);
  return section(
    "Verdict",
    verdicts.map((one) =>
      h(
        "p",
        null,
        one.segment_id
          ? h("a", { class: "plain", href: whyHref(one.segment_id) }, answer(one.result))
          : answer(one.result),
        " ",
        timedText(one.explanation),
        " ",
        one.segment_id ? h("a", { href: whyHref(one.segment_id) }, one.reason) : one.reason,
      )
    ),
  );
}

/** @param {any} run @param {any[]} segments */
function causeSection(run, segments) {
  const asked = segments.flatMap((one) => one.events).find((one) => one.type === "RunAsked");
  return section(
    "Cause",
    facts([
      [
        "Asked for by",
        asked?.asked_by ? [`${asked.asked_by.kind} `, streamLink(asked.asked_by.kind, asked.asked_by.id)] : "a trigger",
      ],
      ["Key", h("code", { class: "clip" }, run.idempotency_key || run.run_key)],
      ["Scheduled for", run.scheduled_for ? when(run.scheduled_for) : null],
      ["Data from", run.data_interval_start ? when(run.data_interval_start) : null],
      ["Data to", run.data_interval_end ? when(run.data_interval_end) : null],
      ["Partition", run.partition_key],
      ["Handler", run.handler],
      ["Worker", run.worker],
      ["Lease ends", run.lease_expires_at ? when(run.lease_expires_at) : null],
      [
        "Correlation",
        run.correlation_id
          ? h(
            "a",
            { class: "id", href: `/console/ledger?correlation_id=${part(run.correlation_id)}` },
            run.correlation_id,
          )
          : null,
      ],
      ["Others of this account", h("a", { href: `/console/runs?account_id=${part(run.account_id)}` }, "runs")],
    ]),
  );
}

/** @param {any[]} segments */
function stepSection(segments) {
  const columns = [
    { name: "When", cell: (/** @type {any} */ one) => recordedAt(one.at, { seconds: true }) },
    {
      name: "Event",
      cell: (/** @type {any} */ one) => one.events.map((/** @type {any} */ event) => event.type).join(", "),
    },
    { name: "By", cell: (/** @type {any} */ one) => askedBy(one) },
    {
      name: "Segment",
      cell: (/** @type {any} */ one) =>
        h("a", { class: "id", href: whyHref(one.segment_id) }, `version ${one.version}`),
    },
  ];
  return section("Step by step", table({ caption: "Segments of the run, oldest first", columns, rows: segments }));
}
