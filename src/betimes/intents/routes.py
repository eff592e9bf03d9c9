"""Routes of intents."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from betimes.domain.paging import Page
from betimes.http.definitions import DefinitionRoutes
from betimes.http.routes import Answer, ClaimLimit, Listed, RequestContext, Route, answer_of
from betimes.intents.model import Draft, TriggerType
from betimes.intents.views import (
    CheckView,
    ClaimsView,
    ClaimView,
    ExecutionView,
    FireRequest,
    FireView,
    IntentClaimRequest,
    IntentClaimsRequest,
    IntentRenewRequest,
    IntentView,
    IntentWritten,
    ReleaseRequest,
)

TAG = "Intents"
ONE = "/v1/intents/{intent_id}"


class IntentFilters(Listed, frozen=True, forbid_unknown_fields=True):
    user_id: str | None = None
    trigger_type: TriggerType | None = None
    enabled: bool | None = None


class PendingFilters(Listed, frozen=True, forbid_unknown_fields=True):
    user_id: str | None = None
    in_cooldown: bool | None = None


async def check(request: RequestContext) -> CheckView:
    return await request.services.intents.check(request.body)


async def pending(request: RequestContext) -> Page[IntentView]:
    return await request.services.intents.pending(**msgspec.structs.asdict(request.query))


async def claim_many(request: RequestContext) -> ClaimsView:
    return await request.services.intents.claim_many(request.body, limit=request.query.limit)


async def claim(request: RequestContext) -> Answer:
    intents = request.services.intents
    return answer_of(intents, await intents.claim(request.path["intent_id"], request.body, key=request.idempotency_key))


async def renew(request: RequestContext) -> Answer:
    intents = request.services.intents
    return answer_of(intents, await intents.renew(request.path["intent_id"], request.body, key=request.idempotency_key))


async def release(request: RequestContext) -> Answer:
    intents = request.services.intents
    await intents.release(request.path["intent_id"], request.body, key=request.idempotency_key)
    return answer_of(intents, None)


async def fire(request: RequestContext) -> Answer:
    intents = request.services.intents
    return answer_of(intents, await intents.fire(request.path["intent_id"], request.body, key=request.idempotency_key))


async def history(request: RequestContext) -> Page[ExecutionView]:
    return await request.services.intents.history(request.path["intent_id"], **msgspec.structs.asdict(request.query))


_EXAMPLE: dict[str, Any] = {
    "intent_id": "nvda-130",
    "user_id": "u-3",
    "trigger_type": "price",
    "condition": {"expression": "NVDA < 130"},
    "action_type": "notify",
    "action_context": "NVDA fell below 130.",
}

INTENTS = DefinitionRoutes(
    noun="intent",
    domain="intents",
    tag=TAG,
    service=lambda request: request.services.intents,
    request=Draft,
    body=dict[str, Any],
    view=IntentView,
    page=Page[IntentView],
    written=IntentWritten,
    filters=IntentFilters,
    read_only=frozenset(),
    judges_body=True,
    example=_EXAMPLE,
)

_get = partial(Route, method="GET", scope="intents:read", tag=TAG)
_post = partial(Route, method="POST", scope="intents:write", tag=TAG)

ROUTES = (
    *INTENTS.routes(),
    _post(
        "/v1/intents/check",
        check,
        "What making an intent would say",
        scope="intents:read",
        description="A dry run: nothing is changed or recorded.",
        body=dict[str, Any],
        described_body=Draft,
        reply=CheckView,
        example=_EXAMPLE,
    ),
    _get(
        "/v1/intents/pending",
        pending,
        "Intents that are due and unclaimed, by their next check",
        description="Cooling ones too, flagged `in_cooldown`.",
        query=PendingFilters,
        reply=Page[IntentView],
    ),
    _post(
        "/v1/intents/claim",
        claim_many,
        "Claim intents that are due",
        keeps_answer="intents",
        description="The longest due first; none that is cooling.",
        query=ClaimLimit,
        body=IntentClaimsRequest,
        body_optional=True,
        reply=ClaimsView,
    ),
    _post(
        f"{ONE}/claim",
        claim,
        "Claim an intent",
        description="ALREADY_CLAIMED comes with `Retry-After`.",
        body=IntentClaimRequest,
        body_optional=True,
        reply=ClaimView,
        codes=((409, "ALREADY_CLAIMED"), (409, "NOT_DUE"), (409, "DISABLED"), (409, "HELD")),
    ),
    _post(
        f"{ONE}/renew", renew, "Keep a claim", body=IntentRenewRequest, reply=ClaimView, codes=((409, "CLAIM_LOST"),)
    ),
    _post(f"{ONE}/release", release, "Give a claim back", body=ReleaseRequest, codes=((409, "CLAIM_LOST"),)),
    _post(
        f"{ONE}/fire",
        fire,
        "Report what became of a check",
        description="Settles the claim and plans the next check.",
        body=FireRequest,
        reply=FireView,
        codes=((409, "CLAIM_LOST"), (409, "DISABLED")),
        example={"status": "success", "claim_token": 4, "trigger_data": {"price": 128.4}},
    ),
    _get(f"{ONE}/history", history, "Executions, newest first", query=Listed, reply=Page[ExecutionView]),
)
