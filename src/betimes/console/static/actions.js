/**
 * Acting: look first, then leap.
 *
 * Every change is tried as a dry run, shown with what it would write, and confirmed; only then it is made, once, under a
 * key of its own and with a note if there is one, and the result is a link to its segment, and a button that takes it
 * back. Whoever may only read is asked to *Operate* first.
 */
import { ask, newKey, write } from "./api.js";
import { h, put } from "./dom.js";
import { button, field, openDialog } from "./forms.js";
import { facts, problemBox, table, whyHref } from "./parts.js";
import { askToOperate, mayAct, mustOperate } from "./session.js";
import { rawJson } from "./texts.js";
import { when } from "./time.js";

/** What the server takes of a note. */
const NOTE_CHARS = "500";

/** @typedef {import("./dom.js").Child} Child */
/**
 * @typedef {object} Action
 * @property {string} title what is done, as a verb with its object: *Pause brief-1*
 * @property {string} scope that it needs
 * @property {string} method
 * @property {string} path
 * @property {unknown} [body]
 * @property {number | string | null} [version] of what is changed
 * @property {Child} [before] what to know first
 * @property {string} [confirmWord] what must be typed to confirm
 * @property {(answer: any) => Child} [preview] how to show the answer of the dry run
 * @property {boolean} [noDryRun] for what has none: its preview is in `before`
 * @property {string} [key] the Idempotency-Key, where the body holds the same; else one is made
 * @property {boolean} [danger]
 * @property {string} [noteHint] what the note is for, where something else is asked besides
 * @property {(answer: any) => void} [done]
 * @property {(answer: any) => string} [confirmText] the words of the button once the dry run has counted
 * @property {(answer: any) => Child} [result] how to show the answer of the real thing
 * @property {(answer: any) => Action} [undo] what takes it back, where something does: at once, or where that is dangerous after it was confirmed
 */

/** Return a button that begins an action; nothing where acting is not offered. @param {string} text @param {() => Action | Promise<Action>} action @param {Record<string, unknown>} [props] */
export function actionButton(text, action, props) {
  if (!mayAct()) return null;
  return button(text, async () => act(await action()), props);
}

/** Return a form that leads to an action; one that cannot be made is said. @param {() => void} close @param {import("./dom.js").Child} fields @param {() => Action} action */
export function previewForm(close, fields, action) {
  const told = h("p", { role: "alert", class: "filter-problem" });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const wanted = action();
      close();
      void act(wanted);
    } catch (error) {
      put(told, /** @type {Error} */ (error).message);
    }
  };
  return h("form", { on: { submit } }, fields, told, h("button", { type: "submit", class: "primary" }, "Preview"));
}

/** Show what an action would do, and do it if it is confirmed. @param {Action} action */
export async function act(action) {
  if (mustOperate(action.scope) && !(await askToOperate())) return;
  openDialog(action.title, (close) => confirmation(action, close), { wide: true });
}

