"""Routes of schedules, their ticks and backfills."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from betimes.core.canonical import encode
from betimes.core.datetimes import Moment
from betimes.core.names import Id
from betimes.domain.definition_rules import PAYLOAD_BYTES_MAX
from betimes.domain.paging import Page
from betimes.http.definitions import DefinitionRoutes
from betimes.http.routes import Answer, Listed, RequestContext, Route, answer_of
from betimes.schedules.recurrence_views import Preview, PreviewRequest
from betimes.schedules.views import (
    SCHEDULE_READ_ONLY,
    BackfillRequest,
    BackfillView,
    BackfillWritten,
    ScheduleRequest,
    ScheduleStatus,
    ScheduleView,
    ScheduleWritten,
    Tick,
    TickStatus,
)

TAG = "Automation"
SCHEDULE = "/v1/schedules/{schedule_id}"
BACKFILL = f"{SCHEDULE}/backfills/{{backfill_id}}"
READ, WRITE = "automation:read", "automation:write"


class ScheduleFilters(Listed, frozen=True, forbid_unknown_fields=True):
    status: ScheduleStatus | None = None


class TickFilters(Listed, frozen=True, forbid_unknown_fields=True):
    status: TickStatus | None = None


class AllTicksFilters(TickFilters, frozen=True, forbid_unknown_fields=True):
    schedule_id: Id | None = None
    since: Moment | None = None
    until: Moment | None = None


class TickNowRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    payload: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if len(encode(self.payload).encode()) > PAYLOAD_BYTES_MAX:
            raise ValueError(f"payload: at most {PAYLOAD_BYTES_MAX:,} bytes")


async def preview(request: RequestContext) -> Preview:
    return await request.services.schedules.preview(request.body)


async def trigger(request: RequestContext) -> Answer:
    schedules = request.services.schedules
    tick = await schedules.trigger(request.path["schedule_id"], request.body.payload, key=request.idempotency_key)
    return answer_of(schedules, tick)


async def ticks(request: RequestContext) -> Page[Tick]:
    return await request.services.schedules.ticks(request.path["schedule_id"], **msgspec.structs.asdict(request.query))


async def all_ticks(request: RequestContext) -> Page[Tick]:
    return await request.services.schedules.all_ticks(**msgspec.structs.asdict(request.query))


async def start_backfill(request: RequestContext) -> Answer:
    schedules, schedule_id = request.services.schedules, request.path["schedule_id"]
    view = await schedules.backfill(schedule_id, request.body, key=request.idempotency_key)
    return answer_of(schedules, view, location=f"/v1/schedules/{schedule_id}/backfills/{view.backfill_id}")


async def backfills(request: RequestContext) -> Page[BackfillView]:
    return await request.services.schedules.backfills(
        request.path["schedule_id"], **msgspec.structs.asdict(request.query)
    )


async def backfill(request: RequestContext) -> BackfillView:
    return await request.services.schedules.get_backfill(request.path["schedule_id"], request.path["backfill_id"])


async def pause_backfill(request: RequestContext) -> Answer:
    schedules = request.services.schedules
    return answer_of(schedules, await schedules.pause_backfill(**request.path, key=request.idempotency_key))


async def resume_backfill(request: RequestContext) -> Answer:
    schedules = request.services.schedules
    return answer_of(schedules, await schedules.resume_backfill(**request.path, key=request.idempotency_key))


async def cancel_backfill(request: RequestContext) -> Answer:
    schedules = request.services.schedules
    return answer_of(schedules, await schedules.cancel_backfill(**request.path, key=request.idempotency_key))


SCHEDULES = DefinitionRoutes(
    noun="schedule",
    domain="automation",
    tag=TAG,
    service=lambda request: request.services.schedules,
    request=ScheduleRequest,
    body=ScheduleRequest,
    view=ScheduleView,
    page=Page[ScheduleView],
    written=ScheduleWritten,
    filters=ScheduleFilters,
    read_only=SCHEDULE_READ_ONLY,
    judges_body=True,
    example={
        "schedule_id": "brief",
        "cron": "0 7 * * *",
        "timezone": "Europe/Berlin",
        "target": {"kind": "handler", "name": "brief"},
    },
)

_get = partial(Route, method="GET", scope=READ, tag=TAG)
_post = partial(Route, method="POST", scope=WRITE, tag=TAG)

ROUTES = (
    *SCHEDULES.routes(),
    _post(
        "/v1/schedules/preview",
        preview,
        "The next ticks of an expression",
        scope=READ,
        description="A dry run: nothing is changed or recorded.",
        body=PreviewRequest,
        judges_body=True,
        reply=Preview,
        example={"cron": "30 2 * * *", "timezone": "Europe/Berlin", "count": 3},
    ),
    _post(
        f"{SCHEDULE}/trigger",
        trigger,
        "Tick now",
        description="In any status. Again in the same second it is the same tick.",
        body=TickNowRequest,
        body_optional=True,
        reply=Tick,
        codes=((409, "RUN_KEY_CONFLICT"),),
    ),
    _get(
        f"{SCHEDULE}/ticks",
        ticks,
        "Ticks that were fired, skipped or failed, newest first",
        query=TickFilters,
        reply=Page[Tick],
    ),
    _get(
        "/v1/ticks",
        all_ticks,
        "Ticks of all schedules, newest first",
        description="Those that were recorded between `since`, included, and `until`.",
        query=AllTicksFilters,
        reply=Page[Tick],
    ),
    _post(
        f"{SCHEDULE}/backfills",
        start_backfill,
        "Fire the ticks of a range that were never fired",
        body=BackfillRequest,
        judges_body=True,
        reply=BackfillWritten,
        status=201,
        example={"from": "2026-01-01T00:00:00Z", "to": "2026-01-05T00:00:00Z"},
    ),
    _get(
        f"{SCHEDULE}/backfills",
        backfills,
        "A schedule's backfills, newest first",
        query=Listed,
        reply=Page[BackfillView],
    ),
    _get(BACKFILL, backfill, "A backfill", reply=BackfillView),
    *(
        _post(
            f"{BACKFILL}/{verb}",
            answer,
            f"{verb.capitalize()} a backfill",
            reply=BackfillWritten,
            codes=((409, "WRONG_STATE"),),
        )
        for verb, answer in (("pause", pause_backfill), ("resume", resume_backfill), ("cancel", cancel_backfill))
    ),
)
