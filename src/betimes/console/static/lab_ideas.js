/** Ideas to begin with: changes of the policy in force that somebody may want to try first, each a link that drafts it. */
import { h } from "./dom.js";
import { valueAt } from "./lab_schema.js";
import { labHref } from "./why_policy.js";

/** @typedef {{says: string, path: string, value: (now: number) => string}} Idea `value`: what it would be, empty where there is nothing to change */
/** @type {Idea[]} */
const IDEAS = [
  {
    says: "Calmer: told at most once an hour, unless it is critical or was put off too often",
    path: "notifications.fatigue.hour.cap",
    value: (now) => now > 1 ? "1" : "",
  },
  {
    says: "Choosier: it takes a higher score to go out at once",
    path: "notifications.thresholds.now_from",
    value: (now) => Math.min(1, now + 0.1).toFixed(2),
  },
  {
    says: "Thriftier: half the daily run budget of an account",
    path: "runs.daily_run_budget",
    value: (now) => now > 1 ? String(Math.floor(now / 2)) : "",
  },
  { says: "Compare lower caps a day", path: "notifications.fatigue.day.cap", value: lowerCaps },
];

/** Return a fifteenth, a sixth and half of a cap, without those that are the same. @param {number} cap */
function lowerCaps(cap) {
  const caps = [15, 6, 2].map((part) => Math.max(1, Math.floor(cap / part)));
  return [...new Set(caps)].filter((one) => one < cap).join(",");
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
