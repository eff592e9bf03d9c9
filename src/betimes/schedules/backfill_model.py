"""The stream `backfill`: commands, events, states."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from betimes.core.instants import Instant
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import StreamId
from betimes.domain.completions import RunFinished
from betimes.schedules.model import ScheduleDefinition

BACKFILL_TICKS_MAX = 100_000
BACKFILL_CHECK_S = 60
BACKFILL_STEP = 100
"""Instants a backfill looks at in one turn."""


def backfill_stream(tenant: str, backfill_id: str) -> StreamId:
    return StreamId(tenant, "backfill", backfill_id)


class StartBackfill(StoredMessage):
    """Fire the occurrences in `[from_at, to_at)` that have no tick yet."""

    schedule_id: str
    from_at: Instant
    to_at: Instant
    max_concurrency: int
    total: int
    """Counted before, under this version of the definition."""
    definition_version: int


class AdvanceBackfill(StoredMessage):
    """From the backfill to itself: look at these instants next."""

    schedule_id: str
    instants: tuple[Instant, ...]


class PauseBackfill(StoredMessage): ...


class ResumeBackfill(StoredMessage): ...


class CancelBackfill(StoredMessage): ...


class BackfillFields(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields a backfill begins with, in the event and in the state."""

    schedule_id: str
    definition: ScheduleDefinition
    definition_version: int
    from_at: Instant
    to_at: Instant
    max_concurrency: int
    total: int


class BackfillStarted(BackfillFields, frozen=True, tag=True):
    at: Instant
    check_at: Instant | None = None


class BackfillAdvanced(StoredMessage):
    """Instants up to `through_at` were looked at: those with a tick already, and the runs asked for."""

    through_at: Instant
    at: Instant
    is_old: bool = False
    """All of them had a tick, so that more may be looked at next time."""
    existing: int = 0
    failed: int = 0
    done: int = 0
    """Those that had ended as soon as they were asked for."""
    running: tuple[str, ...] = ()
    check_at: Instant | None = None


class BackfillRunFinished(StoredMessage):
    run_id: str
    status: str
    failed: bool
    check_at: Instant | None = None


class BackfillChecked(StoredMessage):
    """It stood still: because the schedule has not dealt with the next instant yet, or a step was lost."""

    at: Instant
    check_at: Instant | None = None


class BackfillPaused(StoredMessage):
    at: Instant


class BackfillResumed(StoredMessage):
    at: Instant
    check_at: Instant | None = None


class BackfillEnded(StoredMessage):
    status: Literal["completed", "cancelled"]
    at: Instant
    reason: str = ""


class BackfillState(BackfillFields, frozen=True, gc=False):
    created_at: Instant
    through_at: Instant
    status: Literal["running", "paused", "cancelled", "completed"] = "running"
    done: int = 0
    existing: int = 0
    failed: int = 0
    running: tuple[str, ...] = ()
    is_old: bool = False
    check_at: Instant | None = None
    """When to look again if nothing has happened by then."""
    finished_at: Instant | None = None


BackfillCommands: TypeAlias = (
    StartBackfill | AdvanceBackfill | PauseBackfill | ResumeBackfill | CancelBackfill | RunFinished
)
BackfillEvents: TypeAlias = (
    BackfillStarted
    | BackfillAdvanced
    | BackfillRunFinished
    | BackfillChecked
    | BackfillPaused
    | BackfillResumed
    | BackfillEnded
)
