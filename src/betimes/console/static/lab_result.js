/**
 * What came of a backtest: first how well the recorded policy was reproduced, then what each policy would have changed.
 */
import { heatMap, sparkline } from "./charts.js";
import { h } from "./dom.js";
import { folded } from "./forms.js";
import { sankey } from "./lab_sankey.js";
import { changedAnswers } from "./lab_flips.js";
import { answer, figure, percent, problemBox, streamHref, table, tile } from "./parts.js";
import { addressWith } from "./router.js";
import { timedText } from "./time.js";

const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/** Return the candidate that the query names, or the first. @param {any} detail @param {URLSearchParams} query */
export function candidateOf(detail, query) {
  const all = detail?.result?.candidates ?? [];
  return all.find((/** @type {any} */ one) => one.name === query.get("candidate")) ?? all[0] ?? null;
}

/** Return how many of the answers in a report a candidate changes, from 0 to 1. @param {any} candidate */
export function changedShare(candidate) {
  const answers = candidate.outcomes.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.before, 0);
  return answers ? candidate.flip_count / answers : 0;
}

/** @param {any} detail @param {import("./router.js").View} view */
export function resultView(detail, view) {
  if (detail.status === "failed") {
    return problemBox({ title: "The backtest failed", detail: `${detail.error?.code}: ${detail.error?.message}` });
  }
  if (!detail.result) return h("p", { class: "soft" }, "Its report went with the history that was pruned. Try again.");
  const { result, summary } = detail;
  const candidate = candidateOf(detail, view.query);
  const place = result.candidates.indexOf(candidate);
  const [flips, week, people] = [flipsOf(candidate), weekOf(candidate), peopleOf(candidate, detail)];
  return h(
    "div",
    { class: "lab-result" },
    h("p", { class: `control ${result.control.reproduced ? "good" : "bad"}`, role: "status" }, summary.control),
    h("p", { class: "soft" }, timedText(summary.window)),
    result.candidates.length > 1 ? sideBySide(result.candidates, candidate) : null,
    h(
      "h3",
      { class: "verdict-line" },
      summary.candidates[place].sentence,
      " ",
      h(
        "span",
        { class: "soft" },
        `${percent(candidate.flip_count, candidate.flip_count / (changedShare(candidate) || 1))} of the answers`,
      ),
    ),
    tilesOf(candidate, { answers: flips, week, people }),
    flips,
    week,
    people,
    changedAnswers(detail, candidate, view),
    notesOf(summary.candidates[place].notes),
    h(
      "p",
      null,
      h("a", {
        href: `/v1/backtests/${encodeURIComponent(detail.backtest_id)}/report`,
        target: "_blank",
        rel: "noopener",
      }, "The report as one page"),
      " to send around.",
    ),
  );
}

/** Small multiples of a sweep: one row a policy. @param {any[]} candidates @param {any} chosen */
function sideBySide(candidates, chosen) {
  const most = Math.max(1, ...candidates.map((one) => one.flip_count));
  const bar = (/** @type {any} */ one) =>
    h("span", { class: "bar-cell" }, h("span", { style: { "inline-size": `${(100 * one.flip_count) / most}%` } }));
  return table({
    caption: "Policies side by side",
    rowClass: (one) => (one === chosen ? "selected" : ""),
    columns: [
      {
        name: "Policy",
        cell: (one) =>
          h(
            "a",
            { href: addressWith({ candidate: one.name }), "aria-current": one === chosen ? "true" : null },
            one.name,
          ),
      },
      { name: "Answers changed", kind: "number", cell: (one) => figure(one.flip_count) },
      { name: "", cell: bar },
      { name: "Told, by hour of the day", cell: (one) => sparkline(one.hours_after, { width: 96, height: 24 }) },
      { name: "Runs", kind: "number", cell: (one) => change(one.cost.runs_allowed) },
      { name: "Told", kind: "number", cell: (one) => change(one.cost.told) },
      { name: "At night", kind: "number", cell: (one) => change(one.cost.told_at_night) },
    ],
    rows: candidates,
  });
}

/** @param {{before: number, after: number}} counted */
function change({ before, after }) {
  return [figure(after), " ", difference(before, after)];
}

/** Return a difference with its sign, coloured as more or less. @param {number} before @param {number} after */
export function difference(before, after) {
  const apart = Math.round((after - before) * 100) / 100;
  if (!apart) return h("span", { class: "soft" }, "=");
  return h("span", { class: apart > 0 ? "is-more" : "is-less" }, `${apart > 0 ? "+" : "−"}${figure(Math.abs(apart))}`);
}

/** Return what a candidate costs, each figure with the section that says more of it. @param {any} candidate @param {Record<string, Element | null>} sections by their names; `null` where there is nothing to say */
function tilesOf({ cost, nights_changed }, sections) {
  const href = (/** @type {string} */ section) => (sections[section] ? `#${section}` : undefined);
  const one = (
    /** @type {string} */ name,
    /** @type {{before: number, after: number}} */ told,
    /** @type {string} */ section,
  ) =>
    tile(name, [figure(told.after), " ", h("small", null, difference(told.before, told.after))], {
      below: `before: ${figure(told.before)}`,
      href: href(section),
    });
  return h(
    "div",
    { class: "tiles small-tiles" },
    one("Runs allowed", cost.runs_allowed, "answers"),
    one("Times people are told", cost.told, "week"),
    one("of these at night", cost.told_at_night, "week"),
    one("per person and day", {
      before: round(cost.told_per_person_day.before),
      after: round(cost.told_per_person_day.after),
    }, "week"),
    tile("People whose nights change", figure(nights_changed), { href: href("people") }),
  );
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 100) / 100;
}

