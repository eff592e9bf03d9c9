"""Briefs of runs: the part of a run that a tick or an evaluation shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from msgspec.structs import replace

from betimes.core.datetimes import moment
from betimes.core.streams import StreamId
from betimes.domain.json_view import JsonView
from betimes.engine.store import PAGE_MAX, EffectQuery, EffectRow, Store
from betimes.runs.model import RunState


class RunVerdict(JsonView, frozen=True):
    result: Literal["ALLOW", "SKIP"]
    reason: str


class RunBrief(JsonView, frozen=True):
    """The status of a run, the verdict of the gate if it met the gate, and why it failed or was not delivered."""

    status: str
    verdict: RunVerdict | None
    error: str | None = None
    """Its error; for a call that will be retried, the error of the last attempt."""
    allowed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempts: int = 0
    """Attempts of a call that failed and will be retried."""
    next_attempt_at: datetime | None = None


async def find_failing_calls(store: Store, sources: Iterable[StreamId]) -> dict[StreamId, EffectRow]:
    """Return the newest calls of these streams that failed and are tried again, by the run each was made for.

    A stream named so many times is looked through for twice as many calls: what nobody carries out may be a long row.
    """
    query = EffectQuery(status="pending", newest_first=True)
    pages = [
        await store.effects(replace(query, source=source, limit=min(2 * count, PAGE_MAX)))
        for source, count in Counter(sources).items()
    ]
    return {row.to: row for page in pages for row in page if row.to and row.last_error}


def run_brief(state: RunState | None, call: EffectRow | None = None) -> RunBrief | None:
    """Return the brief of a run, and of the call for it that is tried again, if there is one."""
    if state is None:
        return None
    status = state.ending or ("done" if state.target == "command" else state.status)
    if state.status == "skipped":
        return RunBrief(status, RunVerdict("SKIP", state.reason))
    verdict = RunVerdict("ALLOW", "WITHIN_LIMITS") if state.allowed_at is not None else None
    return RunBrief(
        status,
        verdict,
        state.error or state.reason or (call.last_error if call else None) or None,
        moment(state.allowed_at),
        moment(state.started_at),
        moment(state.finished_at),
        call.attempts if call else 0,
        moment(call.next_attempt_at) if call else None,
    )
