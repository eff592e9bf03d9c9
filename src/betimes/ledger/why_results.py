"""Results for `betimes why`: what became of the notifications that were sent, and of the runs that were allowed.

A decision says what may happen. Whether it did is in the history of the inbox with its deliveries, and in the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

from betimes.core.errors import MissingScope, NotFound
from betimes.domain.json_view import JsonView
from betimes.ledger.service import ExplanationView, Ledger, SegmentView
from betimes.notifications.views import NotificationView
from betimes.tenancy import Tenancy

RESULTS_MAX = 3
"""Of one decision, the things that are looked after."""
ERROR_CHARS_MAX = 300
PASSED = frozenset({"NOW", "ALLOW"})
"""Outcomes after which something happens."""
DONE = frozenset({"delivered", "digested", "succeeded"})
FAILED = frozenset({"failed", "abandoned"})
"""It came to nothing: nobody received it, or the run did not do what it should."""
CLAUSES = {
    "inbox": {
        "delivered": "and {it} was delivered",
        "digested": "and {it} was delivered in a digest",
        "partly_delivered": "and {it} was delivered, but not",
        "delivering": "and {it} is on its way",
        "waiting": "and {it} still waits",
        "failed": "but {it} could not be delivered",
        "cancelled": "but {it} was cancelled",
        "suppressed": "but {it} was dropped",
    },
    "account": {
        "allowed": "and {it} has not started yet",
        "started": "and {it} has started and not ended yet",
        "succeeded": "and {it} succeeded",
        "failed": "but {it} failed",
        "abandoned": "but {it} was abandoned",
    },
}
"""By kind of stream and status: how a sentence about the decision goes on."""


class ResultView(JsonView, frozen=True, kw_only=True):
    """What became of one thing that was decided on."""

    key: str
    """The event id or key it was asked for by."""
    status: str
    """That of the notification or of the run; `partly_delivered` where one channel delivered and another did not, or
    not yet."""
    channel: str | None = None
    """Of a delivery that failed or is tried again."""
    error: str | None = None
    next_attempt_at: datetime | None = None


async def find_results(services: Tenancy, ledger: Ledger, view: ExplanationView) -> list[ResultView]:
    """Return what became of what was judged, as its last judgement let it pass; nothing where it did not."""
    last = view.judgements[-1] if view.judgements else None
    if last is None or last.outcome not in PASSED:
        return []
    segment = view if last.segment_id == view.segment_id else await ledger.explain(last.segment_id)
    asked = {one.key for one in view.judged}
    keys = [key for key in dict.fromkeys(one.key for one in segment.judged) if key in asked][:RESULTS_MAX]
    looked_at = [await _find_result(services, segment, key) for key in keys]
    return [found for found in looked_at if found]


async def _find_result(services: Tenancy, segment: SegmentView, key: str) -> ResultView | None:
    """Return what became of one thing; nothing if its beginning was pruned, or the caller may not read it."""
    with suppress(NotFound, MissingScope):
        if segment.kind == "inbox":
            return _delivery_result(key, await services.notifications.notification(key, trace=False))
        for event in segment.events:
            if event["type"] == "RunAllowed" and event["key"] == key:
                run = await services.runs.run(event["run_id"])
                return ResultView(key=key, status=run.status, error=run.error or None)
    return None


def _delivery_result(key: str, view: NotificationView) -> ResultView:
    """Return how the deliveries of a notification went."""
    troubled = [one for one in view.deliveries if one.last_error and one.status != "done"]
    if not troubled:
        return ResultView(key=key, status=view.status)
    last = troubled[-1]
    return ResultView(
        key=key,
        status="partly_delivered" if view.status in DONE else view.status,
        channel=last.channel,
        error=last.last_error,
        next_attempt_at=last.next_attempt_at,
    )


def spell_results(
    kind: str, judged_count: int, results: Sequence[ResultView], spell_time: Callable[[datetime], str]
) -> str:
    """Return how a sentence about a decision goes on: with the first thing that is not done, else that all are."""
    told = next((one for one in results if one.status not in DONE), None)
    if told is None and results and len(results) == judged_count:
        told = results[0]
    clause = CLAUSES.get(kind, {}).get(told.status) if told else None
    if told is None or clause is None:
        return ""
    return f", {clause.format(it=_spell_thing(kind, told, judged_count))}{_spell_trouble(told, spell_time)}"


def _spell_thing(kind: str, told: ResultView, judged_count: int) -> str:
    if judged_count == 1:
        return "it" if kind == "inbox" else "the run"
    if told.status in DONE:
        return "each" if kind == "inbox" else "each run"
    return f"“{told.key}”" if kind == "inbox" else f"the run for “{told.key}”"


def _spell_trouble(told: ResultView, spell_time: Callable[[datetime], str]) -> str:
    """Return the error, and when it is tried again."""
    if not told.error:
        return ""
    error = " ".join(told.error.split())[:ERROR_CHARS_MAX].rstrip(". ")
    by = f" by {told.channel}" if told.channel else ""
    if told.next_attempt_at is None:
        return f"{by}: {error}"
    return f"{by}; the last attempt failed ({error}), the next is at {spell_time(told.next_attempt_at)}"
