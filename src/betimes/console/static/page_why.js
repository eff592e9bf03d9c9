/**
 * Why: one segment, its answer and the sentence, every rule it went through, what would have had to be different, and
 * the story it is part of. A segment that made no decision shows what happened instead.
 */
import { ask, get, part } from "./api.js";
import { h } from "./dom.js";
import { button, openDialog } from "./forms.js";
import {
  answerClass,
  copyButton,
  facts,
  mark,
  pageHead,
  reasonChips,
  section,
  streamHref,
  unreadableRows,
} from "./parts.js";
import { curl } from "./samples.js";
import { may } from "./session.js";
import { shownJson } from "./texts.js";
import { dateText, partsOf, recordedAt, timedText, when, zoneFor } from "./time.js";
import { changesSection } from "./why_changes.js";
import { eventsSection, words } from "./why_events.js";
import { pipeline } from "./why_pipeline.js";
import { policyFact } from "./why_policy.js";
import { storySection } from "./why_story.js";

/** @typedef {import("./router.js").View} View */
/** The reason of a report that no rule prevented: it says nothing that the answer does not. */
const RECORDED = "RECORDED";

/** The names that it knows in a query. @type {string[]} */
export const QUERY = [];

/** @param {View} view */
export async function show(view) {
  const id = view.params.segment;
  view.title(`Why ${id}`);
  const told = await get(`/v1/explain/${part(id)}`, {}, view.signal);
  const then = may("admin") ? policyOf(told.policy, view.signal) : Promise.resolve(null);
  const theirs = told.timezone;
  view.main.append(
    pageHead(headline(told), whereabouts(told, theirs), ...buttons(told)),
    told.verdict ? verdictCard(told, theirs, then) : plainCard(told, theirs, then),
    unreadableRows(told.unreadable) ?? "",
  );
  if (told.rules.length) {
    view.main.append(
      h(
        "div",
        { class: "why-columns" },
        section(
          "The rules, in order",
          h("p", { class: "soft" }, "As things stood then: what was ago or ahead is counted from the decision."),
          pipeline(told, then),
        ),
        h("div", null, changesSection(told, theirs, view.signal)),
      ),
    );
  }
  const [story, events] = [storySection(told, theirs, view.signal), eventsSection(told, theirs)];
  view.main.append(...(told.verdict ? [story, events] : [events, story]));
}

/** @param {string} fingerprint @param {AbortSignal} signal @returns {Promise<any>} the policy it was decided by, if it is still known */
async function policyOf(fingerprint, signal) {
  if (!fingerprint) return null;
  try {
    return (await ask("GET", `/v1/policies/${part(fingerprint)}`, { signal })).effective;
  } catch {
    return null;
  }
}

/** Return what was judged in a word or two. @param {any} told */
function subjectText(told) {
  const names = told.judged.map((/** @type {any} */ one) => [one.what, one.key].filter(Boolean).join(" "));
  if (names.length > 2) return `${names.length} notifications in a digest`;
  return names.join(" and ") || `${told.kind} ${told.id}`;
}

/** @param {any} told */
function headline(told) {
  const name = subjectText(told);
  if (!told.verdict) return told.command?.type ? `${words(told.command.type)}: ${told.kind} ${told.id}` : name;
  return h(
    "span",
    { class: "why-title" },
    h(
      "span",
      { class: `answer ${answerClass(told.verdict.outcome)}` },
      mark(told.verdict.outcome),
      told.verdict.outcome,
    ),
    h("span", null, name),
  );
}

/** Return the page of its stream; of a person or an account the day it was decided on. @param {any} told @param {string | null} theirs */
function dayHref(told, theirs) {
  const href = streamHref(told.kind, told.id);
  const hasDays = href.startsWith("/console/people/") || href.startsWith("/console/accounts/");
  return hasDays ? `${href}?date=${dateText(Date.parse(told.at), zoneFor(theirs))}` : href;
}

