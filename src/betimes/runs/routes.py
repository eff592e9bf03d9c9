"""Routes of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from betimes.core.checks import Examined
from betimes.domain.service import check_request
from betimes.http.routes import Answer, ClaimLimit, RequestContext, Route, Traced, answer_of
from betimes.http.service_calls import ServiceRoutes
from betimes.runs.registry import repeated_types, uncallable_urls
from betimes.runs.service import Runs
from betimes.runs.triggers import examined_trigger
from betimes.runs.views import (
    ClaimManyRequest,
    RegistryEntry,
    RegistryView,
    RegistryWritten,
    RunClaim,
    TriggerRequest,
    TriggerStatus,
    TriggerVerdict,
)

TAG = "Runs"
ENTRIES_MAX = 500
"""Trigger types of one tenant."""


class Claims(msgspec.Struct, frozen=True):
    items: list[RunClaim]


class RegistryRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entries: Annotated[list[RegistryEntry], msgspec.Meta(max_length=ENTRIES_MAX)]
    version: int | None = None


async def trigger(request: RequestContext) -> TriggerVerdict:
    return await request.services.runs.trigger(examined_trigger(request.body), trace=request.wants_trace)


async def trigger_many(whole: RequestContext, items: list[RequestContext]) -> Sequence[Any]:
    """Ask for their runs together, so that the triggers of one account keep their order."""
    return await whole.services.runs.trigger_many(list(map(_own_trigger, items)), trace=items[0].wants_trace)


def _own_trigger(request: RequestContext) -> Examined[TriggerRequest]:
    """Return the trigger of a batch's item, which is part of what the item or else the request says."""
    examined, correlation = examined_trigger(request.body), request.caller.correlation
    if correlation and not examined.found.total and examined.value.correlation_id is None:
        examined.value = msgspec.structs.replace(examined.value, correlation_id=correlation)
    return examined


async def cancel_trigger(request: RequestContext) -> Answer[TriggerStatus]:
    runs, key = request.services.runs, request.path["idempotency_key"]
    return answer_of(runs, await runs.cancel_trigger(key, request_key=request.idempotency_key))


async def claim_many(request: RequestContext[ClaimManyRequest]) -> Claims:
    return Claims(await request.services.runs.claim_many(request.body, limit=request.query.limit))


def _with_etag(view: RegistryView) -> Answer:
    return Answer(view, headers={"ETag": f'"{view.version}"'})


async def registry(request: RequestContext) -> Answer[RegistryView]:
    return _with_etag(await request.services.runs.registry())


async def put_registry(request: RequestContext) -> Answer:
    policy = await request.engine.policy_of(request.caller.tenant)
    rules = (repeated_types, uncallable_urls(request.services.runs.deployment, policy))
    body = check_request(request.body, RegistryRequest, rules)
    version = request.if_match if request.if_match is not None else body.version
    return _with_etag(await request.services.runs.put_registry(body.entries, version=version))


_EXAMPLE: dict[str, Any] = {
    "account_id": "acct-7",
    "trigger_type": "SIGNAL_ARRIVED",
    "idempotency_key": "sig-991",
    "payload": {"signal": "usage_drop"},
}

_runs = ServiceRoutes(lambda request: request.services.runs, TAG, read="runs:read", write="runs:write")

ROUTES = (
    _runs.post(
        "/v1/triggers",
        trigger,
        "Send a trigger, which asks for a run",
        description="ALLOW, DEFER with the instant of its one retry, or SKIP; durable before it is answered. The "
        "repeat of a key is SKIP DUPLICATE_IDEMPOTENCY_KEY. Also takes the envelope of a RUN_DECISION event.",
        query=Traced,
        body=Any,
        described_body=TriggerRequest,
        usual_body=TriggerRequest,
        judges_body=True,
        batch=True,
        answer_many=trigger_many,
        key_field="idempotency_key",
        example=_EXAMPLE,
        codes=((422, "UNKNOWN_TRIGGER_TYPE"),),
    ),
    _runs.get("/v1/triggers/{idempotency_key}", Runs.trigger_status, "The status of a trigger"),
    _runs.post(
        "/v1/triggers/{idempotency_key}/cancel",
        cancel_trigger,
        "Cancel a waiting trigger and all that joined it",
        codes=((409, "NOT_WAITING"),),
    ),
    _runs.post(
        "/v1/gate/evaluate",
        Runs.evaluate,
        "Evaluate a trigger without sending it",
        scope="runs:read",
        codes=((422, "UNKNOWN_TRIGGER_TYPE"),),
    ),
    _runs.get("/v1/accounts/{account_id}/run-state", Runs.run_state, "An account's counters and waiting triggers"),
    _runs.post(
        "/v1/accounts/{account_id}/actions", Runs.report_actions, "Report actions, for saturation", body_optional=True
    ),
    _runs.get("/v1/runs", Runs.runs, "Runs, newest first"),
    _runs.get("/v1/runs/{run_id}", Runs.run, "A run"),
    _runs.post(
        "/v1/runs/claim",
        claim_many,
        "Claim runs that wait for a worker",
        keeps_answer="runs",
        query=ClaimLimit,
        body_optional=True,
    ),
    _runs.post(
        "/v1/runs/{run_id}/claim",
        Runs.claim,
        "Claim a run",
        body_optional=True,
        codes=((409, "ALREADY_CLAIMED"), (409, "NOT_CLAIMABLE"), (409, "HELD")),
    ),
    _runs.post("/v1/runs/{run_id}/renew", Runs.renew, "Renew a claim", codes=((409, "CLAIM_LOST"),)),
    _runs.post("/v1/runs/{run_id}/complete", Runs.complete, "Report how a run ended", codes=((409, "CLAIM_LOST"),)),
    _runs.get("/v1/registry", registry, "The trigger types"),
    Route(
        method="PUT",
        path="/v1/registry",
        scope="admin",
        answer=put_registry,
        tag=TAG,
        summary="Replace the tenant's trigger types",
        body=RegistryRequest,
        judges_body=True,
        reply=RegistryWritten,
        read_only=frozenset({"warnings"}),
        codes=((412, "VERSION_MISMATCH"),),
    ),
)
