"""Routes of intents."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.domain.paging import Page
from betimes.http.definitions import Definitions
from betimes.http.routes import Answer, Ask, ClaimLimit, Listed, Route, answer_of
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


async def check(ask: Ask) -> CheckView:
    return await ask.services.intents.check(ask.body)


async def pending(ask: Ask) -> Page[IntentView]:
    return await ask.services.intents.pending(**msgspec.structs.asdict(ask.query))


async def claim_many(ask: Ask) -> ClaimsView:
    return await ask.services.intents.claim_many(ask.body, limit=ask.query.limit)


async def claim(ask: Ask) -> Answer:
    intents = ask.services.intents
    return answer_of(intents, await intents.claim(ask.path["intent_id"], ask.body, key=ask.idempotency_key))


async def renew(ask: Ask) -> Answer:
    intents = ask.services.intents
    return answer_of(intents, await intents.renew(ask.path["intent_id"], ask.body, key=ask.idempotency_key))


async def release(ask: Ask) -> Answer:
    intents = ask.services.intents
    await intents.release(ask.path["intent_id"], ask.body, key=ask.idempotency_key)
    return answer_of(intents, None)


async def fire(ask: Ask) -> Answer:
    intents = ask.services.intents
    return answer_of(intents, await intents.fire(ask.path["intent_id"], ask.body, key=ask.idempotency_key))


async def history(ask: Ask) -> Page[ExecutionView]:
    return await ask.services.intents.history(ask.path["intent_id"], **msgspec.structs.asdict(ask.query))


_EXAMPLE: dict[str, Any] = {
    "intent_id": "nvda-130",
    "user_id": "u-3",
    "trigger_type": "price",
    "condition": {"expression": "NVDA < 130"},
    "action_type": "notify",
    "action_context": "NVDA fell below 130.",
}

INTENTS = Definitions(
    noun="intent",
    domain="intents",
    tag=TAG,
    service=lambda ask: ask.services.intents,
    request=Draft,
    body=dict[str, Any],
    view=IntentView,
    page=Page[IntentView],
    written=IntentWritten,
    filters=IntentFilters,
    read_only=frozenset(),
    example=_EXAMPLE,
)

ROUTES = (
    *INTENTS.routes(),
    Route(
        method="POST",
        path="/v1/intents/check",
        scope="intents:read",
        answer=check,
        tag=TAG,
        summary="What making an intent would say",
        description="A dry run: nothing is changed or recorded.",
        body=dict[str, Any],
        described_body=Draft,
        reply=CheckView,
        example=_EXAMPLE,
    ),
    Route(
        method="GET",
        path="/v1/intents/pending",
        scope="intents:read",
        answer=pending,
        tag=TAG,
        summary="Intents that are due and unclaimed, by their next check",
        description="Cooling ones too, flagged `in_cooldown`.",
        query=PendingFilters,
        reply=Page[IntentView],
    ),
    Route(
        method="POST",
        path="/v1/intents/claim",
        scope="intents:write",
        answer=claim_many,
        tag=TAG,
        keeps_answer="intents",
        summary="Claim intents that are due",
        description="The longest due first; none that is cooling.",
        query=ClaimLimit,
        body=IntentClaimsRequest,
        body_optional=True,
        reply=ClaimsView,
    ),
    Route(
        method="POST",
        path=f"{ONE}/claim",
        scope="intents:write",
        answer=claim,
        tag=TAG,
        summary="Claim an intent",
        description="ALREADY_CLAIMED comes with `Retry-After`.",
        body=IntentClaimRequest,
        body_optional=True,
        reply=ClaimView,
        codes=((409, "ALREADY_CLAIMED"), (409, "NOT_DUE"), (409, "DISABLED")),
    ),
    Route(
        method="POST",
        path=f"{ONE}/renew",
        scope="intents:write",
        answer=renew,
        tag=TAG,
        summary="Keep a claim",
        body=IntentRenewRequest,
        reply=ClaimView,
        codes=((409, "CLAIM_LOST"),),
    ),
    Route(
        method="POST",
        path=f"{ONE}/release",
        scope="intents:write",
        answer=release,
        tag=TAG,
        summary="Give a claim back",
        body=ReleaseRequest,
        codes=((409, "CLAIM_LOST"),),
    ),
    Route(
        method="POST",
        path=f"{ONE}/fire",
        scope="intents:write",
        answer=fire,
        tag=TAG,
        summary="Report what became of a check",
        description="Settles the claim and plans the next check.",
        body=FireRequest,
        reply=FireView,
        codes=((409, "CLAIM_LOST"), (409, "DISABLED")),
        example={"status": "success", "claim_token": 4, "trigger_data": {"price": 128.4}},
    ),
    Route(
        method="GET",
        path=f"{ONE}/history",
        scope="intents:read",
        answer=history,
        tag=TAG,
        summary="Executions, newest first",
        query=Listed,
        reply=Page[ExecutionView],
    ),
)
