/** Effects: what had to happen outside, what is stuck, and once more or away with it. */
import { get, part } from "./api.js";
import { actionButton } from "./actions.js";
import { h, put } from "./dom.js";
import { onChosen, onMatching } from "./effect_actions.js";
import { firstOne, listSection } from "./list_page.js";
import { answer, countLink, countText, figure, pageHead, section, streamLink, table, tile, whyHref } from "./parts.js";
import { SAMPLES } from "./samples.js";
import { addressWith } from "./router.js";
import { recordedAt, when } from "./time.js";

/** @typedef {import("./router.js").View} View */

const KINDS = ["delivery", "webhook", "handler", "run_handler", "command"];
const FILTERS = [
  { name: "status", label: "Status", options: ["pending", "dead", "failed", "done"] },
  { name: "effect_kind", label: "Kind", text: "kind", options: KINDS },
  { name: "channel", label: "Channel" },
  { name: "executor", label: "Executor" },
  { name: "error", label: "Error" },
  { name: "domain", label: "Domain" },
  { name: "user_id", label: "Person", text: "user" },
];
/** Filters that a retry or a discard understands too. */
const OF_DEAD = ["effect_kind", "domain", "channel", "executor", "error"];

/** @param {string} id */
function hrefOf(id) {
  return `/console/effects/${part(id)}`;
}

/** @param {View} view */
export async function show(view) {
  view.title("Effects");
  const dead = pick(Object.fromEntries(view.query), OF_DEAD);
  const [backlog, groups, processes, list] = await Promise.all([
    get("/v1/backlog", {}, view.signal),
    get("/v1/effects/groups", dead, view.signal).catch(() => ({ groups: [], counted: 0, complete: true })),
    get("/v1/processes", {}, view.signal).catch(() => ({ items: [] })),
    listSection(view, effectList(view), "Effects"),
  ]);
  put(
    view.main,
    pageHead(
      "Effects",
      "What had to happen outside: deliveries, webhooks, handlers. What ended is forgotten after a while.",
    ),
    tiles(backlog),
    orphanSection(backlog.orphaned, processes.items),
    groups.counted ? groupSection(view, groups) : null,
    list,
  );
}

/** @param {any} backlog */
function tiles(backlog) {
  const more = backlog.capped ? " or more" : "";
  const orphans = Object.keys(backlog.orphaned).length;
  return h(
    "div",
    { class: "tiles" },
    tile("Pending", figure(backlog.effects_pending) + more, { href: addressWith({ status: "pending" }) }),
    tile("Dead letters", figure(backlog.effects_dead) + more, {
      href: addressWith({ status: "dead" }),
      tone: backlog.effects_dead ? "bad" : "",
    }),
    tile("Executors without a process", figure(orphans), {
      href: orphans ? "#nobody-carries-these-out" : undefined,
      tone: orphans ? "bad" : "",
    }),
  );
}

/** Say which executors no process has, and who had them last. @param {Record<string, number>} orphaned @param {any[]} processes */
function orphanSection(orphaned, processes) {
  const names = Object.keys(orphaned).sort();
  if (!names.length) return null;
  const lastOf = (/** @type {string} */ name) =>
    processes.filter((one) => one.executors.includes(name)).sort((a, b) => b.seen_at.localeCompare(a.seen_at))[0];
  const rows = names.map((name) => {
    const last = lastOf(name);
    const had = last ? ["; ", h("code", null, last.name), " had it, last seen ", recordedAt(last.seen_at)] : "";
    return h(
      "li",
      null,
      "No process has ",
      h("code", null, name),
      ": ",
      h(
        "a",
        { href: addressWith({ status: "pending", executor: name }) },
        `${countText(orphaned[name], "calls")} ${orphaned[name] === 1 ? "waits" : "wait"}`,
      ),
      had,
      ".",
    );
  });
  return section(
    "Nobody carries these out",
    h("ul", { class: "plain-list" }, rows),
    h(
      "p",
      { class: "soft" },
      "Start a process that has the handler or the channel; what waits is then taken, oldest first.",
    ),
  );
}

