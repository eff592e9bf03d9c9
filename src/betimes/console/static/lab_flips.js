/**
 * Changed answers one by one: both traces side by side, and the rule at which they part.
 */
import { get, part } from "./api.js";
import { h, put } from "./dom.js";
import { folded } from "./forms.js";
import { answer, figure, pagedList, problemBox, reasonChips, streamLink } from "./parts.js";
import { addressWith } from "./router.js";
import { timedText, when } from "./time.js";

const PAGE = 10;

/** @param {any} detail @param {any} candidate @param {import("./router.js").View} view */
export function changedAnswers(detail, candidate, view) {
  if (!candidate.samples.length) return null;
  const query = {
    candidate: candidate.name,
    before: view.query.get("before"),
    after: view.query.get("after"),
    id: view.query.get("who"),
  };
  const filters = [query.before && query.after ? `${query.before} → ${query.after}` : null, query.id].filter(Boolean);
  const load = (/** @type {string | null} */ cursor) =>
    get(`/v1/backtests/${part(detail.backtest_id)}/flips`, { ...query, limit: PAGE, cursor }, view.signal);
  const list = h("div", null, h("p", { class: "soft" }, "Loading…"));
  const fill = async () => {
    try {
      put(
        list,
        await pagedList(
          load,
          (items) =>
            items.length
              ? items.map(flipView)
              : h("p", { class: "soft" }, "The report keeps none of these; they are counted all the same."),
        ),
      );
    } catch (error) {
      if (!view.signal.aborted) put(list, problemBox(error, fill));
    }
  };
  const heading = h("h3", { tabindex: "-1" }, "Changed answers, one by one");
  // Whoever followed a number to them is led there.
  void fill().then(() => filters.length && heading.isConnected && heading.scrollIntoView({ block: "start" }));
  return h(
    "section",
    { "aria-label": "Changed answers" },
    heading,
    h(
      "p",
      { class: "soft" },
      `The report keeps ${figure(candidate.samples.length)} of ${figure(candidate.flip_count)}. `,
      filters.length
        ? [
          `Shown: ${filters.join(", ")}. `,
          h("a", { href: addressWith({ before: null, after: null, who: null }) }, "Show all"),
        ]
        : null,
    ),
    list,
  );
}

/** A changed answer; its traces are built when it is opened. @param {any} flip */
function flipView(flip) {
  const summary = [
    answer(flip.before.outcome),
    " → ",
    answer(flip.after.outcome),
    " ",
    h("span", { class: "id" }, flip.id),
    flip.parting_rule
      ? h("span", { class: "soft" }, ` because of the rule ${flip.parting_rule.replaceAll("_", " ")} `)
      : " ",
    when(flip.at, { relative: false, day: true }),
  ];
  return folded(summary, () => tracesOf(flip), { class: "flip" });
}

/** @param {any} flip */
function tracesOf(flip) {
  const rows = stepsOf(flip).map((row) => ruleRow(row, flip.parting_rule));
  const ends = h(
    "tr",
    { class: "ends" },
    h("th", { scope: "row" }, "the answer"),
    endOf(flip.before),
    endOf(flip.after),
  );
  const head = h("tr", null, ["Rule", "Before", "After"].map((name) => h("th", { scope: "col" }, name)));
  return [
    h(
      "p",
      { class: "soft" },
      flip.kind,
      " ",
      streamLink(flip.kind, flip.id),
      flip.key ? [" ", h("span", { class: "id" }, flip.key)] : null,
    ),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": `Both traces of ${flip.key || flip.id}` },
      h("table", { class: "traces" }, h("thead", null, head), h("tbody", null, rows, ends)),
    ),
  ];
}

/** Pair both traces: rules of one table come in one order, so the longer goes on where the shorter ended. @param {any} flip @returns {{rule: string, before: any, after: any}[]} */
function stepsOf({ before, after, says_before: saysBefore, says_after: saysAfter }) {
  const worded = (/** @type {any[]} */ trace, /** @type {string[]} */ says) =>
    trace.map((step, place) => ({ ...step, says: says[place] }));
  const [one, other] = [worded(before.trace, saysBefore), worded(after.trace, saysAfter)];
  const length = Math.max(one.length, other.length);
  return Array.from(
    { length },
    (_, place) => ({ rule: (one[place] ?? other[place]).rule, before: one[place], after: other[place] }),
  );
}

/** @param {{rule: string, before: any, after: any}} row @param {string | null} parting */
function ruleRow({ rule, before, after }, parting) {
  const here = rule === parting;
  return h(
    "tr",
    { class: here ? "parts" : before?.says === after?.says ? "same" : null },
    h(
      "th",
      { scope: "row" },
      rule.replaceAll("_", " "),
      here ? h("strong", { class: "here" }, " ← here they part") : null,
    ),
    [before, after].map((step) => h("td", { class: step ? null : "soft" }, step ? stepText(step) : "not looked at")),
  );
}

/** @param {any} step */
function stepText(step) {
  const values = Object.entries(step.values).filter(([, value]) => value != null).map(([name, value]) =>
    `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`
  );
  return [
    step.says
      ? h("span", { title: values.join(", ") }, timedText(`${step.says[0].toUpperCase()}${step.says.slice(1)}.`))
      : values.join(", ") || "–",
    step.matched ? h("strong", null, ` → ${step.reason ?? "held"}`) : null,
    step.mode === "shadow" ? " (shadow)" : null,
  ];
}

/** @param {any} side */
function endOf(side) {
  return h(
    "td",
    null,
    answer(side.outcome),
    " ",
    reasonChips(side.reasons),
    side.until ? [" until ", when(side.until, { relative: false, day: true })] : null,
  );
}
