/**
 * Pruning old history: counted through first, confirmed with a word, then carried out call by call.
 *
 * The server does so many streams a call; both the dry runs and the real calls go on until it says that all were
 * looked at, or until the dialog is closed. What was pruned by then stays pruned, and is on record.
 */
import { ask, get, newKey } from "./api.js";
import { h, put } from "./dom.js";
import { button, field, folded, openDialog, select } from "./forms.js";
import { code, countText, facts, figure, problemBox, table, whyHref } from "./parts.js";
import { shellWord } from "./samples.js";
import { askToOperate, mayAct, mustOperate, whoAmI } from "./session.js";
import { now, when } from "./time.js";

/** @typedef {import("./router.js").View} View */
/** @typedef {{examined: number, streams: number, segments: number, kept: number, unsound: number, findings: any[], records: string[], least: boolean}} Sum */

const DAY_MS = 86_400_000;
const AGES = ["30", "90", "365"];
const WORD = "prune";
/** Calls after which the dialog stops by itself: five million streams. */
const CALLS_MAX = 5_000;
const RECORDS_SHOWN = 5;

/** Say how much is that old, and offer to prune it, here or at the terminal. @param {View} view @param {any} oldest */
export function pruneForm(view, oldest) {
  const told = h("div", { role: "status" });
  const look = async (/** @type {string} */ days) => {
    const until = new Date(now() - Number(days) * DAY_MS).toISOString();
    const isOlder = oldest && oldest.at < until;
    const found = isOlder ? await get("/v1/stats", { since: oldest.at, until, step: "1d" }, view.signal) : { total: 0 };
    put(
      told,
      h(
        "p",
        null,
        isOlder
          ? [h("strong", null, countText(found.total, "decisions")), " from ", when(oldest.at), " to ", when(until)]
          : "Nothing is that old",
        isOlder ? " would go; one checkpoint a stream would stand for them." : ": nothing would go.",
      ),
      isOlder && mayAct() ? button("Count what would go…", () => openPrune(view, until), { class: "danger" }) : null,
      code(`betimes prune --history-days ${days} --tenant ${shellWord(whoAmI()?.tenant ?? "")}`, "At the terminal"),
    );
  };
  const days = select(AGES.map((one) => [one, `${one} days`]), AGES[1], (value) => void look(value).catch(() => {}));
  return folded("Prune old history", () => {
    void look(days.value).catch((error) => put(told, problemBox(error)));
    return [field("Older than", days), told];
  });
}

/** @param {View} view @param {string} before */
async function openPrune(view, before) {
  if (mustOperate("admin") && !(await askToOperate())) return;
  const stop = new AbortController();
  const dialog = openDialog("Prune old history", (close) => pruneDialog(view, before, close, stop.signal), {
    wide: true,
  });
  dialog.addEventListener("close", () => stop.abort());
}