/** @param {View} view @param {any} groups */
function groupSection(view, groups) {
  const columns = [
    { name: "Executor", cell: (/** @type {any} */ one) => h("code", null, one.executor) },
    {
      name: "Error",
      kind: "text",
      cell: (/** @type {any} */ one) => h("span", { class: "error-text" }, one.error || "none told"),
    },
    {
      name: "Count",
      kind: "number",
      cell: (/** @type {any} */ one) =>
        h("a", { href: addressWith({ status: "dead", ...filterOf(one) }) }, figure(one.count)),
    },
    {
      name: "Oldest",
      cell: (/** @type {any} */ one) => h("a", { href: hrefOf(one.effect_id) }, recordedAt(one.oldest_at)),
    },
    { name: "Newest", cell: (/** @type {any} */ one) => recordedAt(one.newest_at) },
    {
      name: "Act",
      cell: (/** @type {any} */ one) => {
        const of = `${one.executor}, ${one.error || "no error"}`;
        return h(
          "span",
          { class: "buttons" },
          actionButton("Retry", () => onMatching(view, "retry", filterOf(one), one.count), {
            class: "small",
            "aria-label": `Retry ${one.count} of ${of}`,
          }),
          actionButton("Discard", () => onMatching(view, "discard", filterOf(one), one.count), {
            class: "small quiet",
            "aria-label": `Discard ${one.count} of ${of}`,
          }),
        );
      },
    },
  ];
  const count = h("a", { href: addressWith({ status: "dead" }) }, figure(groups.counted));
  return section(
    ["Dead letters: ", count, groups.complete ? "" : " or more", ", by executor and error"],
    table({ caption: "Dead letters by executor and error", columns, rows: groups.groups }),
  );
}

/** @param {any} group @returns {Record<string, string>} */
function filterOf(group) {
  const found = { executor: group.executor, effect_kind: group.effect_kind };
  return group.error ? { ...found, error: group.error.slice(0, 200) } : found;
}

/** @param {Record<string, string>} chosen @param {string[]} names */
function pick(chosen, names) {
  return Object.fromEntries(Object.entries(chosen).filter(([name]) => names.includes(name)));
}

/** @param {View} view @returns {import("./list_page.js").List} */
function effectList(view) {
  return {
    path: "/v1/effects",
    noun: "effects",
    caption: "Effects, newest first",
    filters: FILTERS,
    idOf: (row) => row.effect_id,
    hrefOf: (row) => hrefOf(row.effect_id),
    idName: "Effect",
    columns: [
      { name: "Status", cell: (row) => answer(row.status) },
      { name: "Executor", cell: (row) => h("code", null, row.executor) },
      { name: "Of", cell: (row) => streamLink(row.stream.kind, row.stream.id) },
      {
        name: "Asked for",
        cell: (row) => h("a", { class: "plain", href: whyHref(row.segment_id) }, recordedAt(row.created_at)),
      },
      { name: "Attempts", kind: "number", cell: (row) => countLink(row.attempts, `${hrefOf(row.effect_id)}#attempts`) },
      { name: "Last error, or next attempt", kind: "text", cell: (row) => lastOrNext(row) },
    ],
    empty: firstOne(
      "Nothing had to happen outside yet",
      "Deliveries of notifications, webhooks and handlers of runs appear here, with every attempt and its error.",
      SAMPLES.notification,
    ),
    bulk: (chosen) => ({
      noun: "effects",
      verbs: [["Retry", "retry"], ["Discard", "discard"]],
      ofChosen: (title, action, ids) => onChosen(view, title, action, ids),
      ofMatching: (_title, action) => onMatching(view, action, pick(chosen(), OF_DEAD)),
    }),
  };
}

/** @param {any} row */
function lastOrNext(row) {
  if (row.last_error) return h("span", { class: "error-text" }, row.last_error);
  return row.status === "pending" ? when(row.next_attempt_at) : "";
}