/** @param {any} told @param {string | null} theirs */
function whereabouts(told, theirs) {
  return [
    `${told.kind} `,
    h("a", { class: "id", href: dayHref(told, theirs) }, told.id),
    ` · version ${told.version} · `,
    h("span", { class: "id" }, told.segment_id),
  ];
}

/** @param {any} told */
function buttons(told) {
  const raw = () => openDialog("Raw JSON", () => shownJson(told), { wide: true });
  return [
    h("a", { class: "button", href: `/console/try?segment=${part(told.segment_id)}` }, "Open in the playground"),
    copyButton(curl("GET", `/v1/explain/${part(told.segment_id)}`), "Copy as curl", "Copy as curl"),
    copyButton(location.origin + location.pathname, "Copy link", "Copy link"),
    button("Raw JSON", raw, { class: "small" }),
  ];
}

/** Return the answer, its reasons in order, its sentence, and the circumstances. @param {any} told @param {string | null} theirs @param {Promise<any>} then */
function verdictCard(told, theirs, then) {
  const verdict = told.verdict;
  const isWaiting = answerClass(verdict.outcome) === "later"; // what is over passes at no instant
  const sooner = isWaiting && verdict.would_pass_at !== verdict.defer_until ? verdict.would_pass_at : null;
  return h(
    "section",
    { class: `card verdict ${answerClass(verdict.outcome)}`, "aria-label": "The answer" },
    h("p", { class: "why-sentence" }, timedText(verdict.explanation, theirs)),
    verdict.reasons.some((/** @type {string} */ one) => one !== RECORDED) ? reasonTrail(told) : null,
    facts([
      ["Decided", recordedAt(told.at, { theirs, seconds: true, day: true })],
      [
        isWaiting ? "Judged again" : "Looked at next",
        verdict.defer_until ? when(verdict.defer_until, { theirs, seconds: true }) : null,
      ],
      ["Would pass, as things stood", sooner ? when(sooner, { theirs, seconds: true }) : null],
      ...circumstances(told, theirs, then),
    ]),
  );
}

/** @param {any} told */
function reasonTrail(told) {
  const hrefOf = (/** @type {string} */ reason) => `/console?reason=${part(reason)}&domain=${part(told.domain)}`;
  const many = new Set(told.verdict.reasons).size > 1;
  return h(
    "p",
    { class: "why-reasons" },
    h("span", { class: "soft" }, many ? "Judged again, because of " : "Because of "),
    reasonChips(told.verdict.reasons, hrefOf),
  );
}

/** Return in words what a segment holds, in order. @param {any} told */
function happenings(told) {
  const names = [...new Set(told.events.map((/** @type {any} */ event) => words(event.type)))];
  return names.map((name, place) => place ? name.toLowerCase() : name).join(", then ") || told.summary;
}

/** @param {any} told @param {string | null} theirs @param {Promise<any>} then */
function plainCard(told, theirs, then) {
  return h(
    "section",
    { class: "card verdict other", "aria-label": "What it is" },
    h("p", { class: "why-sentence" }, timedText(`${happenings(told)}.`, theirs)),
    h("p", { class: "soft" }, "There was nothing to decide by rules: this segment records what happened."),
    facts([
      ["Written", recordedAt(told.at, { theirs, seconds: true, day: true })],
      ...circumstances(told, theirs, then),
    ]),
  );
}

/** @param {any} told @param {string | null} theirs @param {Promise<any>} then @returns {[string, any][]} */
function circumstances(told, theirs, then) {
  const correlation = told.correlation_id;
  return [
    ["Zone", `${zoneFor(theirs)} ${partsOf(Date.parse(told.at), zoneFor(theirs)).offset}`],
    ["Policy", policyFact(told, then)],
    ["Asked by", told.actor || "the clock"],
    ["Note", told.note || null],
    ["Key", told.key ? h("a", { class: "id", href: `/console/ledger?key=${part(told.key)}` }, told.key) : null],
    [
      "Correlation",
      correlation
        ? h("a", { class: "id", href: `/console/ledger?correlation_id=${part(correlation)}` }, correlation)
        : null,
    ],
  ];
}
