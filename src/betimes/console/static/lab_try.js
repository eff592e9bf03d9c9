/**
 * The pane *Try*: how long it would take, a sample first, the progress, and what came of it.
 */
import { ask, get, headersOf, newKey, part } from "./api.js";
import { h, put } from "./dom.js";
import { button, field, select } from "./forms.js";
import { choiceIn } from "./queries.js";
import { resultView } from "./lab_result.js";
import { countText, emptyState, problemBox } from "./parts.js";
import { curl } from "./samples.js";
import { isVirtual, now, recordedAt, spanText } from "./time.js";

/** @typedef {import("./lab_draft.js").Draft} Draft */
/** @typedef {{detail: any | null, listeners: Set<() => void>}} Trial the backtest that is shown */

const DAY_MS = 86_400_000;
const WINDOWS =
  /** @type {[string, string][]} */ ([["", "everything recorded"], ["1", "the last day"], ["7", "the last 7 days"], [
    "30",
    "the last 30 days",
  ]]);
const DOMAINS = /** @type {[string, string][]} */ ([
  ["", "all domains"],
  ...["notifications", "runs", "intents", "automation", "scores"].map((one) => [one, one]),
]);
const SAMPLES =
  /** @type {[string, object | null][]} */ ([["200 subjects", { subjects: 200 }], ["10 %", { share: 0.1 }], [
    "Everybody",
    null,
  ]]);
const KEPT_SAMPLES = 30;

/** Return the pane. @param {Draft} draft @param {Trial} trial @param {any[]} past the last backtests @param {import("./router.js").View} view */
export function tryPane(draft, trial, past, view) {
  const days = select(WINDOWS, choiceIn(view.query, "days", WINDOWS.map(([value]) => value)), () => void estimate());
  const domain = select(
    DOMAINS,
    choiceIn(view.query, "domain", DOMAINS.map(([value]) => value)),
    () => void estimate(),
  );
  const told = h("p", { class: "soft", role: "status" });
  const result = h("div", { class: "result" });
  const buttons = SAMPLES.map(([text, sample], place) => {
    const label = `Try on ${text.toLowerCase()}`;
    return button(place ? text : label, () => begin(sample), { class: place ? "" : "primary", "aria-label": label });
  });
  const bodyOf = (/** @type {object | null} */ sample) => ({
    policy: draft.overrides,
    sweep: draft.sweep,
    since: days.value ? new Date(now() - Number(days.value) * DAY_MS).toISOString() : null,
    domain: domain.value || null,
    samples: KEPT_SAMPLES,
    sample,
  });
  const estimate = async () => {
    const works = draft.check?.valid && (!draft.isSame || Object.keys(draft.sweep).length);
    for (const one of buttons) /** @type {HTMLButtonElement} */ (one).disabled = !works;
    if (!works) {
      return put(told, draft.check?.valid === false ? "" : "Change a setting first, or name values to sweep.");
    }
    try {
      const found = await ask("POST", "/v1/backtests/estimate", { body: bodyOf(null), signal: view.signal });
      put(
        told,
        `Everybody: about ${spanText(Math.max(1, found.seconds) * 1000)} for ${
          countText(found.commands, "commands")
        } of ${countText(found.segments, "segments")}${
          found.candidates > 1 ? `, ${found.candidates} policies` : ""
        }. A sample spares the deciding, not the reading.`,
      );
    } catch (error) {
      if (!view.signal.aborted) put(told, problemBox(error));
    }
  };
  let followed = ""; // another one that is still read says nothing any more
  const begin = async (/** @type {object | null} */ sample) => {
    followed = "";
    try {
      const asked = await ask("POST", "/v1/backtests", { body: bodyOf(sample), key: newKey() });
      history.pushState(null, "", `/console/lab/${part(asked.backtest_id)}${location.search}${location.hash}`);
      await follow(asked);
    } catch (error) {
      const holder = /** @type {any} */ (error)?.code === "BACKTEST_UNDER_WAY" ? await underWayNow() : null;
      put(result, problemBox(error), holder ? waysOn(holder, sample) : null);
    }
  };
  /** Offer what to do about the backtest that holds this one up. */
  const waysOn = (/** @type {any} */ holder, /** @type {object | null} */ sample) => {
    const replace = async () => (await ask("DELETE", `/v1/backtests/${part(holder.backtest_id)}`), await begin(sample));
    return h(
      "div",
      { class: "buttons" },
      h(
        "span",
        null,
        h("strong", null, holder.candidates.join(", ")),
        ` is ${holder.status}, since `,
        recordedAt(holder.created_at),
        ".",
      ),
      h("a", { class: "button", href: `/console/lab/${part(holder.backtest_id)}${location.hash}` }, "Open it"),
      button("Cancel it and try this", replace),
    );
  };
  const follow = async (/** @type {any} */ asked) => {
    const id = followed = asked.backtest_id;
    const tell = (/** @type {any} */ told) => followed === id && put(result, progressView(told, () => forget(id)));
    await readProgress(id, tell, view.signal);
    if (view.signal.aborted || followed !== id) return;
    trial.detail = await get(`/v1/backtests/${part(id)}`, {}, view.signal);
    show();
    trial.listeners.forEach((listener) => listener());
  };
  const forget = async (/** @type {string} */ id) => {
    followed = "";
    await ask("DELETE", `/v1/backtests/${part(id)}`);
    trial.detail = null;
    history.replaceState(null, "", `/console/lab${location.search}${location.hash}`);
    show();
  };
  const show = () => put(result, trial.detail ? resultView(trial.detail, view) : nothingYet(past));
  draft.listen(() => void estimate(), view.signal);
  show();
  const underWay = trial.detail && ["queued", "running"].includes(trial.detail.status) ? trial.detail : null;
  if (underWay) void follow(underWay).catch((error) => view.signal.aborted || put(result, problemBox(error)));
  return h(
    "div",
    null,
    h(
      "div",
      { class: "try-form" },
      field("On", days),
      field("Report", domain),
      h("div", { class: "field" }, h("span", { class: "label" }, "Sample"), h("div", { class: "buttons" }, buttons)),
    ),
    sweepRows(draft),
    told,
    result,
  );
}

