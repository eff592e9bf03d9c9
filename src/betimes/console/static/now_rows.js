/** Rows of verdicts as they happen: at most twenty a second, paused with Space. */
import { h, put } from "./dom.js";
import { button } from "./forms.js";
import { onPulse } from "./live.js";
import { answer, emptyState, figure, reasonChips, section, streamLink, whyHref } from "./parts.js";
import { curlOf } from "./samples.js";
import { when } from "./time.js";

const ROWS_MAX = 60;

/** @param {import("./router.js").View} view @param {any[]} first @param {Record<string, string | null>} filters @param {boolean} isPast whether a window of the past was chosen, to which nothing is added */
export function liveRows(view, first, filters, isPast) {
  let rows = first;
  let isPaused = false;
  const list = h("tbody");
  const missed = h("p", { class: "soft", role: "status" });
  const pause = button("Pause", () => toggle(), { class: "small", "aria-pressed": "false", "data-space": true });
  const toggle = () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    put(pause, isPaused ? "Go on" : "Pause");
  };
  const paint = () => put(list, rows.map(rowOf));
  paint();
  if (!isPast) {
    let said = 0;
    onPulse((frame) => {
      if (isPaused || !frame.total) return;
      const fitting = frame.sample.filter((one) => matches(one, filters));
      if (fitting.length && !list.contains(document.activeElement)) {
        rows = [...fitting.reverse(), ...rows].slice(0, ROWS_MAX);
        paint();
      }
      // A reader is told every few seconds, not with every frame.
      if (performance.now() - said > 5000) {
        said = performance.now();
        put(
          missed,
          frame.total > frame.sample.length
            ? `${figure(frame.total - frame.sample.length)} of ${figure(frame.total)} not shown`
            : "",
        );
      }
    }, view.signal);
  }
  const empty = rows.length ? null : emptyState(
    "Nothing was decided here yet",
    "Every answer appears here within a second. For example, ask whether somebody may be told something:",
    { curl: curlOf("notification"), href: "/console/try", link: "Or try it in the playground" },
  );
  const head = h("tr", null, ["When", "Answer", "Of", "Reasons", "Why"].map((name) => h("th", { scope: "col" }, name)));
  const grid = h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": "Verdicts, newest first" },
    h("table", null, h("caption", { class: "hidden" }, "Verdicts, newest first"), h("thead", null, head), list),
  );
  return section(
    isPast ? "In this window" : "As it happens",
    h("div", { class: "buttons" }, isPast ? null : pause, missed),
    empty ?? grid,
  );
}

/** @param {any} one @param {Record<string, string | null>} filters */
function matches(one, filters) {
  return (!filters.domain || one.domain === filters.domain) && (!filters.outcome || one.outcome === filters.outcome) &&
    (!filters.reason || one.reasons.includes(filters.reason));
}

/** @param {any} one */
function rowOf(one) {
  const href = whyHref(one.segment_id);
  return h(
    "tr",
    { class: "row", "data-href": href },
    h("th", { scope: "row" }, when(one.at, { seconds: true })),
    h("td", null, h("a", { href, class: "plain" }, answer(one.outcome))),
    h("td", null, h("span", { class: "soft" }, `${one.kind} `), streamLink(one.kind, one.id)),
    h("td", null, reasonChips(one.reasons)),
    h("td", null, h("a", { href, class: "quiet-link" }, one.explanation || "why")),
  );
}
