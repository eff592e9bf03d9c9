"""Routes of automation: schedules with their ticks and backfills, sensors with their messages and evaluations.

A message comes with an API key, or with the proof its sensor asks for; then nobody learns which tenants and sensors
there are.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from betimes.api.batches import batch
from betimes.api.definitions import Definitions
from betimes.api.problems import HttpProblem
from betimes.api.routes import Answer, Ask, Listed, Route, answer_of
from betimes.core.canonical import encode
from betimes.core.errors import Invalid, Refused
from betimes.domains.automation.messages import BATCH, CloudEvent, NotJson, PlainMessage, is_batch
from betimes.domains.automation.model import PAYLOAD_BYTES_MAX
from betimes.domains.automation.sensor_model import MESSAGE_ID_CHARS_MAX
from betimes.services.automation_views import (
    SCHEDULE_READ_ONLY,
    SENSOR_READ_ONLY,
    BackfillRequest,
    BackfillView,
    BackfillWritten,
    EvaluationView,
    EvaluationViewStatus,
    ScheduleRequest,
    ScheduleStatus,
    ScheduleView,
    ScheduleWritten,
    SecretView,
    SensorRequest,
    SensorStatus,
    SensorType,
    SensorView,
    SensorWritten,
    Tick,
    TickStatus,
)
from betimes.services.caller import Caller
from betimes.services.pages import Page
from betimes.services.recurrence_views import Preview, PreviewRequest
from betimes.services.sensor_proof import Proof
from betimes.services.sensors import UNPROVEN, Sensors

TAG = "Automation"
SCHEDULE, SENSOR = "/v1/schedules/{schedule_id}", "/v1/sensors/{sensor_id}"
BACKFILL = f"{SCHEDULE}/backfills/{{backfill_id}}"
READ, WRITE = "automation:read", "automation:write"
EVALUATE_LIMIT_S = 330.0
"""A sensor's evaluator has at most 300 s."""


class ScheduleFilters(Listed, frozen=True, forbid_unknown_fields=True):
    status: ScheduleStatus | None = None


class SensorFilters(Listed, frozen=True, forbid_unknown_fields=True):
    status: SensorStatus | None = None
    sensor_type: SensorType | None = None


class TickFilters(Listed, frozen=True, forbid_unknown_fields=True):
    status: TickStatus | None = None


class EvaluationFilters(Listed, frozen=True, forbid_unknown_fields=True):
    status: EvaluationViewStatus | None = None
    message_id: Annotated[str, msgspec.Meta(min_length=1, max_length=MESSAGE_ID_CHARS_MAX)] | None = None


class TickNowRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    payload: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if len(encode(self.payload).encode()) > PAYLOAD_BYTES_MAX:
            raise ValueError(f"payload: at most {PAYLOAD_BYTES_MAX:,} bytes")


class PollRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dry_run: bool = False


class CursorRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    state_version: Annotated[int, msgspec.Meta(ge=1)]
    """Of the sensor as it was read; 412 if it has moved since."""
    cursor: Any = None
    """Any JSON; left out or null, the evaluator starts anew."""


class ProofQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a sender without an API key."""

    tenant: str | None = None
    token: str | None = None


# -- schedules


async def preview(ask: Ask) -> Preview:
    return await ask.services.schedules.preview(ask.body)


async def trigger(ask: Ask) -> Answer:
    schedules = ask.services.schedules
    tick = await schedules.trigger(ask.path["schedule_id"], ask.body.payload, key=ask.idempotency_key)
    return answer_of(schedules, tick)


async def ticks(ask: Ask) -> Page[Tick]:
    return await ask.services.schedules.ticks(ask.path["schedule_id"], **msgspec.structs.asdict(ask.query))


async def start_backfill(ask: Ask) -> Answer:
    schedules, schedule_id = ask.services.schedules, ask.path["schedule_id"]
    view = await schedules.backfill(schedule_id, ask.body, key=ask.idempotency_key)
    return answer_of(schedules, view, location=f"/v1/schedules/{schedule_id}/backfills/{view.backfill_id}")


async def backfills(ask: Ask) -> Page[BackfillView]:
    return await ask.services.schedules.backfills(ask.path["schedule_id"], **msgspec.structs.asdict(ask.query))


async def backfill(ask: Ask) -> BackfillView:
    return await ask.services.schedules.get_backfill(ask.path["schedule_id"], ask.path["backfill_id"])


async def pause_backfill(ask: Ask) -> Answer:
    schedules = ask.services.schedules
    return answer_of(schedules, await schedules.pause_backfill(**ask.path, key=ask.idempotency_key))


async def resume_backfill(ask: Ask) -> Answer:
    schedules = ask.services.schedules
    return answer_of(schedules, await schedules.resume_backfill(**ask.path, key=ask.idempotency_key))


async def cancel_backfill(ask: Ask) -> Answer:
    schedules = ask.services.schedules
    return answer_of(schedules, await schedules.cancel_backfill(**ask.path, key=ask.idempotency_key))


# -- sensors


async def receive(ask: Ask) -> Answer:
    """With a key, or with the sensor's own proof, which is judged where no keys are needed too."""
    is_token = Proof(ask.headers, b"", None).bearer_token.count(".") == 2
    is_proof_offered = ask.query.token is not None or "webhook-signature" in ask.headers or is_token
    may_write = bool(ask.scopes) and ask.query.tenant in (None, ask.caller.tenant)
    has_key = may_write and bool(ask.key_id or not is_proof_offered)
    sensors, sensor_id = ask.services.sensors if has_key else _of_tenant(ask), ask.path["sensor_id"]
    try:
        if is_batch(ask.headers):
            if not has_key:
                await sensors.demand_proof(sensor_id, ask.headers, ask.raw, token=ask.query.token)
            views = await sensors.receive_batch(sensor_id, ask.raw, key=ask.idempotency_key)
            return Answer(batch([Answer(view, _status(view)) if isinstance(view, EvaluationView) else view
                                 for view in views], ""))  # fmt: skip
        if has_key:
            view = await sensors.receive(sensor_id, ask.headers, ask.raw, key=ask.idempotency_key)
        else:
            view = await sensors.receive_from_outside(sensor_id, ask.headers, ask.raw, token=ask.query.token)
    except NotJson as error:
        raise HttpProblem(400, "MALFORMED_JSON", str(error)) from None
    return msgspec.structs.replace(answer_of(sensors, view), status=_status(view))


def _status(view: EvaluationView) -> int:
    """202 while an evaluator works on it."""
    return 202 if view.status == "pending" else 200


def _of_tenant(ask: Ask) -> Sensors:
    """The sensors of the tenant a sender names; one that cannot be is as unknown as one that is not."""
    caller = Caller(ask.query.tenant or "", f"sensor:{ask.path['sensor_id']}", ask.caller.correlation)
    sensors = ask.application.for_caller(caller).sensors
    try:
        sensors.stream("sensor", ask.path["sensor_id"])
    except Invalid:
        raise Refused("UNAUTHENTICATED", UNPROVEN) from None
    return sensors


async def evaluate(ask: Ask) -> Answer:
    sensors = ask.services.sensors
    view = await sensors.evaluate(ask.path["sensor_id"], dry_run=ask.body.dry_run, key=ask.idempotency_key)
    return answer_of(sensors, view)


async def reset_cursor(ask: Ask) -> Answer:
    sensors, asked = ask.services.sensors, ask.body
    view = await sensors.reset_cursor(
        ask.path["sensor_id"], asked.cursor, state_version=asked.state_version, key=ask.idempotency_key
    )
    return answer_of(sensors, view, version=view.version)


async def rotate_secret(ask: Ask) -> Answer:
    sensors = ask.services.sensors
    return answer_of(sensors, await sensors.rotate_secret(ask.path["sensor_id"], key=ask.idempotency_key))


async def evaluations(ask: Ask) -> Page[EvaluationView]:
    return await ask.services.sensors.evaluations(ask.path["sensor_id"], **msgspec.structs.asdict(ask.query))


SCHEDULES = Definitions(
    noun="schedule", domain="automation", tag=TAG, service=lambda ask: ask.services.schedules, request=ScheduleRequest,
    body=ScheduleRequest, view=ScheduleView, page=Page[ScheduleView], written=ScheduleWritten, filters=ScheduleFilters,
    read_only=SCHEDULE_READ_ONLY, judges_body=True,
    example={"schedule_id": "brief", "cron": "0 7 * * *", "timezone": "Europe/Berlin",
             "target": {"kind": "handler", "name": "brief"}},
)  # fmt: skip
SENSORS = Definitions(
    noun="sensor", domain="automation", tag=TAG, service=lambda ask: ask.services.sensors, request=SensorRequest,
    body=SensorRequest, view=SensorView, page=Page[SensorView], written=SensorWritten, filters=SensorFilters,
    read_only=SENSOR_READ_ONLY, judges_body=True,
    example={"sensor_id": "orders", "sensor_type": "push", "auth": "signature",
             "target": {"kind": "trigger", "account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED"}},
)  # fmt: skip

