"""Results for `betimes why`: what became of the notifications that were sent, and of the runs that were allowed.

A decision says what may happen. Whether it did is in the history of the inbox with its deliveries, and in the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from betimes.core.outcomes import JudgedThing
from betimes.core.segments import Segment
from betimes.core.streams import parse_segment_handle
from betimes.domain.json_view import JsonView
from betimes.engine.codecs import checkpoint_of
from betimes.engine.engine import Engine
from betimes.ledger.judgements import judged_things
from betimes.ledger.service import ExplanationView, Ledger
from betimes.notifications.history import deliveries_of, load_history
from betimes.runs.model import RunAllowed, RunState, run_stream

RESULTS_MAX = 3
"""Of one decision, the things that are looked after."""
ERROR_CHARS_MAX = 300
PASSED = frozenset({"NOW", "ALLOW"})
"""Outcomes after which something happens."""
DONE = frozenset({"delivered", "digested", "succeeded"})
CLAUSES = {
    "inbox": {
        "delivered": "and {it} was delivered",
        "digested": "and {it} was delivered in a digest",
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
    """That of the notification or of the run."""
    channel: str | None = None
    """Of a delivery that failed or is tried again."""
    error: str | None = None
    next_attempt_at: datetime | None = None


async def find_results(ledger: Ledger, view: ExplanationView) -> list[ResultView]:
    """Return what became of what was judged, as its last judgement let it pass; nothing where it did not."""
    last = view.judgements[-1] if view.judgements else None
    if last is None or last.outcome not in PASSED:
        return []
    stream, version = parse_segment_handle(ledger.caller.tenant, last.segment_id)
    _, page = await ledger.engine.store.history(stream, version - 1, 1)
    asked = {one.key for one in view.judged}
    things = {thing.key: thing for thing in judged_things(ledger.engine.kinds, page[0]) if thing.key in asked}
    find = _find_delivery if stream.kind == "inbox" else _find_run
    looked_at = [await find(ledger.engine, page[0], thing) for thing in [*things.values()][:RESULTS_MAX]]
    return [found for found in looked_at if found]


async def _find_delivery(engine: Engine, segment: Segment, thing: JudgedThing) -> ResultView | None:
    """Return how the deliveries of a notification went; nothing if its beginning was pruned."""
    item = int(thing.id)
    _, page = await engine.store.history(segment.stream, item - 1, 1)
    if not page or page[0].version != item or checkpoint_of(page[0]):
        return None
    history = await load_history(engine.store, engine.kinds.of(segment.stream), page[0])
    deliveries = await deliveries_of(engine.store, history, page[0])
    status = history.status_with(deliveries)
    troubled = [one for one in deliveries if one.last_error and one.status != "done"]
    if status in DONE or not troubled:
        return ResultView(key=thing.key, status=status)
    last = troubled[-1]
    return ResultView(
        key=thing.key,
        status=status,
        channel=last.channel,
        error=last.last_error,
        next_attempt_at=last.next_attempt_at,
    )


async def _find_run(engine: Engine, segment: Segment, thing: JudgedThing) -> ResultView | None:
    """Return how the run of a trigger went; nothing if this decision did not allow one."""
    events = engine.kinds.of(segment.stream).events(segment)
    ids = [event.run_id for event in events if isinstance(event, RunAllowed) and event.key == thing.key]
    if not ids:
        return None
    stream = run_stream(segment.stream.tenant, ids[0])
    row = (await engine.store.load([stream])).get(stream)
    run = row and engine.kinds.of(stream).state(stream, row.schema, row.state)
    return ResultView(key=thing.key, status=run.status, error=run.error or None) if isinstance(run, RunState) else None


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
