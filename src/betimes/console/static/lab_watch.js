/**
 * After a policy was applied: for a day, what a backtest predicted beside what happens, and the way back.
 */
import { actionButton } from "./actions.js";
import { get, part } from "./api.js";
import { h } from "./dom.js";
import { confirmWord, waitingStreams } from "./lab_apply.js";
import { canonical, leaves, valueAt, valueLine } from "./lab_schema.js";
import { pathCode } from "./why_policy.js";
import { answer, countText, table } from "./parts.js";
import { now, recordedAt } from "./time.js";

const WATCHED_MS = 86_400_000;
const STEPS = /** @type {[number, string][]} */ ([[2, "1m"], [8, "5m"], [25, "15m"]]);

/** @param {any[]} past versions of the policy, newest first @param {import("./router.js").View} view */
export async function watchCard(past, view) {
  const last = past[0];
  if (!last?.backtest_id || now() - Date.parse(last.at) > WATCHED_MS) return null;
  const detail = await get(`/v1/backtests/${part(last.backtest_id)}`, {}, view.signal).catch(() => null);
  const found = detail?.result?.candidates.find((/** @type {any} */ one) =>
    canonical(one.policy) === canonical(last.overrides)
  );
  if (!found) return null;
  const hours = (now() - Date.parse(last.at)) / 3_600_000;
  const step = STEPS.find(([most]) => hours < most)?.[1] ?? "15m";
  const stats = await get("/v1/stats", {
    since: last.at,
    until: new Date(Math.max(now(), Date.parse(last.at) + 60_000)).toISOString(),
    by: "domain,outcome",
    step,
  }, view.signal);
  const rows = sharesOf(found.outcomes, stats.cells);
  return h(
    "section",
    { class: "watch card", "aria-label": "Watch" },
    h("h3", null, `Watch version ${last.version}`),
    h(
      "p",
      { class: "soft" },
      "Applied ",
      recordedAt(last.at),
      ". Share of each answer in its domain, predicted and since then.",
    ),
    table({
      caption: "Predicted and actual share of each answer",
      columns: [
        { name: "Answer", cell: (one) => [answer(one.outcome), " ", h("span", { class: "soft" }, one.domain)] },
        { name: "Predicted", kind: "number", cell: (one) => shareText(one.predicted) },
        {
          name: "Actual",
          kind: "number",
          cell: (one) =>
            h("a", {
              href: `/console?domain=${one.domain}&outcome=${one.outcome}`,
              title: countText(one.count, "answers"),
            }, shareText(one.actual)),
        },
      ],
      rows,
    }),
    stats.total ? null : h("p", { class: "soft" }, "Nothing was decided since."),
    rollbackButton(last, found, view),
  );
}

/** @param {number | null} share */
function shareText(share) {
  return share === null ? "–" : `${(100 * share).toFixed(1)} %`;
}

/** Return the share of each answer in its domain, predicted and actual. @param {any[]} outcomes of a report @param {any[]} cells of the statistics */
function sharesOf(outcomes, cells) {
  const sums = (/** @type {any[]} */ all, /** @type {(one: any) => number} */ countOf) => {
    /** @type {Map<string, number>} */
    const found = new Map();
    for (const one of all) {
      for (const name of [`${one.domain} ${one.outcome}`, one.domain]) {
        found.set(name, (found.get(name) ?? 0) + countOf(one));
      }
    }
    return found;
  };
  const predicted = sums(outcomes, (one) => one.after);
  const actual = sums(cells, (one) => one.count);
  const share = (
    /** @type {Map<string, number>} */ found,
    /** @type {string} */ name,
    /** @type {string} */ domain,
  ) => (found.get(domain) ? (found.get(name) ?? 0) / Number(found.get(domain)) : null);
  const names = [...new Set([...predicted.keys()].filter((name) => name.includes(" ")))].sort();
  return names.map((name) => {
    const [domain, outcome] = name.split(" ");
    return {
      domain,
      outcome,
      count: actual.get(name) ?? 0,
      predicted: share(predicted, name, domain),
      actual: share(actual, name, domain),
    };
  });
}

/** Return the button that puts the overrides before these in force again. @param {any | null} last the version in force @param {any | null} candidate what was predicted of it @param {import("./router.js").View} view @param {number} [toVersion] */
export function rollbackButton(last, candidate, view, toVersion) {
  if (!last) return null;
  const title = toVersion === undefined ? "Roll back" : `Roll back to version ${toVersion}`;
  return actionButton(`${title}…`, () => ({
    title,
    scope: "admin",
    method: "POST",
    path: "/v1/policy/rollback",
    body: toVersion === undefined ? {} : { to_version: toVersion },
    version: last.version,
    confirmWord: confirmWord(candidate),
    preview: (told) => [changesBetween(last.overrides, told.body), waitingStreams(told)],
    done: () => view.refresh(),
  }), { class: "small" });
}

/** Show where overrides would differ; only the server knows which ones a roll back comes to. What is overridden no more has its default. @param {any} before @param {any} after the policy that would be in force */
function changesBetween(before, after) {
  const [was, will] = [new Map(leaves(before)), new Map(leaves(after.overrides))];
  const next = (/** @type {string} */ path) =>
    will.has(path) ? valueLine(will.get(path)) : `${valueLine(valueAt(after.effective, path))} (default)`;
  const paths = [...new Set([...was.keys(), ...will.keys()])].sort();
  return h(
    "ul",
    { class: "setting-changes" },
    paths.filter((path) => canonical(was.get(path)) !== canonical(will.get(path))).map((path) =>
      h(
        "li",
        null,
        pathCode(path),
        h("div", null, h("del", null, valueLine(was.get(path))), " → ", h("ins", null, next(path))),
      )
    ),
  );
}
