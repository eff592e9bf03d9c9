/** Scores: how far each has fallen, and when it reaches the floor. */
import { part } from "./api.js";
import { h } from "./dom.js";
import { firstOne, showList } from "./list_page.js";
import { answer, meter } from "./parts.js";
import { spanText, when } from "./time.js";

export const TOP_SCORE = 100;

/** @param {import("./router.js").View} view */
export function show(view) {
  return showList(
    view,
    "Scores",
    "What fades while nobody acts: where each score is, and when it would reach the floor.",
    {
      path: "/v1/scores",
      noun: "scores",
      caption: "Scores, newest first",
      filters: [
        { name: "overdue", label: "Overdue", options: ["true", "false"] },
        { name: "game_status", label: "Status", text: "status" },
        { name: "chapter", label: "Chapter" },
      ],
      idOf: (row) => row.user_id,
      hrefOf: (row) => `/console/scores/${part(row.user_id)}`,
      idName: "Person",
      columns: [
        { name: "Score", cell: scoreCell },
        { name: "Status", cell: (row) => answer(row.game_status) },
        { name: "Chapter", cell: (row) => String(row.chapter) },
        { name: "Last interaction", cell: (row) => when(row.last_interaction_at) },
        { name: "Overdue", cell: (row) => row.hours_overdue > 0 ? spanText(row.hours_overdue * 3_600_000) : "no" },
        { name: "Next threshold", cell: (row) => thresholdText(row.forecast) },
        { name: "Floor", cell: (row) => when(row.forecast?.zero_at) },
      ],
      empty: firstOne(
        "No score yet",
        "A score falls while its person does nothing, hour by hour after a grace; an interaction stops that.",
        {
          path: "/v1/scores",
          body: { user_id: "ana", score: 50 },
          python: 'await bt.scores.create({"user_id": "ana", "score": 50})',
        },
      ),
    },
  );
}

/** @param {any} score */
function scoreCell(score) {
  return h(
    "span",
    { class: "took" },
    meter(score.effective_score, TOP_SCORE, `Score of ${score.user_id}`),
    score.effective_score.toFixed(2),
  );
}

/** @param {any} forecast */
function thresholdText(forecast) {
  const next = forecast?.thresholds?.[0];
  return next ? [`${next.name} `, when(next.at)] : h("span", { class: "soft" }, "–");
}
