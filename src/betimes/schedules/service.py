"""Schedules as people work with them: definitions, ticks, previews, ticks by hand, backfills."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from msgspec.structs import replace

from betimes.core.canonical import fingerprint
from betimes.core.checks import Examined, Problem, Rule, broken_rules
from betimes.core.cron import restricts_both_days
from betimes.core.datetimes import Moment, instant, moment
from betimes.core.deciders import Command, Event
from betimes.core.errors import Invalid, NotFound, VersionMismatch
from betimes.core.instants import Instant
from betimes.core.names import Id
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import StreamId
from betimes.core.zones import zone
from betimes.domain.definitions import PATCH_TRIES, Definitions, generated_id, raise_problems
from betimes.domain.derivation import derive
from betimes.domain.paging import (
    Page,
    check_filters,
)
from betimes.domain.run_requests import RunRequested
from betimes.domain.segment_lists import list_rows
from betimes.domain.service import check_request
from betimes.domain.warnings import Remark
from betimes.engine.store import LedgerQuery, StreamQuery
from betimes.schedules.backfill_model import (
    BACKFILL_TICKS_MAX,
    BackfillState,
    CancelBackfill,
    PauseBackfill,
    ResumeBackfill,
    StartBackfill,
    backfill_stream,
)
from betimes.schedules.backfills import occurrences
from betimes.schedules.checks import SCHEDULE_RULES, schedule_problems
from betimes.schedules.model import (
    DefineSchedule,
    DeleteSchedule,
    DisableSchedule,
    EnableSchedule,
    ScheduleDefinition,
    ScheduleState,
    ScheduleTicked,
    ShelveSchedule,
    SnapshotTaken,
    TicksSkipped,
    TriggerSchedule,
    tick_id_of,
)
from betimes.schedules.recurrence import RECURRENCE_RULES
from betimes.schedules.views import (
    SCHEDULE_READ_ONLY,
    BackfillRequest,
    BackfillView,
    BackfillWritten,
    Preview,
    PreviewRequest,
    PreviewTick,
    ScheduleRequest,
    ScheduleStatus,
    ScheduleView,
    ScheduleWritten,
    Tick,
    TickStatus,
    backfill_view,
    schedule_outlook,
)

Ticks: TypeAlias = list[Tick]


class Schedules(Definitions[ScheduleRequest, ScheduleView, ScheduleWritten]):
    """The schedules of a tenant."""

    kind = "schedule"
    read_only = SCHEDULE_READ_ONLY
    request_type = ScheduleRequest
    id_prefix = "sch"
    view_type, written_type = ScheduleView, ScheduleWritten
    disable_command = DisableSchedule
    rules = SCHEDULE_RULES

    # -- definitions

    @check_filters
    async def list(
        self, *, status: ScheduleStatus | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[ScheduleView]:
        """List schedules, the last created first."""
        query = StreamQuery(tenant=self.caller.tenant, kind="schedule", among=() if status is None else (status,))
        return await self._list(query, ["schedules", self.caller.tenant, status], limit, cursor, self._view)

    async def delete(self, schedule_id: str, *, if_match: int | None = None) -> None:
        await self.change(self.stream("schedule", schedule_id), DeleteSchedule(if_match))

    async def enable(self, schedule_id: str, *, if_match: int | None = None, key: str | None = None) -> ScheduleWritten:
        return await self._change_definition(self.stream("schedule", schedule_id), EnableSchedule(if_match), key)

    async def disable(
        self, schedule_id: str, *, if_match: int | None = None, key: str | None = None
    ) -> ScheduleWritten:
        return await self._change_definition(self.stream("schedule", schedule_id), DisableSchedule(if_match), key)

    async def _define(
        self, id: str, asked: ScheduleRequest, if_version: int | None, key: str | None, request: str
    ) -> ScheduleWritten:
        definition = asked.definition()
        found, stream = schedule_problems(id, definition), self.stream("schedule", id)
        await self.demand_scopes(stream, definition)
        await self.demand_sound(stream, definition, found)
        self.demand_readable(definition.target)
        kind = DefineSchedule if definition.enabled else ShelveSchedule
        command = kind(definition, if_version, self.caller.application, self.caller.scopes)
        return await self._change_definition(stream, command, key, request)

    def _shown_fields(self, state: ScheduleState) -> tuple[Any, ...]:
        return schedule_outlook(state), state.definition, state

    def _warnings(self, state: ScheduleState) -> builtins.list[Remark]:
        definition, found = state.definition, []
        if definition.enabled and state.next is None:
            found.append(Remark("cron", "it does not occur any more"))
        if any(restricts_both_days(cron) for cron in definition.recurrence.crons):
            found.append(Remark("cron", "it occurs when either the day of the month or the day of the week matches"))
        return found

    # -- time

    async def preview(self, request: PreviewRequest | Mapping[str, Any] | Examined[PreviewRequest]) -> Preview:
        """Return the next ticks of an expression, without saving it.

        A dry run: nothing is changed or recorded.
        """
        request = check_request(request, PreviewRequest, RECURRENCE_RULES)
        start = instant(request.from_) if request.from_ else await self.engine.store.now()
        raise_problems(tuple(broken_rules(request, RECURRENCE_RULES)))
        recurrence = request.recurrence()
        zoned = zone(request.timezone)
        ticks = islice(recurrence.occurrences().after(start - 1), request.count)
        items = [PreviewTick(moment(at), moment(at).astimezone(zoned).isoformat()) for at in ticks]
        return Preview(items, recurrence.describe())

    async def trigger(
        self,
        schedule_id: str,
        payload: dict[str, Any] | None = None,
        *,
        if_match: int | None = None,
        key: str | None = None,
    ) -> Tick:
        """Tick now, in any status; a payload of one's own needs the scope of the target it reaches."""
        stream = self.stream("schedule", schedule_id)
        if payload is not None and self.caller.scopes is not None:
            state: ScheduleState | None = await self.state(stream)
            if state and payload != state.definition.payload:
                self._demand_scopes_of(state.definition)
        recorded = await self.change(stream, TriggerSchedule(payload, if_match), key=key)
        segment = await self.segment(stream, recorded.reply.segment)
        ticks = [] if segment is None else _manual_ticks(segment, self.events_in(segment))
        if not ticks:
            raise NotFound(f"the tick {recorded.segment_id} was pruned")
        return (await self._with_runs(ticks))[0]

    @check_filters
    async def ticks(
        self, schedule_id: str, *, status: TickStatus | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Tick]:
        """List the ticks that were fired, skipped or failed, newest first."""
        stream = self.stream("schedule", schedule_id)
        await self.require_history(stream)
        filters = ["ticks", self.caller.tenant, schedule_id, status]
        return await self._read_ticks(stream, filters, status, limit, cursor)

    @check_filters
    async def all_ticks(
        self,
        *,
        schedule_id: Id | None = None,
        status: TickStatus | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Tick]:
        """List the ticks of all schedules, or of one, newest first.

        Recorded from `since` on, before `until`.
        """
        filters = ["all ticks", self.caller.tenant, schedule_id, status, since, until]
        query = LedgerQuery(
            tenant=self.caller.tenant, kind="schedule", id=schedule_id, since_at=instant(since), until_at=instant(until)
        )
        return await self._read_ticks(query, filters, status, limit, cursor)

    async def _read_ticks(
        self, source: StreamId | LedgerQuery, filters: Any, status: str | None, limit: int, cursor: str | None
    ) -> Page[Tick]:
        found, more = await list_rows(
            self.engine, source, _tick_rows, filters, limit, cursor, lambda tick: status in (None, tick.status)
        )
        found.items = await self._with_runs(found.items)
        return found.page(more)

    async def _with_runs(self, ticks: Ticks) -> Ticks:
        runs = await self.runs([tick.run_id for tick in ticks if tick.run_id])
        return [replace(tick, run=runs.get(tick.run_id)) if tick.run_id else tick for tick in ticks]

    # -- backfills

    async def backfill(
        self,
        schedule_id: str,
        request: BackfillRequest | Mapping[str, Any] | Examined[BackfillRequest],
        *,
        if_match: int | None = None,
        key: str | None = None,
    ) -> BackfillWritten:
        """Fire the ticks of a range that were never fired."""
        now = await self.engine.store.now()
        rules = _range_rules(now)
        request = check_request(request, BackfillRequest, rules)
        from_at, to_at = instant(request.from_), instant(request.to)
        sent = self.caller.request or fingerprint((schedule_id, from_at, to_at, request.max_concurrency))
        if key and (again := await self.find_recorded(key, "backfills", sent)):
            return await self._backfill_written(again)
        raise_problems(tuple(broken_rules(request, rules)))
        stream = backfill_stream(self.caller.tenant, generated_id("bf", key))
        for _ in range(PATCH_TRIES):
            schedule: ScheduleState = await self.require_state(self.stream("schedule", schedule_id))
            _demand_version(schedule_id, schedule, if_match)
            # Counting may take long, so it happens outside the lock; a definition that changed meanwhile is refused.
            total = await asyncio.to_thread(_count_ticks, schedule.definition, from_at, to_at)
            command = StartBackfill(schedule_id, from_at, to_at, request.max_concurrency, total, schedule.version)
            try:
                recorded = await self.change(stream, command, key=key, request=sent if key else "")
            except VersionMismatch:
                continue
            return await self._backfill_written(recorded)
        raise VersionMismatch(f"the schedule {schedule_id!r} was changed by others at every attempt; try again")

    @check_filters
    async def backfills(self, schedule_id: str, *, limit: int = 50, cursor: str | None = None) -> Page[BackfillView]:
        """List the backfills of a schedule, the last started first."""
        query = StreamQuery(tenant=self.caller.tenant, kind="backfill", owner=schedule_id)
        return await self._list(query, ["backfills", self.caller.tenant, schedule_id], limit, cursor, backfill_view)

    async def get_backfill(self, schedule_id: str, backfill_id: str) -> BackfillView:
        return backfill_view(backfill_id, await self._found_backfill(schedule_id, backfill_id))

    async def pause_backfill(self, schedule_id: str, backfill_id: str, *, key: str | None = None) -> BackfillWritten:
        return await self._change_backfill(schedule_id, backfill_id, PauseBackfill(), key)

    async def resume_backfill(self, schedule_id: str, backfill_id: str, *, key: str | None = None) -> BackfillWritten:
        return await self._change_backfill(schedule_id, backfill_id, ResumeBackfill(), key)

    async def cancel_backfill(self, schedule_id: str, backfill_id: str, *, key: str | None = None) -> BackfillWritten:
        return await self._change_backfill(schedule_id, backfill_id, CancelBackfill(), key)

    async def _change_backfill(
        self, schedule_id: str, backfill_id: str, command: Command, key: str | None
    ) -> BackfillWritten:
        await self._found_backfill(schedule_id, backfill_id)
        recorded = await self.change(self.stream("backfill", backfill_id), command, key=key)
        return await self._backfill_written(recorded)

    async def _backfill_written(self, recorded: Recorded) -> BackfillWritten:
        state, backfill_id = await self.state_after(recorded), recorded.stream.id
        return derive(BackfillWritten, state, backfill_id=backfill_id, segment_id=recorded.segment_id)

    async def _found_backfill(self, schedule_id: str, backfill_id: str) -> BackfillState:
        state: BackfillState = await self.require_state(self.stream("backfill", backfill_id))
        if state.schedule_id != schedule_id:
            raise NotFound(f"there is no backfill {backfill_id!r} of the schedule {schedule_id!r}")
        return state


