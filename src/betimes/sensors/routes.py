"""Routes of sensors: definitions, messages and evaluations.

A message comes with an API key, or with the proof its sensor asks for; then nobody learns which tenants and sensors
there are.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from betimes.core.errors import Invalid, Refused
from betimes.domain.service import Caller
from betimes.http.batches import batch
from betimes.http.definitions import DefinitionRoutes
from betimes.http.problems import HttpProblem
from betimes.http.routes import Answer, RequestContext, answer_of
from betimes.http.service_calls import ServiceRoutes
from betimes.sensors.messages import BATCH, CloudEvent, NotJson, PlainMessage, is_batch
from betimes.sensors.proof import Proof
from betimes.sensors.service import UNPROVEN, Sensors
from betimes.sensors.views import EvaluationView, SensorWritten

TAG = "Automation"
SENSOR = "/v1/sensors/{sensor_id}"
READ, WRITE = "automation:read", "automation:write"


EVALUATE_LIMIT_S = 330.0
"""A sensor's evaluator has at most 300 s."""


class PollRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dry_run: bool = False


class CursorRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    state_version: Annotated[int, msgspec.Meta(ge=1)]
    """Of the sensor as it was read; 412 if it has moved since."""
    cursor: Any = None
    """Any JSON; omitted or null, the evaluator starts from the beginning."""


class ProofQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a sender without an API key."""

    tenant: str | None = None
    token: str | None = None


async def receive(request: RequestContext) -> Answer:
    """Take a message or a batch, with an API key or with the sensor's own proof."""
    is_token = Proof(request.headers, b"", None).bearer_token.count(".") == 2
    is_proof_offered = request.query.token is not None or "webhook-signature" in request.headers or is_token
    may_write = bool(request.scopes) and request.query.tenant in (None, request.caller.tenant)
    # Where the server requests for no keys, a proof that is offered is judged all the same: a wrong one never passes.
    has_key = may_write and bool(request.key_id or not is_proof_offered)
    sensors, sensor_id = request.services.sensors if has_key else _of_tenant(request), request.path["sensor_id"]
    try:
        if is_batch(request.headers):
            if not has_key:
                await sensors.demand_proof(sensor_id, request.headers, request.raw, token=request.query.token)
            views = await sensors.receive_batch(sensor_id, request.raw, key=request.idempotency_key)
            return Answer(
                batch([Answer(view, _status(view)) if isinstance(view, EvaluationView) else view for view in views], "")
            )
        if has_key:
            view = await sensors.receive(sensor_id, request.headers, request.raw, key=request.idempotency_key)
        else:
            view = await sensors.receive_from_outside(
                sensor_id, request.headers, request.raw, token=request.query.token
            )
    except NotJson as error:
        raise HttpProblem(400, "MALFORMED_JSON", str(error)) from None
    return msgspec.structs.replace(answer_of(sensors, view), status=_status(view))


def _status(view: EvaluationView) -> int:
    """Return 202 while an evaluator works on the message."""
    return 202 if view.status == "pending" else 200


def _of_tenant(request: RequestContext) -> Sensors:
    """Return the sensors of the tenant a sender names; an impossible name is refused like an unknown one."""
    caller = Caller(request.query.tenant or "", f"sensor:{request.path['sensor_id']}", request.caller.correlation)
    sensors = request.application.for_caller(caller).sensors
    try:
        sensors.stream("sensor", request.path["sensor_id"])
    except Invalid:
        raise Refused("UNAUTHENTICATED", UNPROVEN) from None
    return sensors


async def evaluate(request: RequestContext[PollRequest]) -> Answer[EvaluationView]:
    sensors = request.services.sensors
    view = await sensors.evaluate(request.path["sensor_id"], dry_run=request.body.dry_run, key=request.idempotency_key)
    return answer_of(sensors, view)


async def reset_cursor(request: RequestContext[CursorRequest]) -> Answer[SensorWritten]:
    sensors, asked = request.services.sensors, request.body
    view = await sensors.reset_cursor(
        request.path["sensor_id"], asked.cursor, state_version=asked.state_version, key=request.idempotency_key
    )
    return answer_of(sensors, view, version=view.version)


_sensors = ServiceRoutes(lambda request: request.services.sensors, TAG, read=READ, write=WRITE)
_definitions = DefinitionRoutes(
    "sensor",
    _sensors,
    Sensors,
    example={
        "sensor_id": "orders",
        "sensor_type": "push",
        "auth": "signature",
        "target": {"kind": "trigger", "account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED"},
    },
)

ROUTES = (
    *_definitions.routes(),
    _sensors.post(
        f"{SENSOR}/messages",
        receive,
        "Push a message",
        description="Plain, a CloudEvent (structured or `ce-` headers) or a Pub/Sub message (its envelope, or "
        "unwrapped with metadata in headers). Several CloudEvents as `application/cloudevents-batch+json` are "
        "answered like a batch. Bytes that are no text are kept as `data_base64`. Without a key: "
        "`?tenant=` with the headers of Standard Webhooks (`auth: signature`), with `&token=` (`auth: token`), or "
        "with an identity token in `Authorization` (`auth: oidc`). "
        "202 while an evaluator works on it. A repeat of its id is answered with the first outcome.",
        query=ProofQuery,
        raw_body=True,
        described_body=PlainMessage,
        batch_body=(BATCH, list[CloudEvent]),
        reply=EvaluationView,
        also=(202,),
        own_proof=True,
        codes=((409, "SENSOR_PAUSED"), (409, "NOT_A_PUSH_SENSOR"), (501, "EXTRA_NOT_INSTALLED")),
        example={"message_id": "m-1", "data": {"order": 7}},
    ),
    _sensors.post(
        f"{SENSOR}/evaluate",
        evaluate,
        "Evaluate a poll sensor now",
        description="In any status. A dry run records nothing.",
        body_optional=True,
        time_limit_s=EVALUATE_LIMIT_S,
        codes=((409, "NOT_A_POLL_SENSOR"), (409, "EVALUATOR_NOT_HERE")),
    ),
    _sensors.post(
        f"{SENSOR}/cursor",
        reset_cursor,
        "Move the cursor of a poll sensor",
        description="Of a poll sensor, in any status. Compared with `state_version` "
        "and moves it by one, so that an evaluation in progress is recorded as `skipped_stale_cursor`.",
        codes=((409, "NOT_A_POLL_SENSOR"), (412, "VERSION_MISMATCH")),
        example={"cursor": {"after": "order-7"}, "state_version": 3},
    ),
    _sensors.post(
        f"{SENSOR}/secret", Sensors.rotate_secret, "Rotate the secret of a sensor", codes=((409, "NO_SECRET"),)
    ),
    _sensors.get(f"{SENSOR}/evaluations", Sensors.evaluations, "Evaluations, newest first"),
    _sensors.get("/v1/evaluations", Sensors.all_evaluations, "Evaluations of all sensors, newest first"),
)
