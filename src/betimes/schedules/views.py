"""Schedules, ticks and backfills as people send and see them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Annotated, Literal, TypeAlias

import msgspec

from betimes.core.datetimes import Moment, instant, moment
from betimes.core.instants import Instant
from betimes.core.names import Id
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.run_briefs import RunBrief
from betimes.domain.struct_forms import From, placed, read_only_fields, shown
from betimes.domain.warnings import Remark
from betimes.schedules.backfill_model import BackfillState
from betimes.schedules.model import ScheduleDefinition, ScheduleFields, ScheduleState, SkipReason, TickCause
from betimes.schedules.recurrence import CronField, Dst, EverySeconds, Exclude, Recurrence, ZoneText


class EveryRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An interval of real time; the anchor is its first instant."""

    seconds: EverySeconds
    anchor: Moment | None = None

    @property
    def anchor_at(self) -> Instant:
        return instant(self.anchor) or 0


@shown()
class DstView(Dst, JsonView, frozen=True):
    """The treatment of skipped and repeated local times; an unset field depends on the kind of cron."""


class EveryView(JsonView, frozen=True):
    seconds: int
    anchor: datetime | None


@shown()
class ExcludeView(Exclude, JsonView, frozen=True):
    __doc__ = None


class PreviewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    cron: CronField | None = None
    timezone: ZoneText = "UTC"
    dst: Dst = Dst()
    from_: Moment | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    every: EveryRequest | None = None
    exclude: Exclude | None = None

    def recurrence(self) -> Recurrence:
        return derive(Recurrence, self)


class PreviewTick(JsonView, frozen=True):
    scheduled_for: datetime
    local: str
    """The time on the wall, with its offset."""


class Preview(JsonView, frozen=True):
    items: list[PreviewTick]
    recurrence_text: str
    """The expression in English: `At 07:30 every day`."""


TICKS_SHOWN = 3

# -- schedules


@placed(every="cron", schedule_id="target")
class ScheduleRequest(
    ScheduleFields[Moment, EveryRequest, None], frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """A definition as it is sent; omitted fields have their defaults."""

    schedule_id: Id | None = None

    def __post_init__(self) -> None:
        if (self.cron is None) == (self.every is None):
            raise ValueError("cron: give exactly one of cron and every")

    def definition(self) -> ScheduleDefinition:
        return derive(ScheduleDefinition, self)


ScheduleStatus: TypeAlias = Literal["active", "paused", "ended", "error"]
TickStatus: TypeAlias = Literal["fired", "skipped", "failed"]


@shown(schedule_id=None, every="cron", target="timezone")
class ScheduleView(ScheduleFields[datetime, EveryView, None], JsonView, frozen=True, kw_only=True):
    __doc__ = None

    schedule_id: str
    dst: DstView
    exclude: ExcludeView | None
    status: ScheduleStatus
    recurrence_text: str
    """When it ticks, in English and in its zone: `At 07:30 every day`."""
    paused_reason: Literal["NOT_DECLARED"] | None
    declared_by: str | None
    next_tick_at: datetime | None
    next_ticks: list[datetime]
    """The next three nominal instants, while it is active."""
    last_scheduled_for: datetime | None
    changed_at: datetime
    last_error: str | None
    version: int
    created_at: datetime
    updated_at: datetime


class ScheduleWritten(ScheduleView, frozen=True, kw_only=True):
    """The answer to a write; a write that changed nothing names the last segment."""

    warnings: list[Remark]
    segment_id: str


SCHEDULE_READ_ONLY = read_only_fields(ScheduleWritten, ScheduleRequest)


class ScheduleOutlook(msgspec.Struct, frozen=True):
    """The fields of an answer that are computed from a schedule's state."""

    next_tick_at: Instant | None
    next_ticks: list[datetime]
    recurrence_text: str


def schedule_outlook(state: ScheduleState) -> ScheduleOutlook:
    # The nominal instant, which its run is about; when it is due after its jitter is nobody's business but the alarm's.
    next_tick_at = state.next.tick_at if state.next else None
    ticks = [moment(at) for at in _next_ticks(state)]
    return ScheduleOutlook(next_tick_at, ticks, state.definition.recurrence.describe())


def _next_ticks(state: ScheduleState) -> Iterator[Instant]:
    """Yield the next ticks; only the first is kept, so the others are those of today's zones."""
    if state.next is None:
        return
    yield state.next.tick_at
    ends_at = state.definition.ends_at
    with suppress(ValueError):  # a zone that is not known any more
        for at in islice(state.definition.recurrence.occurrences().after(state.next.tick_at), TICKS_SHOWN - 1):
            if ends_at is not None and at >= ends_at:
                return
            yield at


# -- ticks


class Tick(JsonView, frozen=True, kw_only=True):
    """One tick, or one range of skipped ones."""

    tick_id: str | None
    schedule_id: str
    status: TickStatus
    cause: TickCause
    scheduled_for: datetime
    fired_at: datetime | None = None
    lag_ms: int | None = None
    """Lateness after `scheduled_for`; `null` for a manual tick."""
    run_key: str | None = None
    run_id: str | None = None
    definition_version: int
    asset_selection: tuple[str, ...] = ()
    partition_selection: tuple[str, ...] | None = None
    tzdata_version: str | None = None
    reason: SkipReason | None = None
    count: int | None = None
    first: datetime | None = None
    last: datetime | None = None
    run: RunBrief | None = None
    error: str | None = None
    segment_id: str


# -- backfills


class BackfillRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    from_: Moment
    to: Moment
    max_concurrency: Annotated[int, msgspec.Meta(ge=1, le=100)] = 4


class BackfillView(JsonView, frozen=True, kw_only=True, rename={"from_": "from"}):
    backfill_id: str
    schedule_id: str
    from_: Annotated[datetime, From("from_at")]
    to: datetime
    max_concurrency: int
    status: Literal["running", "paused", "cancelled", "completed"]
    total: int
    done: int
    existing: int
    failed: int
    created_at: datetime
    finished_at: datetime | None


class BackfillWritten(BackfillView, frozen=True, kw_only=True, rename={"from_": "from"}):
    segment_id: str


def backfill_view(backfill_id: str, state: BackfillState) -> BackfillView:
    return derive(BackfillView, state, backfill_id=backfill_id)
