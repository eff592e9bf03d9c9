/** A day as tables: the same marks, bands and windows that are drawn. */
import { h, put } from "./dom.js";
import { LANES } from "./day_model.js";
import { fillWords, peakOf } from "./day_fills.js";
import { bandWords } from "./day_scale.js";
import { button } from "./forms.js";
import { answerClass } from "./marks.js";
import { answer, reasonChips, section, table } from "./parts.js";
import { addressWith } from "./router.js";
import { timedText, when, whenBoth } from "./time.js";

/** @typedef {import("./day_model.js").Mark} Mark */
const PAGE = 40;
const NAMES = /** @type {Record<string, string>} */ (Object.fromEntries(LANES));
export const CLASSES = /** @type {const} */ (["now", "later", "never", "waits"]);

/** Return the class that the table filters by. @param {Mark} mark */
export function classOf(mark) {
  return mark.kind === "waits" ? "waits" : mark.kind === "decided" ? answerClass(mark.outcome) : "other";
}

/** @param {Mark[]} marks @param {string} theirs @param {string | null} only */
export function marksSection(marks, theirs, only) {
  const wanted = only ? marks.filter((mark) => classOf(mark) === only) : marks;
  const box = h("div");
  let count = PAGE;
  const paint = () =>
    put(
      box,
      table({
        caption: "The day as a table",
        columns: [
          { name: "When", cell: (mark) => when(new Date(mark.at).toISOString(), { theirs, seconds: true }) },
          { name: "Lane", cell: (mark) => NAMES[mark.lane] ?? mark.lane },
          { name: "What", cell: (mark) => mark.what },
          { name: "Answer", cell: (mark) => mark.kind === "expected" ? "expected" : answer(mark.outcome) },
          { name: "Reasons", cell: (mark) => reasonChips(mark.reasons) },
          {
            name: "Until",
            cell: (mark) => mark.until ? promisedEnd(mark, theirs) : null,
          },
          {
            name: "Why",
            kind: "text",
            cell: (mark) => {
              const words = timedText(mark.why, theirs);
              return mark.href ? h("a", { href: mark.href, class: "quiet-link" }, mark.why ? words : "why") : words;
            },
          },
        ],
        rows: wanted.slice(0, count),
        isTerse: true,
        href: (mark) => mark.href ?? "",
        empty: h("p", { class: "soft" }, "Nothing."),
      }),
      wanted.length > count
        ? button(`Show ${Math.min(PAGE, wanted.length - count)} more`, more, { class: "more" })
        : null,
    );
  const more = () => {
    count += PAGE;
    paint();
  };
  paint();
  return section(
    "The same as a table",
    only ? h("p", null, h("a", { class: "chip", href: addressWith({ answer: null }) }, `answer:${only} ✕`)) : null,
    box,
  );
}

/** Return the instant that a mark was promised; one of another day than the mark's says its day. @param {Mark} mark @param {string} theirs */
function promisedEnd(mark, theirs) {
  const [at, until] = [mark.at, mark.until ?? mark.at].map((one) => new Date(one).toISOString());
  return whenBoth(at, until, { theirs })[1];
}

/** @param {import("./day_model.js").Day} day @param {string} theirs */
export function bandsDetails(day, theirs) {
  if (!day.bands.length && !day.fills.length) return null;
  return h(
    "details",
    null,
    h("summary", null, "Bands and windows as tables"),
    table({
      caption: "Bands",
      columns: [
        { name: "Band", cell: (band) => bandWords(band) },
        { name: "Of", cell: (band) => NAMES[band.domain] ?? band.domain },
        { name: "From", cell: (band) => whenBoth(band.since, band.until, { theirs })[0] },
        {
          name: "Until",
          cell: (band) => band.until ? whenBoth(band.since, band.until, { theirs })[1] : "further notice",
        },
      ],
      rows: day.bands.slice(0, PAGE),
    }),
    table({
      caption: "Windows and their caps",
      columns: [
        { name: "Window", cell: (fill) => fillWords(fill) },
        { name: "At most", cell: (fill) => peakOf(fill), kind: "number measure" },
        { name: "Cap", cell: (fill) => fill.cap, kind: "number measure" },
      ],
      rows: day.fills.slice(0, PAGE),
    }),
  );
}
