/**
 * The pane *Apply*: what the draft changes, what a backtest predicts of it, and putting it in force.
 *
 * Whoever applies something that changes more than one answer in a hundred, makes a night worse, or was never tried
 * types the tenant's name first.
 */
import { actionButton } from "./actions.js";
import { get } from "./api.js";
import { h, put } from "./dom.js";
import { button } from "./forms.js";
import { candidateOf, changedShare, difference } from "./lab_result.js";
import { canonical, valueLine } from "./lab_schema.js";
import { rollbackButton, watchCard } from "./lab_watch.js";
import { pathCode } from "./why_policy.js";
import { countText, facts, figure, percent, problemBox } from "./parts.js";
import { whoAmI } from "./session.js";

/** @typedef {import("./lab_draft.js").Draft} Draft */

const SHARE_MAX = 0.01;
const COUNTED_MAX = 200;

/** Return what must be typed to confirm, if anything. @param {any | null} candidate what a backtest predicts; `null`: nothing is known */
export function confirmWord(candidate) {
  const isWorse = candidate?.nights.some((/** @type {any} */ one) => one.after > one.before);
  return !candidate || changedShare(candidate) > SHARE_MAX || isWorse ? whoAmI()?.tenant : undefined;
}

/** @param {Draft} draft @param {import("./lab_try.js").Trial} trial @param {any[]} past versions of the policy, newest first @param {import("./router.js").View} view */
export function applyPane(draft, trial, past, view) {
  const body = h("div");
  const show = () =>
    put(
      body,
      draft.isSame
        ? takeOver(draft, trial, view)
        : [changesOf(draft), prediction(draft, trial), takeOver(draft, trial, view), applyButton(draft, trial, view)],
    );
  draft.listen(show, view.signal);
  trial.listeners.add(show);
  show();
  const watch = h("div");
  const fill = async () => put(watch, (await watchCard(past, view)) ?? rollbackButton(past[0] ?? null, null, view));
  fill().catch((error) => view.signal.aborted || put(watch, problemBox(error)));
  return h("div", null, body, inForce(draft), watch);
}

/** Return the candidate that tried exactly this draft, if the backtest that is shown has one. @param {Draft} draft @param {import("./lab_try.js").Trial} trial */
function triedCandidate(draft, trial) {
  const wanted = canonical(draft.overrides);
  return (trial.detail?.result?.candidates ?? []).find((/** @type {any} */ one) => canonical(one.policy) === wanted) ??
    null;
}

/** @param {Draft} draft */
function changesOf(draft) {
  const changes = draft.check?.changes ?? [];
  if (!changes.length) {
    return h(
      "p",
      { class: "soft" },
      draft.check?.valid ? "It comes to what is in force." : "What the server would refuse cannot be applied.",
    );
  }
  return [
    h("h3", null, "Settings that change"),
    h(
      "ul",
      { class: "setting-changes" },
      changes.slice(0, 40).map((one) =>
        h(
          "li",
          null,
          pathCode(one.path),
          h("div", null, h("del", null, valueLine(one.from)), " → ", h("ins", null, valueLine(one.to))),
        )
      ),
    ),
  ];
}

/** @param {Draft} draft @param {import("./lab_try.js").Trial} trial */
function prediction(draft, trial) {
  const found = triedCandidate(draft, trial);
  if (!found) {
    return [
      h("h3", null, "Predicted"),
      h("p", { class: "soft" }, "Nothing yet: this draft was not tried. Try it first, on a sample."),
    ];
  }
  const worse = found.nights.filter((/** @type {any} */ one) => one.after > one.before).length;
  const { sample } = trial.detail.result;
  return [
    h("h3", null, "Predicted"),
    facts([
      [
        "Answers that change",
        `${figure(found.flip_count)}, ${percent(found.flip_count, found.flip_count / (changedShare(found) || 1))}`,
      ],
      [
        "People whose nights change",
        `${figure(found.nights_changed)}${worse ? `, ${worse} of the first ${found.nights.length} for the worse` : ""}`,
      ],
      ["Told", [`${figure(found.cost.told.after)} `, difference(found.cost.told.before, found.cost.told.after)]],
      ["Runs", [
        `${figure(found.cost.runs_allowed.after)} `,
        difference(found.cost.runs_allowed.before, found.cost.runs_allowed.after),
      ]],
    ]),
    sample && sample.subjects < sample.subjects_total
      ? h(
        "p",
        { class: "soft" },
        `Of a sample: ${figure(sample.subjects)} of ${countText(sample.subjects_total, "subjects")}.`,
      )
      : null,
  ];
}

