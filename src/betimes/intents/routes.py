"""Routes of intents."""

from __future__ import annotations

from functools import partial
from typing import Any

from betimes.http.definitions import DefinitionRoutes
from betimes.http.routes import ClaimLimit
from betimes.http.service_calls import ServiceCalls, route
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

INTENTS = DefinitionRoutes(
    noun="intent",
    domain="intents",
    tag=TAG,
    service=lambda request: request.services.intents,
    types=Intents,
    body=dict[str, Any],
    example=_EXAMPLE,
)

_intents = ServiceCalls(lambda request: request.services.intents)
_get = partial(route, method="GET", scope="intents:read", tag=TAG)
_post = partial(route, method="POST", scope="intents:write", tag=TAG)

ROUTES = (
    *INTENTS.routes(),
    _post(
        "/v1/intents/check",
        _intents.call(Intents.check),
        "What making an intent would say",
        scope="intents:read",
        description="A dry run: nothing is changed or recorded.",
        body=dict[str, Any],
        described_body=Draft,
        example=_EXAMPLE,
    ),
    _get(
        "/v1/intents/pending",
        _intents.call(Intents.pending),
        "Intents that are due and unclaimed, by their next check",
        description="Cooling ones too, flagged `in_cooldown`.",
    ),
    _post(
        "/v1/intents/claim",
        _intents.call(Intents.claim_many),
        "Claim intents that are due",
        keeps_answer="intents",
        description="The longest due first; none that is cooling.",
        query=ClaimLimit,
        body_optional=True,
    ),
    _post(
        f"{ONE}/claim",
        _intents.call_with_key(Intents.claim),
        "Claim an intent",
        description="ALREADY_CLAIMED comes with `Retry-After`.",
        body_optional=True,
        codes=((409, "ALREADY_CLAIMED"), (409, "NOT_DUE"), (409, "DISABLED"), (409, "HELD")),
    ),
    _post(f"{ONE}/renew", _intents.call_with_key(Intents.renew), "Keep a claim", codes=((409, "CLAIM_LOST"),)),
    _post(f"{ONE}/release", _intents.call_with_key(Intents.release), "Give a claim back", codes=((409, "CLAIM_LOST"),)),
    _post(
        f"{ONE}/fire",
        _intents.call_with_key(Intents.fire),
        "Report what became of a check",
        description="Settles the claim and plans the next check.",
        codes=((409, "CLAIM_LOST"), (409, "DISABLED")),
        example={"status": "success", "claim_token": 4, "trigger_data": {"price": 128.4}},
    ),
    _get(f"{ONE}/history", _intents.call(Intents.history), "Executions, newest first"),
)
