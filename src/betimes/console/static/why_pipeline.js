/**
 * The rules that a segment went through, from the first to the last: what each said of the values it saw, and which one
 * decided. Those that were not reached stand dashed below it.
 */
import { h, put } from "./dom.js";
import { answer, meter, whyHref } from "./parts.js";
import { spanText, timedText } from "./time.js";
import { labHref, settingAt, settingText } from "./why_policy.js";

const WORDS = { passed: "passed", bound: "bound", shadow: "shadow", not_reached: "not looked at" };
/** Values that are n of something: the value, the whole, whether being full is what the rule is against, and their unit in milliseconds if they are durations. */
const PAIRS = /** @type {const} */ ([
  ["count", "cap", true],
  ["used", "cap", true],
  ["deferrals", "max_deferrals", true],
  ["elapsed_s", "limit_s", false, 1000],
  ["hours_since_last", "cooldown_hours", false, 3_600_000],
]);

/** @param {any} told @param {Promise<any>} then the policy it was decided by */
export function pipeline(told, then) {
  const isBound = told.rules.some((/** @type {any} */ rule) => rule.outcome === "bound");
  return h(
    "ol",
    { class: "pipeline" },
    told.rules.map((/** @type {any} */ rule) => ruleRow(told, rule, then)),
    isBound ? null : h(
      "li",
      { class: "rule end" },
      h("span", { class: "rule-number", "aria-hidden": "true" }, "✓"),
      h("div", { class: "rule-body" }, h("p", { class: "rule-says" }, "No rule bound. "), answer(told.verdict.outcome)),
    ),
  );
}

/** @param {any} told @param {any} rule @param {Promise<any>} then */
function ruleRow(told, rule, then) {
  const isSeen = rule.outcome !== "not_reached";
  const state = WORDS[/** @type {keyof typeof WORDS} */ (rule.outcome)] ?? rule.outcome;
  return h(
    "li",
    { class: `rule ${rule.outcome}`, id: `rule-${rule.rule}`, tabindex: "-1", "aria-label": `${rule.rule}: ${state}` },
    h("span", { class: "rule-number", "aria-hidden": "true" }, rule.number ?? "–"),
    h(
      "div",
      { class: "rule-body" },
      h(
        "p",
        { class: "rule-head" },
        h("span", { class: "rule-name" }, rule.rule.replaceAll("_", " ")),
        h("span", { class: "rule-state" }, state),
        rule.reason ? h("span", { class: "chip" }, rule.reason) : null,
        isSeen ? gauge(rule) : null,
      ),
      isSeen
        ? h("p", { class: "rule-says" }, timedText(sentence(rule.sentence), told.timezone), original(told, rule))
        : null,
      rule.reads.length ? settings(told, rule, then) : null,
    ),
  );
}

/** Return a link to the segment that a rule names, in the same stream. @param {any} told @param {any} rule */
function original(told, rule) {
  const version = rule.values?.original;
  if (!Number.isInteger(version)) return null;
  return [" ", h("a", { href: whyHref(`${told.kind}:${told.id}:${version}`) }, "See it")];
}

/** @param {string} text */
function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "";
}

/** Return how full it was, where the rule compares a number with a limit. @param {any} rule */
function gauge(rule) {
  const values = rule.values ?? {};
  if (values.now_from != null && values.score != null) return scoreScale(values);
  for (const [name, whole, isCap, unit] of PAIRS) {
    const [value, cap] = [Number(values[name] ?? NaN), Number(values[whole] ?? NaN)];
    if (Number.isNaN(value) || Number.isNaN(cap)) continue;
    const shown = meter(value, cap, `${name.replaceAll("_", " ")}: ${value} of ${cap}`);
    if (!isCap || rule.outcome === "passed") shown.classList.remove("full");
    const text = (/** @type {number} */ one) => unit ? spanText(one * unit) : String(Math.round(one * 10) / 10);
    return h(
      "span",
      { class: "rule-gauge" },
      shown,
      h("span", { class: "soft" }, `${text(value)} ${unit && value >= cap ? "≥" : "of"} ${text(cap)}`),
    );
  }
  return null;
}

/** Return a score on its scale: never, later, now. @param {any} values */
function scoreScale(values) {
  const [score, low, high] = [values.score, values.never_below ?? 0, values.now_from].map(Number);
  const at = (/** @type {number} */ share) => `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h(
    "span",
    { class: "rule-gauge" },
    h(
      "span",
      {
        class: "scale",
        role: "meter",
        "aria-valuenow": score,
        "aria-valuemin": 0,
        "aria-valuemax": 1,
        "aria-label": `score: ${score}, never below ${low}, now from ${high}`,
        style: { "--low": at(low), "--high": at(high), "--at": at(score) },
      },
      h("span"),
    ),
    h("span", { class: "soft" }, String(values.score)),
  );
}

/** Return the settings that a rule goes by, each with its value then, as links into the lab. @param {any} told @param {any} rule @param {Promise<any>} then */
function settings(told, rule, then) {
  const list = h(
    "ul",
    { class: "rule-reads" },
    rule.reads.map((/** @type {string} */ path) => settingItem(path, null)),
  );
  const names = namesOf(told, rule);
  void then.then((policy) => {
    if (!policy) return;
    const paths = [...new Set(rule.reads.flatMap((/** @type {string} */ path) => spell(path, names)))];
    put(list, paths.map((path) => settingItem(path, policy)));
  });
  const count = rule.reads.length;
  return h(
    "details",
    { class: "rule-settings" },
    h("summary", { title: rule.reads.join("\n") }, `${count} setting${count === 1 ? "" : "s"}`),
    list,
  );
}

/** @param {string} path @param {any} policy */
function settingItem(path, policy) {
  const value = policy ? settingAt(policy, path) : undefined;
  if (value === undefined) return h("li", null, h("code", null, path));
  return h(
    "li",
    null,
    h("a", { class: "id", href: labHref(path, value), title: "Try another value in the lab" }, path),
    h("span", { class: "soft" }, " = "),
    h("code", null, settingText(value)),
  );
}

/** Return what the names in braces stand for here. @param {any} told @param {any} rule @returns {Record<string, string[]>} */
function namesOf(told, rule) {
  const command = told.command ?? {};
  const item = told.events?.[0]?.item ?? {};
  const kind = rule.values?.event_type ?? command.event_type ?? item.event_type;
  const type = command.trigger_type ?? told.judged?.[0]?.what;
  const channels = [command.channels ?? item.channels ?? []].flat();
  return { event_type: kind ? [kind] : [], trigger_type: type ? [type] : [], channel: channels };
}

/** @param {string} path @param {Record<string, string[]>} names @returns {string[]} */
function spell(path, names) {
  const name = /\{(\w+)\}/.exec(path)?.[1];
  if (!name || !names[name]?.length) return [path];
  return names[name].flatMap((value) => spell(path.replace(`{${name}}`, value), names));
}