def _demand_version(schedule_id: str, schedule: ScheduleState, expected: int | None) -> None:
    if expected not in (None, schedule.version):
        told = f"the schedule {schedule_id!r} is at version {schedule.version}, not {expected}; read it again"
        raise VersionMismatch(told)


def _count_ticks(definition: ScheduleDefinition, from_at: Instant, to_at: Instant) -> int:
    total = sum(1 for _ in islice(occurrences(definition, from_at, to_at), BACKFILL_TICKS_MAX + 1))
    if total > BACKFILL_TICKS_MAX:
        raise Invalid(
            f"the range has more than {BACKFILL_TICKS_MAX:,} ticks; take a shorter one",
            (("to", f"more than {BACKFILL_TICKS_MAX:,} ticks"),),
        )
    return total


def _manual_ticks(segment: Segment, events: Sequence[Event]) -> Ticks:
    return [tick for _, tick in _tick_rows(segment, events) if tick.cause == "manual"]


def _tick_rows(segment: Segment, events: Sequence[Event]) -> Iterator[tuple[int, Tick]]:
    """Yield the ticks that a segment records, in its order, each with its place."""
    snapshot = SnapshotTaken(0, "")
    tzdata_version = next((found for event in events if (found := getattr(event, "tzdata_version", None))), None)
    for place, event in enumerate(events, start=1):
        match event:
            case SnapshotTaken():
                snapshot = event
            case TicksSkipped():
                yield place, _skipped_view(segment, event, tzdata_version)
            case ScheduleTicked():
                after = events[place] if place < len(events) else None
                yield place, _tick_view(segment, event, snapshot, after if isinstance(after, RunRequested) else None)
            case _:
                continue


