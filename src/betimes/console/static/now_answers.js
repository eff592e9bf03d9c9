/** Answers over time: a stacked strip of which a part can be chosen, and the same as a table. */
import { CLASSES, stackedStrip, total } from "./charts.js";
import { h } from "./dom.js";
import { firstStep, instant, outcomesOf, sum } from "./now_counts.js";
import { countLink, mark, section, table } from "./parts.js";
import { addressWith } from "./router.js";
import { axisText, dayText, partsOf, spanText, zoneFor } from "./time.js";

/** @typedef {import("./router.js").View} View */
export const WORDS = { now: "now", later: "later", never: "never", other: "other" };
export const OUTCOMES = { now: "NOW", later: "LATER", never: "NEVER", other: "…" };

/** @param {View} view @param {import("./now_counts.js").Window} seen @param {import("./now_counts.js").Bucket[]} buckets @param {any} strip */
export function answersSection(view, seen, buckets, strip) {
  const zone = zoneFor(null);
  const inWindow = buckets.filter((one) => one.at >= firstStep(seen) && one.at < seen.to);
  const totals = Object.fromEntries(CLASSES.map((name) => [name, sum(inWindow.map((one) => one.counts[name]))]));
  const chart = stackedStrip(buckets, {
    from: seen.isBrushed ? firstStep(seen) : undefined,
    to: seen.isBrushed ? seen.to : undefined,
  });
  brush(chart, seen, (from, to) => view.setQuery({ from: instant(from), to: instant(to) }));
  const instants = [0, 0.25, 0.5, 0.75, 1].map((share) => seen.since + share * (seen.until - seen.since));
  const offsets = instants.map((at) => partsOf(at, zone).offset);
  const marks = instants.map((at, place) =>
    h(
      "span",
      null,
      seen.range.hours > 24 ? dayText(at, zone) : axisText(at, instants[place - 1], zone),
      offsets[place] === offsets[place - 1] ? null : h("span", { class: "offset" }, ` ${offsets[place]}`),
    )
  );
  const outcomes = outcomesOf(strip, seen);
  const narrow = (/** @type {any} */ one, /** @type {Record<string, string>} */ more = {}) =>
    addressWith({ from: instant(one.at), to: instant(one.at + seen.range.stepMs), ...more });
  const fullest = buckets.reduce((most, one) => total(one.counts) > total(most.counts) ? one : most);
  const columns = [
    { name: "From", cell: (/** @type {any} */ one) => h("a", { href: narrow(one) }, one.label) },
    ...CLASSES.map((name) => ({
      name: WORDS[name],
      cell: (/** @type {any} */ one) => countLink(one.counts[name], narrow(one, { outcome: outcomes[name] })),
      kind: "number",
    })),
  ];
  const legend = h(
    "div",
    { class: "legend" },
    CLASSES.map((name) =>
      h(
        "span",
        null,
        mark(OUTCOMES[name]),
        ` ${WORDS[name]} `,
        countLink(totals[name], addressWith({ outcome: outcomes[name] })),
      )
    ),
    h(
      "span",
      { class: "most" },
      "at most ",
      countLink(total(fullest.counts), narrow(fullest)),
      ` in ${spanText(seen.range.stepMs)}`,
    ),
    strip.complete ? null : h("span", null, "still counting"),
  );
  return section(
    "Answers",
    legend,
    h("div", { class: "brush" }, chart),
    h("div", { class: "axis" }, marks),
    h(
      "details",
      null,
      h("summary", null, "The same as a table"),
      table({ caption: "Answers over time", columns, rows: buckets.filter((one) => sum(Object.values(one.counts))) }),
    ),
  );
}

/** Let a part of the strip be chosen by dragging. @param {SVGElement} chart @param {import("./now_counts.js").Window} seen @param {(from: number, to: number) => void} chosen */
function brush(chart, seen, chosen) {
  /** @type {number | null} */
  let began = null;
  const at = (/** @type {PointerEvent} */ event) => {
    const box = chart.getBoundingClientRect();
    const share = Math.min(0.9999, Math.max(0, (event.clientX - box.left) / box.width));
    return seen.since + Math.floor((share * (seen.until - seen.since)) / seen.range.stepMs) * seen.range.stepMs;
  };
  chart.addEventListener("pointerdown", (event) => {
    began = at(event);
    chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener("pointerup", (event) => {
    if (began === null) return;
    const ended = at(event);
    chosen(Math.min(began, ended), Math.max(began, ended) + seen.range.stepMs);
    began = null;
  });
}