/** @param {any} candidate */
function flipsOf(candidate) {
  if (!candidate.flips.length) return null;
  const href = (/** @type {any} */ one) =>
    addressWith({ domain: null, before: one.before, after: one.after, who: null });
  return h(
    "section",
    { "data-name": "answers", "aria-label": "Answers that change" },
    h("h3", null, "Answers that change"),
    sankey(candidate.flips),
    table({
      caption: "Answers before and after",
      columns: [
        { name: "Before", cell: (one) => answer(one.before) },
        { name: "After", cell: (one) => answer(one.after) },
        { name: "Domain", cell: (one) => one.domain },
        { name: "Answers", kind: "number", cell: (one) => h("a", { href: href(one) }, figure(one.count)) },
      ],
      rows: candidate.flips,
    }),
    outcomesOf(candidate.outcomes),
  );
}

/** @param {any[]} outcomes */
function outcomesOf(outcomes) {
  const moved = outcomes.filter((one) => one.before !== one.after);
  return folded(`Answers by reason: ${moved.length} differ, ${outcomes.length - moved.length} do not`, () =>
    table({
      caption: "Answers by outcome and reason",
      columns: [
        { name: "Answer", cell: (one) => answer(one.outcome) },
        { name: "Reason", cell: (one) => one.reason },
        { name: "Domain", cell: (one) => one.domain },
        { name: "Before", kind: "number", cell: (one) => figure(one.before) },
        { name: "After", kind: "number", cell: (one) => figure(one.after) },
        { name: "Change", kind: "number", cell: (one) => difference(one.before, one.after) },
      ],
      rows: moved,
    }));
}

/** When people are told something, by weekday and hour of their own day. @param {any} candidate */
function weekOf({ week_before: before, week_after: after }) {
  if (!before.length || ![...before, ...after].flat().some(Boolean)) return null;
  const apart = before.map((/** @type {number[]} */ row, /** @type {number} */ day) =>
    row.map((value, hour) => after[day][hour] - value)
  );
  const top = Math.max(1, ...before.flat(), ...after.flat());
  const map = (/** @type {string} */ name, /** @type {SVGElement} */ chart) =>
    h("figure", { class: "heat-figure" }, h("figcaption", null, name), chart);
  const hours = Array.from({ length: 24 }, (_, hour) => hour);
  const cell = (/** @type {number} */ day, /** @type {number} */ hour) =>
    before[day][hour] === after[day][hour]
      ? String(before[day][hour] || "·")
      : `${before[day][hour]}→${after[day][hour]}`;
  return h(
    "section",
    { "data-name": "week", "aria-label": "When people are told something" },
    h("h3", null, "When people are told something, in the hours of their own day"),
    h(
      "div",
      { class: "heats" },
      map("Before", heatMap(before, { top })),
      map("After", heatMap(after, { top })),
      map("Difference", heatMap(apart, { signed: true })),
    ),
    folded("The same as a table", () =>
      table({
        caption: "Times people are told something, by weekday and hour",
        columns: [
          { name: "Day", cell: (day) => DAYS[day] },
          ...hours.map((hour) => ({
            name: String(hour).padStart(2, "0"),
            kind: "number",
            cell: (/** @type {number} */ day) => cell(day, hour),
          })),
        ],
        rows: [0, 1, 2, 3, 4, 5, 6],
      })),
  );
}

/** @param {any} candidate @param {any} detail of the backtest */
function peopleOf(candidate, { backtest_id: id }) {
  const both = `backtest=${encodeURIComponent(id)}&candidate=${encodeURIComponent(candidate.name)}`;
  const dayOf = (/** @type {any} */ one) =>
    `${streamHref(one.kind, one.id)}${["inbox", "feed", "account"].includes(one.kind) ? `?${both}` : ""}`;
  if (!candidate.affected.length && !candidate.nights.length) return null;
  return h(
    "section",
    { class: "columns", "data-name": "people", "aria-label": "Whom it affects" },
    h(
      "div",
      null,
      h("h3", null, "Most affected"),
      table({
        caption: "People and accounts with most changed answers",
        columns: [
          { name: "Who", cell: (one) => h("a", { class: "id", href: dayOf(one) }, one.id) },
          { name: "Kind", cell: (one) => one.kind },
          {
            name: "Changed answers",
            kind: "number",
            cell: (one) => h("a", { href: addressWith({ who: one.id, before: null, after: null }) }, figure(one.flips)),
          },
        ],
        rows: candidate.affected.slice(0, 10),
      }),
    ),
    h(
      "div",
      null,
      h("h3", null, "Whose nights change"),
      table({
        caption: "Times told between midnight and six, by their own clock",
        columns: [
          {
            name: "Who",
            cell: (one) => h("a", { class: "id", href: dayOf({ kind: "inbox", id: one.user }) }, one.user),
          },
          { name: "Before", kind: "number", cell: (one) => figure(one.before) },
          { name: "After", kind: "number", cell: (one) => figure(one.after) },
          { name: "Change", kind: "number", cell: (one) => difference(one.before, one.after) },
        ],
        rows: candidate.nights.slice(0, 10),
        empty: h("p", { class: "soft" }, "Nobody's nights change."),
      }),
    ),
  );
}

/** @param {string[]} notes */
function notesOf(notes) {
  return notes.length
    ? h(
      "div",
      null,
      h("h3", null, "To know about these numbers"),
      h("ul", null, notes.map((one) => h("li", null, one))),
    )
    : null;
}
