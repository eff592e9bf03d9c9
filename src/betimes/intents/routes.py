"""Routes of intents."""

from __future__ import annotations

from typing import Any

from betimes.http.definitions import DefinitionRoutes
from betimes.http.routes import ClaimLimit
from betimes.http.service_calls import ServiceRoutes
from betimes.intents.model import Draft
from betimes.intents.service import Intents

TAG = "Intents"
ONE = "/v1/intents/{intent_id}"


_EXAMPLE: dict[str, Any] = {
    "intent_id": "nvda-130",
    "user_id": "u-3",
    "trigger_type": "price",
    "condition": {"expression": "NVDA < 130"},
    "action_type": "notify",
    "action_context": "NVDA fell below 130.",
}

_intents = ServiceRoutes(lambda request: request.services.intents, TAG, read="intents:read", write="intents:write")
_definitions = DefinitionRoutes("intent", _intents, Intents, body=dict[str, Any], example=_EXAMPLE)

ROUTES = (
    *_definitions.routes(),
    _intents.post(
        "/v1/intents/check",
        Intents.check,
        "Check an intent without creating it",
        scope="intents:read",
        description="A dry run: nothing is changed or recorded.",
        body=dict[str, Any],
        described_body=Draft,
        example=_EXAMPLE,
    ),
    _intents.get(
        "/v1/intents/pending",
        Intents.pending,
        "Intents that are due and unclaimed, by their next check",
        description="Includes intents in their cooldown, flagged `in_cooldown`.",
    ),
    _intents.post(
        "/v1/intents/claim",
        Intents.claim_many,
        "Claim intents that are due",
        keeps_answer="intents",
        description="Longest due first, without intents in their cooldown.",
        query=ClaimLimit,
        body_optional=True,
    ),
    _intents.post(
        f"{ONE}/claim",
        Intents.claim,
        "Claim an intent",
        description="ALREADY_CLAIMED comes with `Retry-After`.",
        body_optional=True,
        codes=((409, "ALREADY_CLAIMED"), (409, "NOT_DUE"), (409, "DISABLED"), (409, "HELD")),
    ),
    _intents.post(f"{ONE}/renew", Intents.renew, "Renew a claim", codes=((409, "CLAIM_LOST"),)),
    _intents.post(f"{ONE}/release", Intents.release, "Release a claim", codes=((409, "CLAIM_LOST"),)),
    _intents.post(
        f"{ONE}/fire",
        Intents.fire,
        "Report the result of a check",
        description="Settles the claim and plans the next check.",
        codes=((409, "CLAIM_LOST"), (409, "DISABLED")),
        example={"status": "success", "claim_token": 4, "trigger_data": {"price": 128.4}},
    ),
    _intents.get(f"{ONE}/history", Intents.history, "Executions, newest first"),
)