/** @param {View} view @param {string} before @param {() => void} close @param {AbortSignal} signal */
function pruneDialog(view, before, close, signal) {
  const shown = h("div", { role: "status" });
  const note = /** @type {HTMLInputElement} */ (h("input", { type: "text", maxlength: "500" }));
  const word = /** @type {HTMLInputElement} */ (h("input", { type: "text", autocomplete: "off" }));
  const asks = h(
    "div",
    { hidden: true },
    field("Note, for the ledger (optional)", note),
    field(`Type ${WORD} to confirm`, word),
  );
  const leave = button("Cancel", close);
  const confirm = /** @type {HTMLButtonElement} */ (button("Prune", () => carryOut(), {
    class: "danger",
    disabled: true,
  }));
  word.addEventListener("input", () => (confirm.disabled = word.value !== WORD));
  const progress = (/** @type {string} */ verb) => (/** @type {Sum} */ sum) =>
    put(shown, h("p", { class: "soft" }, `${verb} ${countText(sum.examined, "streams")} looked at…`));
  const count = async () => {
    try {
      const sum = await callThrough({ before }, { dryRun: true, signal }, progress("Counting:"));
      put(shown, outcome(sum, "would go"));
      put(confirm, `Prune ${countText(sum.segments, "segments")}`);
      asks.hidden = !sum.segments;
      confirm.disabled = !sum.segments || word.value !== WORD;
    } catch (error) {
      if (!signal.aborted) put(shown, problemBox(error, count));
    }
  };
  const carryOut = async () => {
    confirm.disabled = true;
    asks.hidden = true;
    try {
      const body = { before, ...(note.value ? { note: note.value } : {}) };
      const sum = await callThrough(body, { dryRun: false, signal }, progress("Pruning:"));
      put(shown, h("p", { class: "done" }, "Done. ", recordLinks(sum.records)), outcome(sum, "went"));
      confirm.remove();
      put(leave, "OK"); // there is nothing left to cancel
      leave.focus();
    } catch (error) {
      // A call that failed may have pruned some: a new count says what is left.
      if (!signal.aborted) put(shown, problemBox(error, count));
    }
    view.refresh();
  };
  void count();
  return h(
    "div",
    null,
    h(
      "p",
      null,
      "Of each stream, what is older than ",
      when(before),
      " becomes one checkpoint with the state it led to. ",
      h("strong", null, "There is no way back."),
    ),
    shown,
    asks,
    h("div", { class: "buttons" }, confirm, leave),
  );
}

/**
 * Call until all streams were looked at; return the sum of what was answered.
 * @param {object} body @param {{dryRun: boolean, signal: AbortSignal}} how @param {(sum: Sum) => void} progress
 */
async function callThrough(body, { dryRun, signal }, progress) {
  /** @type {Sum} */
  const sum = { examined: 0, streams: 0, segments: 0, kept: 0, unsound: 0, findings: [], records: [], least: false };
  let cursor = null;
  for (let call = 0; call < CALLS_MAX; call++) {
    progress(sum);
    const asked = { body: { ...body, ...(cursor ? { cursor } : {}) }, dryRun, signal, key: newKey() };
    const answer = await ask("POST", "/v1/prune", asked);
    const part = dryRun ? answer.body : answer;
    for (const name of /** @type {const} */ (["examined", "streams", "segments", "kept", "unsound"])) {
      sum[name] += part[name];
    }
    sum.findings.push(...part.findings);
    sum.least ||= dryRun && part.unfinished; // of a very long history a dry run counts the oldest part
    if (!dryRun && part.segment_id) sum.records.push(part.segment_id);
    cursor = part.next_cursor;
    if (!cursor) break;
  }
  return sum;
}

/** @param {Sum} sum @param {string} verb */
function outcome(sum, verb) {
  const columns = [
    { name: "Stream", cell: (/** @type {any} */ one) => `${one.kind} ${one.id}` },
    { name: "Version", kind: "number", cell: (/** @type {any} */ one) => figure(one.version) },
    { name: "What is wrong", cell: (/** @type {any} */ one) => one.what },
  ];
  return [
    h(
      "p",
      null,
      sum.segments
        ? [
          sum.least ? "At least " : "",
          h("strong", null, countText(sum.segments, "segments")),
          ` of ${countText(sum.streams, "streams")} ${verb}.`,
        ]
        : `Nothing ${verb}.`,
    ),
    facts([
      ["Streams looked at", figure(sum.examined)],
      ["Kept for repeats of their keys", sum.kept ? countText(sum.kept, "streams") : null],
      ["Left, for they do not verify", sum.unsound ? countText(sum.unsound, "findings") : null],
    ]),
    sum.findings.length ? table({ caption: "Findings", columns, rows: sum.findings.slice(0, 20) }) : null,
  ];
}

/** @param {string[]} records */
function recordLinks(records) {
  const rest = records.length - RECORDS_SHOWN;
  return [
    records.slice(0, RECORDS_SHOWN).map((one) => [h("a", { href: whyHref(one) }, `Recorded as ${one}`), " "]),
    rest > 0 ? h("a", { href: "/console/ledger?kind=operation&id=history" }, `and ${figure(rest)} more`) : null,
  ];
}