/** Return the backtest that is queued or runs. */
async function underWayNow() {
  const { items } = await get("/v1/backtests", { limit: 20 });
  return items.find((/** @type {any} */ one) => ["queued", "running"].includes(one.status)) ?? null;
}

/** Settings with values to sweep. @param {Draft} draft */
function sweepRows(draft) {
  const rows = Object.entries(draft.kept.sweep);
  const path = /** @type {HTMLInputElement} */ (h("input", {
    type: "text",
    spellcheck: "false",
    placeholder: "notifications.fatigue.hour.cap",
    value: rows[0]?.[0] ?? "",
  }));
  const values = /** @type {HTMLInputElement} */ (h("input", {
    type: "text",
    spellcheck: "false",
    placeholder: "6,8,10",
    value: rows[0]?.[1] ?? "",
  }));
  const say = () =>
    draft.setSweep(
      path.value.trim()
        ? { ...Object.fromEntries(rows.slice(1)), [path.value.trim()]: values.value }
        : Object.fromEntries(rows.slice(1)),
    );
  path.addEventListener("change", say);
  values.addEventListener("change", say);
  return h(
    "details",
    { class: "sweep", open: rows.length > 0 },
    h("summary", null, "Sweep several values of a setting"),
    h(
      "div",
      { class: "try-form" },
      field("Setting", path),
      field("Values", values, "With commas between them; each is a policy of its own."),
    ),
    rows.length > 1
      ? h("p", { class: "soft" }, `And ${rows.slice(1).map(([name, text]) => `${name}: ${text}`).join("; ")}.`)
      : null,
  );
}

/** Read how far a backtest is until it has ended. @param {string} id @param {(told: any) => void} tell @param {AbortSignal} signal */
async function readProgress(id, tell, signal) {
  const headers = { ...headersOf("GET", {}), Accept: "text/event-stream" };
  const response = await fetch(`/v1/backtests/${part(id)}/stream`, { headers, signal, credentials: "same-origin" });
  if (!response.ok || !response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (buffer + value).split("\n\n");
    buffer = blocks.pop() ?? "";
    for (const block of blocks) {
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (data) tell(JSON.parse(data));
    }
  }
}

/** @param {any} told @param {() => void} stop */
function progressView(told, stop) {
  const percent = Math.round(told.progress * 100);
  return h(
    "div",
    { class: "under-way" },
    h(
      "p",
      { role: "status" },
      told.status === "queued" ? "Waiting for a worker." : `Rehearsing what is recorded: ${percent} %.`,
    ),
    h("progress", {
      max: "100",
      value: told.status === "queued" ? null : percent,
      "aria-label": "How far the backtest is",
    }),
    told.status === "queued" && isVirtual() ? standingClock() : null,
    button("Stop", stop, { class: "small" }),
  );
}

/** Workers wait with a virtual clock; whoever tries something may move it. */
function standingClock() {
  const move = () => ask("POST", "/v1/clock", { body: { advance_s: 1 } });
  return [
    h("p", { class: "soft" }, "The server's clock is virtual and stands still: workers work when it moves."),
    button("Advance the clock by 1 s", move, { class: "small" }),
  ];
}

/** @param {any[]} past */
function nothingYet(past) {
  return [
    emptyState(
      "Nothing tried yet",
      "What was recorded is decided again under the draft, beside the policy in force, and you see which answers change, for whom, and at which hours of their day. Nothing is written.",
      {
        curl: curl("POST", "/v1/backtests", {
          policy: { notifications: { fatigue: { hour: { cap: 1 } } } },
          sample: { subjects: 200 },
        }),
        terminal: "betimes backtest --help",
      },
    ),
    pastList(past),
  ];
}

/** @param {any[]} past */
export function pastList(past) {
  if (!past.length) return null;
  const items = past.map((one) =>
    h(
      "li",
      null,
      h("a", { href: `/console/lab/${part(one.backtest_id)}` }, one.candidates.join(", ")),
      ` ${one.status} `,
      recordedAt(one.created_at),
    )
  );
  return h("div", null, h("h3", null, "Tried before"), h("ul", { class: "plain-list" }, items));
}
