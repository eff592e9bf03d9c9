"""The stream `schedule`: commands, events, states.

A schedule's state holds its definition, up to where its occurrences have been dealt with, and the next one. A wake
writes one segment: `ScheduleAdvanced`, what was skipped, the snapshot it went by, then a `ScheduleTicked` and its
`RunRequested` for each tick, oldest first. The model of `backfill` streams is in `backfill_model`.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UnsetType

from betimes.core.instants import SECOND, Instant, epoch_down
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import StreamId
from betimes.domain.completions import RunFinished
from betimes.domain.definition_rules import (
    ChangeIfVersion,
    DefinitionDeleted,
    OwnerDeclared,
    PausedReason,
    PauseIfVersion,
)
from betimes.domain.run_requests import RunRequested, Selection
from betimes.domain.struct_forms import LEFT_OUT, stored
from betimes.domain.targets import Target
from betimes.schedules.recurrence import CronField, Dst, Every, Exclude, Partition, Recurrence, ZoneText

At = TypeVar("At")
EveryForm = TypeVar("EveryForm")
Absent = TypeVar("Absent")

CATCHUP_TICKS_MAX = 1_000
COUNT_MAX = 10_000
"""Occurrences of a skipped range that are counted; past it the count is not known."""
UNFINISHED_MAX = 64

TickCause: TypeAlias = Literal["cron", "catchup", "manual", "backfill"]
SkipReason: TypeAlias = Literal["MISSED_OUTSIDE_WINDOW", "OVER_CATCHUP_LIMIT", "PAUSED", "OVERLAP"]


def schedule_stream(tenant: str, schedule_id: str) -> StreamId:
    return StreamId(tenant, "schedule", schedule_id)


def tick_id_of(schedule_id: str, scheduled_for: Instant, manual: bool = False) -> str:
    return f"{schedule_id}:{'manual:' if manual else ''}{epoch_down(scheduled_for)}"


def run_key_of(schedule_id: str, scheduled_for: Instant, manual: bool = False) -> str:
    return f"sched:{tick_id_of(schedule_id, scheduled_for, manual)}"


def lag_ms(cause: str, scheduled_for: Instant, fired_at: Instant) -> int | None:
    """Return how late a tick fired; `None` of one asked for by hand: its `scheduled_for` is only cut to the second."""
    return None if cause == "manual" else (fired_at - scheduled_for) // 1_000


# -- definitions


class ScheduleFields(msgspec.Struct, Generic[At, EveryForm, Absent], frozen=True, kw_only=True):
    """The fields of a schedule that its author decides, each once; a new one is one line at the end.

    A new field is absent where it is not set (`| Absent = LEFT_OUT`), so that older states are replayed to the byte.
    """

    cron: CronField | Absent = LEFT_OUT
    target: Target
    timezone: ZoneText = "UTC"
    asset_selection: Selection = ()
    partition_selection: Selection | None = None
    payload: dict[str, Any] = {}
    max_catchup_ticks: Annotated[int, msgspec.Meta(ge=1, le=CATCHUP_TICKS_MAX)] = 1
    catchup_window_minutes: Annotated[int, msgspec.Meta(ge=1, le=525_600)] = 1_440
    catchup_keep: Literal["newest", "oldest"] = "newest"
    jitter_seconds: Annotated[int, msgspec.Meta(ge=0, le=3_600)] = 0
    overlap: Literal["allow", "skip"] = "allow"
    dst: Dst = Dst()
    enabled: bool = True
    # It may tick from `starts_at` on, and from `ends_at` on it does not tick any more.
    starts_at: At | None = None
    ends_at: At | None = None
    every: EveryForm | Absent = LEFT_OUT
    exclude: Exclude | Absent = LEFT_OUT
    partition: Partition | Absent = LEFT_OUT


@stored()
class ScheduleDefinition(ScheduleFields[Instant, Every, UnsetType], frozen=True, gc=False, kw_only=True):
    """A schedule as it is kept, apart from its id and its progress."""

    @property
    def recurrence(self) -> Recurrence:
        return Recurrence(cron=self.cron, every=self.every, timezone=self.timezone, dst=self.dst, exclude=self.exclude)


class Upcoming(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The next tick: its nominal instant, and when it is due after its jitter."""

    tick_at: Instant
    due_at: Instant


# -- schedule: commands


class _ScheduleCommand(msgspec.Struct, frozen=True, omit_defaults=True):
    definition: ScheduleDefinition
    if_version: int | None = None
    """Only if this is the current version; 0: only if there is none."""
    declared_by: str = ""
    """The application whose code says so; empty: keep whose it is."""
    authority: tuple[str, ...] | None = None
    """The scopes of the key that defines it; `None` is everything, for callers within the process."""


class DefineSchedule(_ScheduleCommand, frozen=True, tag=True):
    """Create or replace the definition; what the old one owes is fired first."""


