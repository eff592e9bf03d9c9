/** Rows of verdicts as they happen: at most twenty a second, paused with Space. */
import { h, put } from "./dom.js";
import { button } from "./forms.js";
import { onPulse } from "./live.js";
import { emptyState, figure, section, tableFrame, tableRow, verdictColumns, whyHref } from "./parts.js";
import { curlOf } from "./samples.js";

const ROWS_MAX = 60;

/** @param {import("./router.js").View} view @param {any[]} first @param {Record<string, string | null>} filters @param {boolean} isPast whether a window of the past was chosen, to which nothing is added */
export function liveRows(view, first, filters, isPast) {
  let rows = first;
  let isPaused = false;
  const columns = verdictColumns();
  const list = h("tbody", { role: "rowgroup" });
  const missed = h("p", { class: "soft", role: "status" });
  const pause = button("Pause", () => toggle(), { class: "small", "aria-pressed": "false", "data-space": true });
  const toggle = () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    put(pause, isPaused ? "Go on" : "Pause");
  };
  const paint = () => put(list, rows.map((one) => tableRow(columns, one, "", whyHref(one.segment_id))));
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
  return section(
    isPast ? "In this window" : "As it happens",
    h("div", { class: "buttons" }, isPast ? null : pause, missed),
    empty ?? tableFrame("Verdicts, newest first", columns, list),
  );
}

/** @param {any} one @param {Record<string, string | null>} filters */
function matches(one, filters) {
  return (!filters.domain || one.domain === filters.domain) && (!filters.outcome || one.outcome === filters.outcome) &&
    (!filters.reason || one.reasons.includes(filters.reason));
}
