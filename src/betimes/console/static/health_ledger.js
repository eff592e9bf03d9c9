/** The ledger's health: how it grows, how far back it goes, and whether a stream is what its history says. */
import { get, part } from "./api.js";
import { densityStrip } from "./charts.js";
import { h, put } from "./dom.js";
import { field, folded, select } from "./forms.js";
import { pruneForm } from "./health_prune.js";
import { answer, countText, facts, figure, mark, problemBox, section, table, whyHref } from "./parts.js";
import { may } from "./session.js";
import { choiceIn } from "./queries.js";
import { dayText, now, recordedAt } from "./time.js";

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

/** @param {View} view @param {any} growth @param {any[]} verified the last one first */
export function ledgerSection(view, { stats, oldest }, verified) {
  const days = Array.from({ length: DAYS }, (_, place) => ({ at: Date.parse(stats.since) + place * DAY_MS, count: 0 }));
  for (const cell of stats.cells) {
    const day = days[Math.round((Date.parse(cell.at) - Date.parse(stats.since)) / DAY_MS)];
    if (day) day.count += cell.count;
  }
  const used = days.filter((one) => one.count);
  const columns = [
    { name: "Day, UTC", cell: (/** @type {any} */ one) => dayText(one.at, "UTC") },
    {
      name: "Decided",
      kind: "number",
      cell: (/** @type {any} */ one) => h("a", { href: dayHref(one.at, one.at + DAY_MS) }, figure(one.count)),
    },
  ];
  const whole = dayHref(Date.parse(stats.since), Date.parse(stats.until));
  const labelOf = (/** @type {number} */ place) => dayText(days[place].at, "UTC");
  return section(
    "Ledger",
    facts([
      ["Decided in 30 days", h("a", { href: whole }, figure(stats.total))],
      ["A day, on average", h("a", { href: whole }, used.length ? figure(Math.round(stats.total / used.length)) : "0")],
      [
        "Goes back to",
        oldest ? h("a", { href: whyHref(oldest.segment_id) }, recordedAt(oldest.at)) : "nothing is recorded",
      ],
      [
        "Last verified",
        verified.length
          ? verifiedWords(verified.find((one) => !one.sound) ?? verified[0])
          : "never, according to the ledger",
      ],
      ["Pruned", h("a", { href: "/console/ledger?kind=operation&id=history" }, "what was pruned, by whom")],
    ]),
    h("div", { class: "growth" }, densityStrip(days.map((one) => one.count), { labelOf })),
    h("div", { class: "axis" }, [0, DAYS / 2, DAYS - 1].map((one) => h("span", null, dayText(days[one].at, "UTC")))),
    folded(
      "The same as a table",
      () => table({ caption: "Decided a day, newest first", columns, rows: [...used].reverse() }),
    ),
    pruneForm(view, oldest),
    may("admin") ? verifyForm(view) : null,
  );
}

/** Return where Now counts what was decided on whole days. @param {number} from @param {number} to */
function dayHref(from, to) {
  const [since, until] = [from, to].map((at) => new Date(at).toISOString());
  return `/console?${new URLSearchParams({ range: "30d", from: since, to: until })}`;
}

/** Say when the ledger was last verified, of what, by whom, and with what result. @param {any} last */
function verifiedWords(last) {
  const what = `${last.everything ? "all tenants" : "this tenant"}${last.kind ? `, kind ${last.kind}` : ""}`;
  const size = last.segments === null ? "" : `, ${countText(last.segments, "segments")}`;
  const result = last.sound ? "sound" : countText(last.findings, "findings");
  return [
    recordedAt(last.at),
    ` by ${last.by || "somebody"}: ${what}${size}: `,
    mark(last.sound ? "ok" : "failed"),
    " ",
    last.segment_id ? h("a", { href: whyHref(last.segment_id) }, result) : result,
  ];
}

/** Ask for a stream, replay it, and say whether it is what its history gives. @param {View} view */
function verifyForm(view) {
  const [kind, id] = [choiceIn(view.query, "kind", KINDS, "schedule"), view.query.get("id") ?? ""];
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