/** Offer to go on with a policy of the backtest that is not the draft. @param {Draft} draft @param {import("./lab_try.js").Trial} trial @param {import("./router.js").View} view */
function takeOver(draft, trial, view) {
  const shown = candidateOf(trial.detail, view.query);
  if (!shown || canonical(shown.policy) === canonical(draft.overrides)) {
    return draft.isSame ? h("p", { class: "soft" }, "The draft is what is in force: there is nothing to apply.") : null;
  }
  const take = () => {
    draft.kept = { ...draft.kept, overrides: shown.policy, sweep: {} };
    draft.keep();
    view.refresh();
  };
  return h(
    "div",
    null,
    h("p", { class: "soft" }, `The backtest shows ${shown.name}, which is not the draft.`),
    button(`Take ${shown.name} into the draft`, take, { class: "small" }),
  );
}

/** @param {Draft} draft @param {import("./lab_try.js").Trial} trial @param {import("./router.js").View} view */
function applyButton(draft, trial, view) {
  const found = triedCandidate(draft, trial);
  const why = confirmWord(found) === undefined ? null : h(
    "p",
    { class: "soft" },
    found
      ? "It changes more than 1 % of the answers or makes a night worse, so the tenant's name confirms it."
      : "It was not tried, so the tenant's name confirms it.",
  );
  const start = () => ({
    title: "Apply the policy",
    scope: "admin",
    method: "PUT",
    path: "/v1/policy",
    body: { overrides: draft.overrides, ...(found ? { backtest_id: trial.detail.backtest_id } : {}) },
    version: draft.inForce.version,
    confirmWord: confirmWord(found),
    before: h("div", null, changesOf(draft), prediction(draft, trial)),
    preview: waitingStreams,
    done: () => {
      draft.kept = { ...draft.kept, version: draft.inForce.version + 1, sweep: {} };
      view.refresh();
    },
  });
  const made = actionButton("Apply…", start, { class: "primary", disabled: !draft.check?.valid });
  return made ? h("div", { class: "apply" }, why, made) : null;
}

/** Say how many streams will be reconsidered: those that the change visits. @param {any} answer of the dry run */
export function waitingStreams(answer) {
  const event = (answer?.dry_run?.segments ?? []).flatMap((/** @type {any} */ one) => one.events).find((
    /** @type {any} */ one,
  ) => one.visits);
  const lists = /** @type {[string, string][]} */ (event?.visits?.lists ?? []);
  const line = h(
    "p",
    null,
    lists.length ? "Counting what waits now…" : "Nothing that waits now needs to be reconsidered.",
  );
  const count = async (/** @type {[string, string]} */ [kind, status]) =>
    (await get("/v1/streams", { kind, status, limit: COUNTED_MAX })).items.length;
  const tell = async () => {
    const counts = await Promise.all(lists.slice(0, 6).map(count));
    const sum = counts.reduce((whole, one) => whole + one, 0);
    const isMore = counts.some((one) => one === COUNTED_MAX);
    put(
      line,
      `What waits now will be reconsidered: ${isMore ? "more than " : ""}${figure(sum)} stream${sum === 1 ? "" : "s"}.`,
    );
  };
  if (lists.length) tell().catch(() => put(line, "What waits now will be reconsidered."));
  return line;
}

/** @param {Draft} draft */
function inForce(draft) {
  return h(
    "div",
    { class: "in-force" },
    h("h3", null, "In force"),
    facts([["Version", String(draft.inForce.version)], ["Fingerprint", h("code", null, draft.inForce.fingerprint)]]),
    h("p", null, h("a", { href: "/console/admin" }, "History of the policy")),
  );
}
