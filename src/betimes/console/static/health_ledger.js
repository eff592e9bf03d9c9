/** The ledger's health: how it grows, how far back it goes, and whether a stream is what its history says. */
import { get, part } from "./api.js";
import { densityStrip } from "./charts.js";
import { h, put } from "./dom.js";
import { field, select } from "./forms.js";
import { pruneForm } from "./health_prune.js";
import { answer, countText, facts, figure, problemBox, section, table, whyHref } from "./parts.js";
import { may } from "./session.js";
import { dateText, now, when } from "./time.js";

/** @typedef {import("./router.js").View} View */

const DAYS = 30;
const DAY_MS = 86_400_000;
/** Kinds of streams that people look for; the others are parts of these. */
const KINDS = ["inbox", "account", "run", "intent", "schedule", "sensor", "score"];

/** Load what the section shows: decisions a day, and the oldest segment that is kept. @param {AbortSignal} signal */
export async function loadGrowth(signal) {
  const until = Math.ceil((now() + 1) / DAY_MS) * DAY_MS;
  const since = new Date(until - DAYS * DAY_MS).toISOString();
  const [stats, oldest] = await Promise.all([
    get("/v1/stats", { by: "domain", step: "1d", since, until: new Date(until).toISOString() }, signal),
    get("/v1/ledger", { order: "asc", limit: 1 }, signal),
  ]);
  return { stats, oldest: oldest.items[0] ?? null };
}

/** @param {View} view @param {any} growth */
export function ledgerSection(view, { stats, oldest }) {
  const days = Array.from({ length: DAYS }, (_, place) => ({ at: Date.parse(stats.since) + place * DAY_MS, count: 0 }));
  for (const cell of stats.cells) {
    const day = days[Math.round((Date.parse(cell.at) - Date.parse(stats.since)) / DAY_MS)];
    if (day) day.count += cell.count;
  }
  const used = days.filter((one) => one.count);
  const columns = [
    { name: "Day, UTC", cell: (/** @type {any} */ one) => dateText(one.at, "UTC") },
    { name: "Decided", kind: "number", cell: (/** @type {any} */ one) => figure(one.count) },
  ];
  return section(
    "Ledger",
    facts([
      ["Decided in 30 days", figure(stats.total)],
      ["A day, on average", used.length ? figure(Math.round(stats.total / used.length)) : "0"],
      ["Goes back to", oldest ? h("a", { href: whyHref(oldest.segment_id) }, when(oldest.at)) : "nothing is recorded"],
    ]),
    h("div", { class: "growth" }, densityStrip(days.map((one) => one.count))),
    h("div", { class: "axis" }, [0, DAYS / 2, DAYS - 1].map((one) => h("span", null, dateText(days[one].at, "UTC")))),
    h(
      "details",
      null,
      h("summary", null, "The same as a table"),
      table({ caption: "Decided a day, newest first", columns, rows: [...used].reverse() }),
    ),
    pruneForm(view, oldest),
    may("admin") ? verifyForm(view) : null,
  );
}

/** Ask for a stream, replay it, and say whether it is what its history gives. @param {View} view */
function verifyForm(view) {
  const [kind, id] = [view.query.get("kind") ?? "schedule", view.query.get("id") ?? ""];
  const kinds = select(KINDS.map((one) => [one, one]), kind);
  const name = /** @type {HTMLInputElement} */ (h("input", { type: "text", required: true, value: id }));
  const told = h("div", { role: "status" });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    put(told, h("p", { class: "soft" }, "Replaying…"));
    try {
      const path = `/v1/streams/${part(kinds.value)}/${part(name.value.trim())}/verification`;
      put(told, verification(await get(path, {}, view.signal)));
    } catch (error) {
      put(told, problemBox(error));
    }
  };
  return h(
    "form",
    { class: "inline-form", on: { submit }, "aria-label": "Verify a stream" },
    h("h3", null, "Verify a stream"),
    h(
      "div",
      { class: "inline-fields" },
      field("Kind", kinds),
      field("Id", name),
      h("button", { type: "submit" }, "Verify this stream"),
    ),
    told,
  );
}

/** @param {any} found */
function verification(found) {
  const columns = [
    { name: "Version", kind: "number", cell: (/** @type {any} */ one) => figure(one.version) },
    { name: "What is wrong", cell: (/** @type {any} */ one) => one.what },
  ];
  return [
    h(
      "p",
      null,
      answer(found.sound ? "ok" : "failed"),
      found.sound
        ? ` ${countText(found.segments, "segments")} replayed: the stream is what its history gives, byte for byte.`
        : ` ${countText(found.segments, "segments")} replayed.`,
    ),
    found.sound ? null : table({ caption: "Findings", columns, rows: found.findings }),
    facts([["Version", figure(found.version)], ["Digest", h("code", { class: "clip" }, found.digest)]]),
  ];
}