class ShelveSchedule(_ScheduleCommand, frozen=True, tag=True):
    """The same with a definition that is not enabled: what the old one owes is not fired."""


class EnableSchedule(ChangeIfVersion, frozen=True, tag=True):
    """Let it tick from now on; this also leaves the status `error`."""


class DisableSchedule(PauseIfVersion, frozen=True, tag=True): ...


class DeleteSchedule(ChangeIfVersion, frozen=True, tag=True): ...


class TriggerSchedule(StoredMessage):
    """Tick now, in any status."""

    payload: dict[str, Any] | None = None
    """In place of the definition's."""
    if_version: int | None = None
    """Only of this version of the definition."""


# -- schedule: events


class ScheduleDefined(StoredMessage):
    """The definition from now on; it is `enabled` or paused as it says itself."""

    definition: ScheduleDefinition
    version: int
    at: Instant
    tzdata_version: str
    next: Upcoming | None = None
    authority: tuple[str, ...] | None = None


class ScheduleEnabled(StoredMessage):
    version: int
    at: Instant
    tzdata_version: str
    next: Upcoming | None = None


class ScheduleDisabled(StoredMessage):
    version: int
    at: Instant
    reason: PausedReason = ""


class ScheduleDeclared(OwnerDeclared, frozen=True, tag=True): ...


class ScheduleDeleted(DefinitionDeleted, frozen=True, tag=True): ...


class ScheduleAdvanced(StoredMessage):
    """Occurrences up to `through_at` are dealt with in this segment; `next` is the one to wait for."""

    at: Instant
    tzdata_version: str
    through_at: Instant | None = None
    next: Upcoming | None = None


class SnapshotTaken(StoredMessage):
    """The part of the definition that the following ticks of this segment were made from."""

    definition_version: int
    tzdata_version: str
    asset_selection: tuple[str, ...] = ()
    partition_selection: tuple[str, ...] | None = None


class TicksSkipped(StoredMessage):
    """Occurrences that were not fired, and never will be by themselves."""

    reason: SkipReason
    first: Instant
    last: Instant
    count: int | None = None
    """Not known past `COUNT_MAX`."""
    definition_version: int = 0


class ManualTick(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The last tick asked for by hand: again in the same second it is the same."""

    scheduled_for: Instant
    fingerprint: str
    segment: int

    def is_in(self, now: Instant) -> bool:
        return self.scheduled_for // SECOND == now // SECOND


class ScheduleTicked(StoredMessage):
    """One tick, fired at `fired_at` for its nominal instant."""

    scheduled_for: Instant
    fired_at: Instant
    cause: TickCause = "cron"
    tell: bool = False
    """Its run counts as unfinished until its end is reported."""
    run_id: str = ""
    error: str = ""
    """Why nothing was requested; a tick with an error has failed."""
    manual: ManualTick | None = None

    @property
    def lag_ms(self) -> int | None:
        return lag_ms(self.cause, self.scheduled_for, self.fired_at)


class ScheduleFailed(StoredMessage):
    """It cannot tell its ticks any more: the zone is gone. It waits to be changed or enabled again."""

    error: str
    at: Instant


class TickRef(msgspec.Struct, frozen=True):
    """The reply to a tick requested by hand: the version of the segment that holds it."""

    segment: int


class ScheduledRunFinished(StoredMessage):
    run_id: str
    status: str


class ScheduleState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    definition: ScheduleDefinition
    version: int
    created_at: Instant
    updated_at: Instant
    changed_at: Instant
    """When it was made, changed or enabled last: nothing from before is fired."""
    status: Literal["active", "paused", "ended", "error"] = "active"
    through_at: Instant | None = None
    """Occurrences up to here are dealt with."""
    last_scheduled_for: Instant | None = None
    next: Upcoming | None = None
    unfinished: tuple[str, ...] = ()
    """Runs that have not ended yet, when overlaps are to be skipped."""
    manual: ManualTick | None = None
    last_error: str = ""
    declared_by: str = ""
    paused_reason: PausedReason = ""
    authority: tuple[str, ...] | None = None
    """The scopes of the key that defined its target."""

    @property
    def floor_at(self) -> Instant:
        """Return the instant up to which no occurrence fires any more."""
        return max(self.through_at or 0, self.created_at, self.changed_at)


ScheduleCommands: TypeAlias = (
    DefineSchedule | ShelveSchedule | EnableSchedule | DisableSchedule | DeleteSchedule | TriggerSchedule | RunFinished
)
ScheduleEvents: TypeAlias = (
    ScheduleDefined
    | ScheduleEnabled
    | ScheduleDisabled
    | ScheduleDeleted
    | ScheduleAdvanced
    | SnapshotTaken
    | TicksSkipped
    | ScheduleTicked
    | RunRequested
    | ScheduleFailed
    | ScheduledRunFinished
    | ScheduleDeclared
)