ROUTES = (
    *SCHEDULES.routes(),
    Route(
        method="POST", path="/v1/schedules/preview", scope=READ, answer=preview, tag=TAG,
        summary="The next ticks of an expression", description="A dry run: nothing is changed or recorded.",
        body=PreviewRequest, judges_body=True,
        reply=Preview, example={"cron": "30 2 * * *", "timezone": "Europe/Berlin", "count": 3},
    ),
    Route(
        method="POST", path=f"{SCHEDULE}/trigger", scope=WRITE, answer=trigger, tag=TAG, summary="Tick now",
        description="In any status. Again in the same second it is the same tick.", body=TickNowRequest,
        body_optional=True, reply=Tick, codes=((409, "RUN_KEY_CONFLICT"),),
    ),
    Route(
        method="GET", path=f"{SCHEDULE}/ticks", scope=READ, answer=ticks, tag=TAG,
        summary="What was fired, skipped or failed, newest first", query=TickFilters, reply=Page[Tick],
    ),
    Route(
        method="POST", path=f"{SCHEDULE}/backfills", scope=WRITE, answer=start_backfill, tag=TAG,
        summary="Fire the ticks of a range that were never fired", body=BackfillRequest, reply=BackfillWritten,
        status=201, example={"from": "2026-01-01T00:00:00Z", "to": "2026-01-05T00:00:00Z"},
    ),
    Route(
        method="GET", path=f"{SCHEDULE}/backfills", scope=READ, answer=backfills, tag=TAG,
        summary="A schedule's backfills, newest first", query=Listed, reply=Page[BackfillView],
    ),
    Route(method="GET", path=BACKFILL, scope=READ, answer=backfill, tag=TAG, summary="A backfill", reply=BackfillView),
    *(
        Route(
            method="POST", path=f"{BACKFILL}/{verb}", scope=WRITE, answer=answer, tag=TAG,
            summary=f"{verb.capitalize()} a backfill", reply=BackfillWritten, codes=((409, "WRONG_STATE"),),
        )
        for verb, answer in (("pause", pause_backfill), ("resume", resume_backfill), ("cancel", cancel_backfill))
    ),
    *SENSORS.routes(),
    Route(
        method="POST", path=f"{SENSOR}/messages", scope=WRITE, answer=receive, tag=TAG, summary="Push a message",
        description="Plain, a CloudEvent (structured or `ce-` headers) or a Pub/Sub message (its envelope, or "
        "unwrapped with metadata in headers). Several CloudEvents as `application/cloudevents-batch+json` are "
        "answered like a batch. Bytes that are no text are kept as `data_base64`. Without a key: "
        "`?tenant=` with the headers of Standard Webhooks (`auth: signature`), with `&token=` (`auth: token`), or "
        "with an identity token in `Authorization` (`auth: oidc`). "
        "202 while an evaluator works on it. A repeat of its id is answered with the first outcome.",
        query=ProofQuery, raw_body=True, described_body=PlainMessage, batch_body=(BATCH, list[CloudEvent]),
        reply=EvaluationView, also=(202,), own_proof=True,
        codes=((409, "SENSOR_PAUSED"), (409, "NOT_A_PUSH_SENSOR"), (501, "EXTRA_NOT_INSTALLED")),
        example={"message_id": "m-1", "data": {"order": 7}},
    ),
    Route(
        method="POST", path=f"{SENSOR}/evaluate", scope=WRITE, answer=evaluate, tag=TAG, summary="Poll now",
        description="In any status. A dry run records nothing.", body=PollRequest, body_optional=True,
        reply=EvaluationView, time_limit_s=EVALUATE_LIMIT_S,
        codes=((409, "NOT_A_POLL_SENSOR"), (409, "EVALUATOR_NOT_HERE")),
    ),
    Route(
        method="POST", path=f"{SENSOR}/cursor", scope=WRITE, answer=reset_cursor, tag=TAG,
        summary="Put a cursor elsewhere", description="Of a poll sensor, in any status. Compared with `state_version` "
        "and moves it by one, so that an evaluation under way lands as `skipped_stale_cursor`.",
        body=CursorRequest, reply=SensorWritten, codes=((409, "NOT_A_POLL_SENSOR"), (412, "VERSION_MISMATCH")),
        example={"cursor": {"after": "order-7"}, "state_version": 3},
    ),
    Route(
        method="POST", path=f"{SENSOR}/secret", scope=WRITE, answer=rotate_secret, tag=TAG,
        summary="Make a new secret", description="Shown once, with its `push_url`; the old one lives for 24 h.",
        reply=SecretView, codes=((409, "NO_SECRET"),),
    ),
    Route(
        method="GET", path=f"{SENSOR}/evaluations", scope=READ, answer=evaluations, tag=TAG,
        summary="Evaluations, newest first", query=EvaluationFilters, reply=Page[EvaluationView],
    ),
)  # fmt: skip
