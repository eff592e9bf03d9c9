/** Ideas to begin with: changes of the policy in force that somebody may want to try first, each a link that drafts it. */
import { h } from "./dom.js";
import { valueAt } from "./lab_schema.js";
import { labHref } from "./why_policy.js";

/** @typedef {{says: string, path: string, value: (now: number) => string}} Idea */
/** @type {Idea[]} */
const IDEAS = [
  { says: "Calmer: nobody is told more than once an hour", path: "notifications.fatigue.hour.cap", value: () => "1" },
  {
    says: "Choosier: only what matters more goes out at once",
    path: "notifications.thresholds.now_from",
    value: (now) => Math.min(1, now + 0.1).toFixed(2),
  },
  { says: "Thriftier: half the runs of an account a day", path: "runs.daily_run_budget", value: (now) => half(now) },
  {
    says: "Compare three caps a day",
    path: "notifications.fatigue.day.cap",
    value: (now) => [15, 6, 2].map((part) => Math.max(1, Math.floor(now / part))).join(","),
  },
];

/** @param {number} value */
function half(value) {
  return String(Math.max(1, Math.floor(value / 2)));
}

/** Return the ideas that change something of a policy. @param {any} effective the policy in force */
export function ideasFor(effective) {
  const found = IDEAS.flatMap(({ says, path, value }) => {
    const now = Number(valueAt(effective, path) ?? NaN);
    const next = Number.isNaN(now) ? "" : value(now);
    return next && Number(next) !== now ? [{ says, path, now, next }] : [];
  });
  if (!found.length) return null;
  return h(
    "div",
    { class: "ideas" },
    h("h3", null, "Ideas to begin with"),
    h(
      "ul",
      { class: "plain-list" },
      found.map(({ says, path, now, next }) =>
        h(
          "li",
          null,
          h("a", { href: labHref(path, next) }, says),
          h("span", { class: "soft" }, ` ${next.replaceAll(",", ", ")} instead of ${now}`),
        )
      ),
    ),
  );
}
