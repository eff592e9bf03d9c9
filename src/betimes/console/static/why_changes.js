/**
 * What would have changed the answer: the least change of each kind that leads to a better answer. It is asked for
 * after the page stands, because the server decides the segment again, up to two hundred times.
 */
import { get, part } from "./api.js";
import { h, put } from "./dom.js";
import { answer, answerClass, problemBox, section } from "./parts.js";
import { button } from "./forms.js";
import { may } from "./session.js";
import { fullText, now, timedText, when } from "./time.js";
import { labHref, settingText } from "./why_policy.js";

/** Kinds of changes, the nearest to the person first. */
const KINDS = /** @type {const} */ ([
  ["time", "Time"],
  ["request", "The request"],
  ["person", "The person"],
  ["definition", "The definition"],
  ["setting", "One setting"],
  ["rule", "Rules"],
]);

/** @param {any} told @param {string | null} theirs @param {AbortSignal} signal */
export function changesSection(told, theirs, signal) {
  const box = h("div", { role: "status" }, h("p", { class: "soft" }, "Deciding it again…"));
  const load = async () => {
    try {
      const found = await get(`/v1/explain/${part(told.segment_id)}/alternatives`, {}, signal);
      put(box, ...alternatives(told, found, theirs));
    } catch (error) {
      if (!signal.aborted) put(box, problemBox(error, load));
    }
  };
  void load();
  return section("What would have changed the answer", box);
}

/** @param {any} told @param {any} found @param {string | null} theirs */
function alternatives(told, found, theirs) {
  if (!found.reproduced) {
    return [
      h("p", { class: "check unknown" }, "It cannot be told: ", timedText(found.why_not, theirs), "."),
    ];
  }
  const times = `decided again ${found.decisions} time${found.decisions === 1 ? "" : "s"}`;
  return [
    h(
      "p",
      { class: "check" },
      "Re-deciding reproduced the recorded verdict",
      found.decisions ? h("span", { class: "soft" }, `, then it was ${times} with one thing changed`) : null,
      ".",
    ),
    found.changes.length ? KINDS.map(([kind, title]) => group(told, kind, title, found, theirs)) : nothing(told),
    found.truncated ? h("p", { class: "soft" }, "The search ended at its bound; there may be further changes.") : null,
  ];
}

/** @param {any} told */
function nothing(told) {
  return h(
    "p",
    { class: "soft" },
    answerClass(told.verdict.outcome) === "now"
      ? "Nothing: there is no better answer."
      : "No single change of the time, the request, the person, a rule or a setting leads to a better answer.",
  );
}

/** @param {any} told @param {string} kind @param {string} title @param {any} found @param {string | null} theirs */
function group(told, kind, title, found, theirs) {
  const changes = found.changes.filter((/** @type {any} */ one) => one.kind === kind);
  if (!changes.length) return null;
  return [
    h("h3", null, title),
    h("ul", { class: "changes" }, changes.map((/** @type {any} */ one) => change(told, one, theirs))),
  ];
}

/** @param {any} told @param {any} one @param {string | null} theirs */
function change(told, one, theirs) {
  return h(
    "li",
    null,
    h(
      "p",
      { class: "change-if" },
      one.kind === "time" ? ["if it had been judged at ", instant(one.at, theirs)] : timedText(`if ${one.if}`, theirs),
      // Of a setting the sentence says itself what it stands instead of.
      ["time", "rule", "setting"].includes(one.kind) || one.from == null
        ? null
        : h("span", { class: "soft" }, " instead of ", h("code", null, settingText(one.from))),
    ),
    h(
      "p",
      { class: "change-then" },
      h("span", { class: "hidden" }, "then "),
      h("span", { class: "soft", "aria-hidden": "true" }, "→ "),
      promised(one.then, theirs),
      next(told, one),
    ),
  );
}

/** Return where to go on with a change. @param {any} told @param {any} one */
function next(told, one) {
  const segment = part(told.segment_id);
  if (one.kind === "rule") {
    return button("See the rule", () => showRule(one.path.split("+")[0]), { class: "link-button change-next" });
  }
  if (one.kind === "setting") return may("admin") ? link(labHref(one.path, one.to), "Try it in the lab") : null;
  if (one.kind === "time") return link(`/console/try?segment=${segment}&at=${part(one.at)}`, "Try it then");
  const set = part(`${one.path}=${settingText(one.to)}`);
  return link(`/console/try?segment=${segment}&set=${set}`, "Try it in the playground");
}

/** @param {string} href @param {string} text */
function link(href, text) {
  return h("a", { class: "change-next", href }, text);
}

/** Return an answer with its instant. @param {any} one @param {string | null} theirs */
function promised(one, theirs) {
  const until = one.until ?? one.defer_until;
  return [
    answer(one.outcome),
    until ? h("span", { class: "soft", title: fullText(until, theirs) }, " until ", instant(until, theirs)) : null,
  ];
}

/** Return an instant of another course of things: how far it is says something only while it is ahead. @param {string} at @param {string | null} theirs */
function instant(at, theirs) {
  return when(at, { theirs, seconds: true, relative: Date.parse(at) > now() });
}

/** @param {string} name */
function showRule(name) {
  const found = document.getElementById(`rule-${name}`);
  found?.scrollIntoView({ block: "center" });
  found?.focus({ preventScroll: true });
}
