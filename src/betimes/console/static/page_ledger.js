/** The ledger: segments as they were committed, with filters. */
import { get } from "./api.js";
import { askedBy } from "./asked_by.js";
import { h, put } from "./dom.js";
import { filterBar, wantedFilters } from "./filters.js";
import { keepFresh } from "./list_page.js";
import {
  answer,
  emptyState,
  pagedList,
  pageHead,
  problemBox,
  section,
  shortId,
  streamLink,
  table,
  whyHref,
} from "./parts.js";
import { curlOf, pythonOf } from "./samples.js";
import { rawJson } from "./texts.js";
import { recordedAt } from "./time.js";

const FILTERS = [
  { name: "kind", label: "Kind" },
  { name: "id", label: "Id" },
  { name: "command_type", label: "Command" },
  { name: "event_type", label: "Event" },
  { name: "key", label: "Key" },
  { name: "correlation_id", label: "Correlation" },
  { name: "since", label: "Since", isInstant: true },
  { name: "until", label: "Until", isInstant: true },
];

/** @param {import("./router.js").View} view */
export async function show(view) {
  view.title("Ledger");
  const chosen = { order: "desc", ...wantedFilters(view, FILTERS) };
  const load = (/** @type {string | null} */ cursor) =>
    get("/v1/ledger", { ...chosen, limit: 50, cursor }, view.signal);
  const list = await pagedList(load, segments).catch((error) => {
    if (view.signal.aborted) throw error;
    return problemBox(error, view.refresh); // below the filters, one of which may be wrong
  });
  keepFresh(view);
  put(
    view.main,
    pageHead(
      "Ledger",
      "Everything that was decided or done, in the order of its commit. Nothing is ever changed here.",
    ),
    section("Segments", filterBar(view, FILTERS, ["order"]), list),
  );
}

/** @param {any[]} rows */
function segments(rows) {
  const columns = [
    { name: "When", cell: (/** @type {any} */ one) => recordedAt(one.at, { seconds: true }) },
    {
      name: "Segment",
      cell: (/** @type {any} */ one) =>
        h("a", { class: "id", href: whyHref(one.segment_id), title: one.segment_id }, shortId(one.segment_id)),
    },
    {
      name: "Stream",
      kind: "of",
      cell: (
        /** @type {any} */ one,
      ) => [
        h("span", { class: "soft" }, `${one.kind} `),
        streamLink(one.kind, one.id, one.kind === "run" ? shortId(one.id) : one.id),
      ],
    },
    { name: "Command", cell: (/** @type {any} */ one) => one.command?.type ?? "–" },
    {
      name: "Events",
      cell: (/** @type {any} */ one) =>
        (one.events ?? []).map((/** @type {any} */ event) => event.type).join(", ") || "–",
    },
    { name: "Answer", cell: (/** @type {any} */ one) => (one.verdict ? answer(one.verdict.outcome) : null) },
    { name: "By", cell: (/** @type {any} */ one) => askedBy(one) },
    { name: "", kind: "raw", cell: (/** @type {any} */ one) => rawJson(one, "JSON") },
  ];
  const empty = emptyState(
    "No segment fits",
    "Whatever is asked of betimes leaves a segment here, with its events and its verdict.",
    { curl: curlOf("trigger"), python: pythonOf("trigger"), href: "/console/try?command=trigger" },
  );
  return table({ caption: "Segments", columns, rows, empty, href: (one) => whyHref(one.segment_id) });
}
