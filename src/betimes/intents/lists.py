"""Lists of intents: all of them, those that are pending, and what was executed.

Nothing here writes. A list goes from the last created on; what is pending goes by the next check. The store has it in
that order (`listed_at`), cooling or not. Alarms that are due and that nobody has rung are allowed for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from msgspec.structs import replace

from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.domain.paging import InstantPlace, Listing, Page
from betimes.domain.segment_lists import list_rows
from betimes.engine.codecs import Kind
from betimes.engine.engine import Engine
from betimes.engine.store import StreamQuery, StreamRow
from betimes.intents.decide import state_at
from betimes.intents.definitions import WorkerChoice
from betimes.intents.fold import COOLING, SOURCES, TYPES, sorts_of
from betimes.intents.model import CONDITION_BASED, FireIntent, IntentState
from betimes.intents.views import ExecutionView, IntentView, execution_view, intent_view

ROUNDS_MAX = 5
"""How many times as many rows as are asked for one page looks at."""
WORKERS: tuple[WorkerChoice, ...] = get_args(WorkerChoice)


def statuses(
    trigger_type: str | None,
    enabled: bool | None,
    workers: Iterable[WorkerChoice] = WORKERS,
    sources: frozenset[str] = frozenset(SOURCES),
) -> tuple[str, ...]:
    """Return the statuses in the store's index that a filter stands for, of intents that need only these sources."""
    kinds = TYPES if trigger_type is None else (trigger_type,)
    states = ["enabled", COOLING] if enabled else ["disabled"] if enabled is False else ["enabled", COOLING, "disabled"]
    return tuple(
        f"{state}.{sort}"
        for worker in workers
        for kind in kinds
        for sort in sorts_of(kind, worker, sources)
        for state in states
        if state != COOLING or kind in CONDITION_BASED
    )


def state_of(engine: Engine, row: StreamRow) -> IntentState:
    state: IntentState = engine.kinds.state_in(row.stream, row)
    return state


async def pending(
    engine: Engine, policy: Policy, query: StreamQuery, in_cooldown: bool | None, now: Instant
) -> tuple[Listing[IntentView], InstantPlace | None]:
    """Return intents to look at, in order of their next check, and where to go on, if there may be more.

    They are enabled, not expired, unclaimed and due. A page looks at a bounded number of rows, so with `in_cooldown` it
    may have fewer than asked for, and still more behind it.
    """
    found: Listing[IntentView] = Listing()
    place: InstantPlace | None = None
    for _ in range(ROUNDS_MAX):
        rows = await engine.store.streams(query)
        for row in rows:
            if len(found) == query.limit - 1:
                return found, place
            at = row.listed_at if query.due_before is None else row.due_at
            place = InstantPlace(at or 0, row.stream.id)
            with found.reading(row.stream):
                state = state_at(row.stream, state_of(engine, row), policy, now)
                if is_pending(state, now) and in_cooldown in (None, state.is_cooling(now)):
                    found.items.append(intent_view(row.stream.id, state, now))
        if len(rows) < query.limit:
            return found, None
        last = rows[-1]
        query = replace(query, after=last.stream, after_listed_at=last.listed_at, after_due_at=last.due_at)
    return found, place


def is_pending(state: IntentState, now: Instant) -> bool:
    return state.enabled and state.claim is None and state.next_check_at is not None and state.next_check_at <= now


async def executions(
    engine: Engine, stream: StreamId, filters: Any, limit: int, cursor: str | None
) -> Page[ExecutionView]:
    """Return executions, newest first."""
    kind = engine.kinds.of(stream)

    def rows_of(segment: Segment, events: Sequence[Any]) -> Iterator[tuple[int, ExecutionView]]:
        if view := execution_view(segment, events, _fire_command(kind, segment)):
            yield 1, view

    found, more = await list_rows(engine, stream, rows_of, filters, limit, cursor)
    return found.page(more)


def _fire_command(kind: Kind, segment: Segment) -> FireIntent | None:
    if segment.command is None or not segment.command.startswith('{"type":"FireIntent"'):
        return None
    command = kind.command(segment.command, segment)
    assert isinstance(command, FireIntent)
    return command
