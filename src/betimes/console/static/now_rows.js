/** Rows of verdicts as they happen: at most twenty a second, paused with Space, walked with the arrow keys. */
import { h, put } from "./dom.js";
import { button } from "./forms.js";
import { walkRows } from "./keys.js";
import { onPulse } from "./live.js";
import { emptyState, figure, sayOffsets, section, tableFrame, tableRow, verdictColumns, whyHref } from "./parts.js";
import { curlOf, pythonOf } from "./samples.js";

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
  const body = h("div");
  const frame = tableFrame("Verdicts, newest first", columns, list, { isTerse: true });
  frame.addEventListener("keydown", walkRows);
  const paint = () => {
    put(list, rows.map((one) => tableRow(columns, one, "", whyHref(one.segment_id))));
    sayOffsets(frame);
    if (!frame.isConnected || !rows.length) put(body, rows.length ? frame : nothingYet());
  };
  paint();
  if (!isPast) {
    let said = 0;
    let isOwed = false;
    onPulse((pulse) => {
      if (isPaused || (!pulse.total && !isOwed)) return;
      const fitting = pulse.sample.filter((one) => matches(one, filters));
      rows = [...fitting.reverse(), ...rows].slice(0, ROWS_MAX);
      // Whoever walks through the rows keeps them; what came meanwhile is there once they have gone on.
      isOwed ||= fitting.length > 0;
      if (isOwed && !list.contains(document.activeElement)) {
        isOwed = false;
        paint();
      }
      // A reader is told every few seconds, not with every pulse.
      if (performance.now() - said > 5000) {
        said = performance.now();
        put(
          missed,
          pulse.total > pulse.sample.length
            ? `${figure(pulse.total - pulse.sample.length)} of ${figure(pulse.total)} not shown`
            : "",
        );
      }
    }, view.signal);
  }
  return section(
    isPast ? "In this window" : "As it happens",
    h("div", { class: "buttons" }, isPast ? null : pause, missed),
    body,
  );
}

function nothingYet() {
  return emptyState(
    "Nothing was decided here yet",
    "Every answer appears here within a second. For example, ask whether somebody may be told something:",
    {
      curl: curlOf("notification"),
      python: pythonOf("notification"),
      href: "/console/try",
      link: "Or try it in the playground",
    },
  );
}

/** @param {any} one @param {Record<string, string | null>} filters */
function matches(one, filters) {
  return (!filters.domain || one.domain === filters.domain) &&
    (!filters.outcome || filters.outcome.split(",").includes(one.outcome)) &&
    (!filters.reason || one.reasons.includes(filters.reason));
}
