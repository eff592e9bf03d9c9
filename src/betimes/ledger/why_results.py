"""Results for `betimes why`: what became of notifications that were sent, runs that were allowed, and other calls.

A decision says what may happen. Whether it did is in the history of the inbox with its deliveries, in the run, and in
the effects of the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

from betimes.core.errors import MissingScope, NotFound
from betimes.domain.derivation import derive
from betimes.ledger.call_results import (
    CALLS,
    Circumstances,
    ResultView,
    call_result,
    read_circumstances,
    shorten_error,
    spell_call,
    spell_waiting,
)
from betimes.ledger.effects import EffectView
from betimes.ledger.service import ExplanationView, Ledger
from betimes.notifications.views import NotificationView
from betimes.tenancy import Tenancy

RESULTS_MAX = 3
"""Of one decision, the things that are looked after."""
PASSED = frozenset({"NOW", "ALLOW"})
"""Outcomes after which something happens."""
DONE = frozenset({"delivered", "digested", "succeeded", "done"})
FAILED = frozenset({"failed", "abandoned", "dead"})
"""It failed: it was not delivered, or the run did not succeed."""
UNDONE = frozenset({"delivering", "pending"})
"""It is tried, and so far nothing of it was done."""
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
"""By kind of stream and status: the end of a sentence about the decision."""


async def find_results(services: Tenancy, ledger: Ledger, view: ExplanationView) -> list[ResultView]:
    """Return the results of what was decided, as its last decision let it pass, or of the calls it caused."""
    if view.kind not in CLAUSES:
        return await _find_call_results(ledger, view.effects)
    last = view.judgements[-1] if view.judgements else None
    if last is None or last.outcome not in PASSED:
        return []
    segment = view if last.segment_id == view.segment_id else await ledger.explain(last.segment_id)
    asked = {one.key for one in view.judged}
    keys = [key for key in dict.fromkeys(one.key for one in segment.judged) if key in asked][:RESULTS_MAX]
    circumstances = await read_circumstances(ledger, segment.effects)
    looked_at = [await _find_result(services, segment, key, circumstances) for key in keys]
    return [found for found in looked_at if found]


async def _find_call_results(ledger: Ledger, effects: Sequence[EffectView]) -> list[ResultView]:
    """Return how calls went, those that did not succeed first."""
    calls = sorted((one for one in effects if one.effect_kind in CALLS), key=lambda one: one.status == "done")
    circumstances = await read_circumstances(ledger, calls[:RESULTS_MAX])
    return [call_result(effect, circumstances) for effect in calls[:RESULTS_MAX]]


def is_troubled(result: ResultView) -> bool:
    """Return whether it needs attention: it failed, or is not done and has failed before."""
    return result.status in FAILED or (result.error is not None and result.status in UNDONE)


async def _find_result(
    services: Tenancy, segment: ExplanationView, key: str, circumstances: Circumstances
) -> ResultView | None:
    """Return what became of one thing; nothing if its beginning was pruned, or the caller may not read it."""
    with suppress(NotFound, MissingScope):
        if segment.kind == "inbox":
            view = await services.notifications.notification(key, trace=False)
            return _delivery_result(key, view, segment.effects, circumstances)
        for event in segment.events:
            if event["type"] == "RunAllowed" and event["key"] == key:
                run = await services.runs.run(event["run_id"])
                return ResultView(key=key, status=run.status, error=run.error or None)
    return None


def _delivery_result(
    key: str, view: NotificationView, effects: Sequence[EffectView], circumstances: Circumstances
) -> ResultView:
    """Return how the deliveries of a notification went."""
    undone = [one for one in view.deliveries if one.status != "done" and (one.last_error or view.status not in DONE)]
    if not undone:
        return ResultView(key=key, status=view.status)
    last = next((one for one in reversed(undone) if one.last_error), undone[-1])
    status = "partly_delivered" if view.status in DONE else view.status
    result = derive(ResultView, last, key=key, status=status, error=last.last_error)
    effect = next((one for one in effects if one.effect_id == last.effect_id and one.status == "pending"), None)
    return circumstances.apply_to(result, effect) if effect else result


def spell_results(
    kind: str, judged_count: int, results: Sequence[ResultView], spell_time: Callable[[datetime], str]
) -> str:
    """Return the end of a sentence about a decision: the first thing that is not done, else that all are."""
    if kind not in CLAUSES:
        return spell_call(results[0], spell_time) if results else ""
    told = next((one for one in results if one.status not in DONE), None)
    if told is None and results and len(results) == judged_count:
        told = results[0]
    clause = CLAUSES[kind].get(told.status) if told else None
    if told is None or clause is None:
        return ""
    thing = _spell_thing(kind, told, judged_count)
    if told.status == "delivering" and (waiting := spell_waiting(told, spell_time)):
        return f", but {thing} is not delivered yet: {told.channel} {waiting}"
    return f", {clause.format(it=thing)}{_spell_trouble(told, spell_time)}"


def _spell_thing(kind: str, told: ResultView, judged_count: int) -> str:
    if judged_count == 1:
        return "it" if kind == "inbox" else "the run"
    if told.status in DONE:
        return "each" if kind == "inbox" else "each run"
    return f"“{told.key}”" if kind == "inbox" else f"the run for “{told.key}”"


def _spell_trouble(told: ResultView, spell_time: Callable[[datetime], str]) -> str:
    """Return which channel is meant, with the error, or when it is tried again."""
    by = f" by {told.channel}" if told.channel else ""
    if told.next_attempt_at and (waiting := spell_waiting(told, spell_time)):
        return f"{by}, which {waiting}"
    return f"{by}: {shorten_error(told.error)}" if told.error else by