def _skipped_view(segment: Segment, event: TicksSkipped, tzdata_version: str | None) -> Tick:
    return derive(
        Tick,
        event,
        tick_id=None,
        schedule_id=segment.stream.id,
        status="skipped",
        cause="cron",
        scheduled_for=event.first,
        tzdata_version=tzdata_version,
        segment_id=segment.handle,
    )


def _tick_view(segment: Segment, event: ScheduleTicked, snapshot: SnapshotTaken, run: RunRequested | None) -> Tick:
    schedule_id, manual = segment.stream.id, event.cause == "manual"
    return derive(
        Tick,
        event,
        snapshot,
        tick_id=tick_id_of(schedule_id, event.scheduled_for, manual),
        schedule_id=schedule_id,
        status="failed" if event.error else "fired",
        run_key=run.run_key if run else None,
        run_id=run.run_id if run else None,
        segment_id=segment.handle,
    )


def _range_rules(now: Instant) -> tuple[Rule[BackfillRequest], ...]:
    """Return what holds for the range of a backfill."""

    def ends_after_start(request: BackfillRequest) -> Iterable[Problem]:
        return (("to", "must be later than from"),) if instant(request.to) <= instant(request.from_) else ()

    def is_past(request: BackfillRequest) -> Iterable[Problem]:
        return (("to", "must not be in the future"),) if instant(request.to) > now else ()

    return ends_after_start, is_past
