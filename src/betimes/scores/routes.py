"""Routes of scores."""

from __future__ import annotations

from typing import Any

from betimes.core.checks import Examined
from betimes.http.routes import Answer, Listed, RequestContext, answer_of
from betimes.http.service_calls import ServiceRoutes
from betimes.scores.service import NewScore, Scores
from betimes.scores.views import WrittenScore

TAG = "Scores"
ONE = "/v1/scores/{user_id}"


# Not from `Scores.list`, which takes a chapter as a number too: in a query everything is text.
class ScoreFilters(Listed, frozen=True, forbid_unknown_fields=True):
    game_status: str | None = None
    chapter: str | None = None
    overdue: bool | None = None


async def create(request: RequestContext[Examined[NewScore]]) -> Answer[WrittenScore]:
    scores = request.services.scores
    made = await scores.create(request.body, key=request.idempotency_key)
    return answer_of(scores, made, location=f"/v1/scores/{made.user_id}")


_EXAMPLE: dict[str, Any] = {"user_id": "u-3", "score": 50, "last_interaction_at": "2026-01-05T00:00:00Z"}

_scores = ServiceRoutes(lambda request: request.services.scores, TAG, read="scores:read", write="scores:write")

ROUTES = (
    _scores.post(
        "/v1/scores",
        create,
        "Create a score",
        description="A batch is the bulk import.",
        status=201,
        batch=True,
        codes=((409, "ALREADY_EXISTS"),),
        example=_EXAMPLE,
    ),
    _scores.get("/v1/scores", Scores.list, "Scores, newest first", query=ScoreFilters),
    _scores.get(ONE, Scores.get, "A score, and its forecast"),
    _scores.post(f"{ONE}/interactions", Scores.interact, "Record an interaction", example={"type": "text"}),
    _scores.post(
        f"{ONE}/status",
        Scores.set_status,
        "Change the status",
        codes=((409, "AT_FLOOR"),),
        example={"game_status": "boss_fight", "timeout_seconds": 3600},
    ),
    _scores.post(f"{ONE}/adjust", Scores.adjust, "Adjust a score", example={"delta": 12.5, "reason": "goodwill"}),
    _scores.get(f"{ONE}/history", Scores.history, "History of a score, newest first"),
    _scores.post(
        "/v1/scores/sweep",
        Scores.sweep,
        "Sweep: apply all due decay",
        scope="sweep",
        keeps_answer="scores",
        description="A tenant's key sweeps that tenant, a key of `*` all. When `complete` is false, call again.",
        body_optional=True,
        deployment=True,
    ),
)
