"""Routes of schedules, their ticks and backfills."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.core.canonical import encode
from betimes.core.checks import Examined
from betimes.domain.definition_rules import PAYLOAD_BYTES_MAX
from betimes.http.definitions import DefinitionRoutes
from betimes.http.routes import Answer, RequestContext, answer_of
from betimes.http.service_calls import ServiceRoutes
from betimes.schedules.service import Schedules
from betimes.schedules.views import BackfillRequest, BackfillWritten, Tick

TAG = "Automation"
SCHEDULE = "/v1/schedules/{schedule_id}"
BACKFILL = f"{SCHEDULE}/backfills/{{backfill_id}}"
READ, WRITE = "automation:read", "automation:write"


class TickNowRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    payload: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if len(encode(self.payload).encode()) > PAYLOAD_BYTES_MAX:
            raise ValueError(f"payload: at most {PAYLOAD_BYTES_MAX:,} bytes")


async def trigger(request: RequestContext[TickNowRequest]) -> Answer[Tick]:
    schedules = request.services.schedules
    tick = await schedules.trigger(
        request.path["schedule_id"], request.body.payload, if_match=request.if_match, key=request.idempotency_key
    )
    return answer_of(schedules, tick)


async def start_backfill(request: RequestContext[Examined[BackfillRequest]]) -> Answer[BackfillWritten]:
    schedules, schedule_id = request.services.schedules, request.path["schedule_id"]
    view = await schedules.backfill(schedule_id, request.body, if_match=request.if_match, key=request.idempotency_key)
    return answer_of(schedules, view, location=f"/v1/schedules/{schedule_id}/backfills/{view.backfill_id}")


_schedules = ServiceRoutes(lambda request: request.services.schedules, TAG, read=READ, write=WRITE)
_definitions = DefinitionRoutes(
    "schedule",
    _schedules,
    Schedules,
    example={
        "schedule_id": "brief",
        "cron": "0 7 * * *",
        "timezone": "Europe/Berlin",
        "target": {"kind": "handler", "name": "brief"},
    },
)

ROUTES = (
    *_definitions.routes(),
    _schedules.post(
        "/v1/schedules/preview",
        Schedules.preview,
        "The next ticks of an expression",
        scope=READ,
        example={"cron": "30 2 * * *", "timezone": "Europe/Berlin", "count": 3},
    ),
    _schedules.post(
        f"{SCHEDULE}/trigger",
        trigger,
        "Tick now",
        description="In any status. Again in the same second it is the same tick.",
        body_optional=True,
        conditional=True,
        codes=((409, "RUN_KEY_CONFLICT"), (412, "VERSION_MISMATCH")),
    ),
    _schedules.get(f"{SCHEDULE}/ticks", Schedules.ticks, "Ticks that were fired, skipped or failed, newest first"),
    _schedules.get("/v1/ticks", Schedules.all_ticks, "Ticks of all schedules, newest first"),
    _schedules.post(
        f"{SCHEDULE}/backfills",
        start_backfill,
        "Start a backfill: fire the missing ticks of a range",
        status=201,
        conditional=True,
        codes=((412, "VERSION_MISMATCH"),),
        example={"from": "2026-01-01T00:00:00Z", "to": "2026-01-05T00:00:00Z"},
    ),
    _schedules.get(f"{SCHEDULE}/backfills", Schedules.backfills, "A schedule's backfills, newest first"),
    _schedules.get(BACKFILL, Schedules.get_backfill, "A backfill"),
    *(
        _schedules.post(f"{BACKFILL}/{verb}", method, f"{verb.capitalize()} a backfill", codes=((409, "WRONG_STATE"),))
        for verb, method in (
            ("pause", Schedules.pause_backfill),
            ("resume", Schedules.resume_backfill),
            ("cancel", Schedules.cancel_backfill),
        )
    ),
)
