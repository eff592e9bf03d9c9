"""Lists of intents: all of them, those that are pending, and what was executed.

Nothing here writes. A list goes from the last created on; what is pending goes by the next check. The store finds what
is due by `due_at`, which is the next check except for intents with a cooldown that ends later; those carry a status of
their own and are put in their places here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from heapq import merge
from typing import Any

import msgspec

from betimes.core.errors import Invalid
from betimes.core.instants import Instant
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.domains.intents.folding import COOLING, TYPES
from betimes.domains.intents.model import CONDITION_BASED, FireIntent, IntentState
from betimes.engine.engine import Engine
from betimes.engine.store import PAGE_MAX, LedgerQuery, StreamQuery, StreamRow
from betimes.services.intents_views import ExecutionView, execution_view

COOLING_MAX = 5_000
"""Intents with a running or ended cooldown that one look at what is pending puts in order."""
HISTORY_PAGE = 200


def statuses(trigger_type: str | None, enabled: bool | None) -> list[str | None]:
    """The statuses in the store's index that a filter stands for; `None` is all of them."""
    if trigger_type is None and enabled is None:
        return [None]
    kinds = TYPES if trigger_type is None else (trigger_type,)
    states = ["enabled", COOLING] if enabled else ["disabled"] if enabled is False else ["enabled", COOLING, "disabled"]
    return [f"{state}.{kind}" for kind in kinds for state in states if state != COOLING or kind in CONDITION_BASED]


def state_of(engine: Engine, row: StreamRow) -> IntentState:
    state: IntentState = engine.kinds.of(row.stream).state(row.stream, row.schema, row.state)
    return state


async def listed(engine: Engine, query: StreamQuery, among: list[str | None]) -> list[StreamRow]:
    """Intents of any of these statuses, the last created first, at most as many as the query says."""
    pages = [await engine.store.streams(msgspec.structs.replace(query, status=status)) for status in among]
    merged = merge(*pages, key=lambda row: (row.created_at, row.stream), reverse=True)
    return [row for row, _ in zip(merged, range(query.limit), strict=False)]


Place = tuple[Instant, str]


async def pending(
    engine: Engine, tenant: str, user_id: str | None, in_cooldown: bool | None, after: Place | None, limit: int,
    now: Instant,
) -> list[tuple[Place, IntentState]]:  # fmt: skip
    """Intents to look at, in order of their next check: enabled, not expired, unclaimed, due; at most `limit`."""
    found = [
        ((state.next_check_at or 0, id), state)
        for id, state in await _with_cooldown(engine, tenant, user_id, in_cooldown, now)
        if is_pending(state, now) and in_cooldown in (None, state.is_cooling(now))
    ]
    if in_cooldown is not True:
        plain = 0
        async for id, state in _by_due(engine, tenant, user_id, after, limit, now):
            if is_pending(state, now):
                found.append(((state.next_check_at or 0, id), state))
                plain += 1
            if plain >= limit:
                break
    ordered = sorted((entry for entry in found if after is None or entry[0] > after), key=lambda entry: entry[0])
    return ordered[:limit]


def is_pending(state: IntentState, now: Instant) -> bool:
    """A claim that has run out but is not yet recorded as failed is about to be, so it is not offered either."""
    expires_at = state.definition.expires_at
    return (
        state.enabled
        and state.claim is None
        and state.next_check_at is not None
        and state.next_check_at <= now
        and (expires_at is None or now < expires_at)
    )


async def _with_cooldown(
    engine: Engine, tenant: str, user_id: str | None, in_cooldown: bool | None, now: Instant
) -> list[tuple[str, IntentState]]:
    found: list[tuple[str, IntentState]] = []
    for kind in sorted(CONDITION_BASED):
        query = StreamQuery(tenant=tenant, kind="intent", owner=user_id, status=f"{COOLING}.{kind}", limit=PAGE_MAX,
                            due_before=now if in_cooldown is False else None)  # fmt: skip
        async for row in _rows(engine, query):
            found.append((row.stream.id, state_of(engine, row)))
            if len(found) > COOLING_MAX:
                message = (
                    f"more than {COOLING_MAX:,} intents have a cooldown; ask for one user_id, or in_cooldown=false"
                )
                raise Invalid(message, (("query.user_id", message),))
    return found


async def _by_due(
    engine: Engine, tenant: str, user_id: str | None, after: Place | None, limit: int, now: Instant
) -> AsyncIterator[tuple[str, IntentState]]:
    """Due intents whose next check is what makes them due."""
    begin = (None, None) if after is None else (StreamId(tenant, "intent", after[1]), after[0])
    query = StreamQuery(tenant=tenant, kind="intent", owner=user_id, due_before=now, after=begin[0],
                        after_due_at=begin[1], limit=min(limit * 2, PAGE_MAX))  # fmt: skip
    async for row in _rows(engine, query):
        if not row.status.startswith(COOLING):
            yield row.stream.id, state_of(engine, row)


async def _rows(engine: Engine, query: StreamQuery) -> AsyncIterator[StreamRow]:
    while True:
        rows = await engine.store.streams(query)
        for row in rows:
            yield row
        if len(rows) < query.limit:
            return
        last = rows[-1]
        after_due_at = last.due_at if query.due_before is not None else None
        query = msgspec.structs.replace(query, after=last.stream, after_due_at=after_due_at)


async def executions(engine: Engine, stream: StreamId, after: int, limit: int) -> list[tuple[int, ExecutionView]]:
    """Executions newest first, each with its place in the ledger; from before the place `after`, at most `limit`."""
    found: list[tuple[int, ExecutionView]] = []
    kind = engine.kinds.of(stream)
    while True:
        segments = await engine.store.ledger(
            LedgerQuery(after=after, backwards=True, tenant=stream.tenant, kind=stream.kind, id=stream.id,
                        limit=HISTORY_PAGE)
        )  # fmt: skip
        for segment in segments:
            events: Any = kind.events(segment)
            if view := execution_view(segment, events, _told(kind, segment)):
                found.append((segment.seq, view))
                if len(found) >= limit:
                    return found
        if len(segments) < HISTORY_PAGE:
            return found
        after = segments[-1].seq


def _told(kind: Any, segment: Segment) -> FireIntent | None:
    if segment.command is None or not segment.command.startswith('{"type":"FireIntent"'):
        return None
    command: FireIntent = kind.command(segment.command, segment)
    return command