/** @param {Action} action @param {() => void} close */
function confirmation(action, close) {
  const key = action.key ?? newKey();
  const note = /** @type {HTMLInputElement} */ (h("input", { type: "text", maxlength: NOTE_CHARS }));
  const word = /** @type {HTMLInputElement} */ (h("input", { type: "text", autocomplete: "off" }));
  const shown = h("div", { role: "status" }, action.noDryRun ? null : h("p", { class: "soft" }, "Trying it…"));
  const confirm = /** @type {HTMLButtonElement} */ (button(action.title, () => carryOut(), {
    class: action.danger ? "danger" : "primary",
    disabled: !action.noDryRun,
  }));
  const leave = button("Cancel", close);
  const asks = h(
    "div",
    null,
    field("Note, for the ledger (optional)", note, action.noteHint ?? "Why you do it: it is kept with who did it."),
    action.confirmWord === undefined ? null : field(`Type ${action.confirmWord} to confirm`, word),
  );
  const heed =
    () => (confirm.disabled = !tried || (action.confirmWord !== undefined && word.value !== action.confirmWord));
  let tried = Boolean(action.noDryRun);
  word.addEventListener("input", heed);
  const asked = (/** @type {boolean} */ dryRun) => ({
    body: action.body,
    version: action.version,
    dryRun,
    key,
    note: note.value.trim(),
  });
  const carryOut = async () => {
    confirm.disabled = true;
    try {
      const { answer, segment } = await write(action.method, action.path, asked(false));
      const id = segment ?? answer?.segment_id;
      put(shown, done(id), action.result?.(answer), undoButton(action, answer, id, close));
      action.done?.(answer);
      confirm.remove();
      asks.remove();
      put(leave, "OK"); // there is nothing left to cancel
      leave.focus();
    } catch (error) {
      put(shown, problemBox(error));
      heed();
    }
  };
  const tryIt = async () => {
    try {
      const answer = await ask(action.method, action.path, asked(true));
      put(shown, action.preview ? action.preview(answer) : null, dryRunView(answer));
      if (action.confirmText) put(confirm, action.confirmText(answer));
      tried = true;
      heed();
    } catch (error) {
      put(shown, problemBox(error, tryIt));
    }
  };
  if (!action.noDryRun) void tryIt();
  heed();
  return h(
    "div",
    null,
    action.before ?? null,
    shown,
    asks,
    h("div", { class: "buttons" }, confirm, leave),
  );
}

/** Return a button that takes back what was done; what is dangerous to take back is confirmed like any other action. @param {Action} action @param {any} answer @param {string | null | undefined} segment that it has left @param {() => void} close */
function undoButton(action, answer, segment, close) {
  const undo = action.undo?.(answer);
  if (!undo) return null;
  const box = h("div", { role: "status" });
  const leap = () => (close(), act(undo));
  put(box, h("p", null, button(undo.danger ? "Undo…" : "Undo", undo.danger ? leap : takeBack, { class: "small" })));
  const asked = {
    body: undo.body,
    version: undo.version,
    key: undo.key ?? newKey(),
    note: `Undo of ${segment ?? action.title}`,
  };
  async function takeBack() {
    if (!undo || (mustOperate(undo.scope) && !(await askToOperate()))) return;
    box.querySelector("button")?.setAttribute("disabled", "");
    try {
      const taken = await write(undo.method, undo.path, asked);
      put(box, done(taken.segment ?? taken.answer?.segment_id, `Undone: ${undo.title}. `), undo.result?.(taken.answer));
      undo.done?.(taken.answer);
      box.querySelector("a")?.focus();
    } catch (error) {
      put(box, problemBox(error, takeBack));
    }
  }
  return box;
}

/** @param {string | null | undefined} id of the segment @param {string} [words] */
function done(id, words = "Done. ") {
  return h("p", { class: "done" }, words, id ? h("a", { href: whyHref(id) }, `Recorded as ${id}`) : null);
}

/** Show what a dry run would write: segments with their events, effects, and the next alarm. @param {any} answer */
export function dryRunView(answer) {
  const run = answer?.dry_run;
  if (!run) return null;
  const segments = run.segments ?? [];
  const rows = segments.flatMap((/** @type {any} */ one) =>
    (one.events ?? []).map((/** @type {any} */ event) => ({ one, event }))
  );
  const columns = [
    { name: "Stream", cell: (/** @type {any} */ row) => `${row.one.kind} ${row.one.id}` },
    { name: "Event", cell: (/** @type {any} */ row) => row.event.type },
  ];
  return h(
    "div",
    { class: "dry-run" },
    h(
      "p",
      null,
      h("strong", null, "A dry run: "),
      rows.length
        ? `${rows.length} event${rows.length === 1 ? "" : "s"} would be recorded.`
        : "nothing would be recorded.",
    ),
    rows.length ? table({ caption: "Events that would be recorded", columns, rows: rows.slice(0, 20) }) : null,
    facts([["At", run.at ? when(run.at, { relative: false }) : null], [
      "Effects",
      run.effects?.length ? String(run.effects.length) : null,
    ]]),
    // Its body is the answer, and not what somebody wrote.
    rawJson({ status: answer.status, answer: answer.body, dry_run: run }, "Everything it would answer and write"),
  );
}
