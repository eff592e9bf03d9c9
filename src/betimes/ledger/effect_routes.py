"""Routes of effects: what had to happen outside, and once more for dead letters."""

from __future__ import annotations

from typing import Literal

import msgspec

from betimes.catalogue import readable_areas
from betimes.domain.paging import Page
from betimes.http.routes import Ask, Listed, Route
from betimes.ledger.effects import EffectDetail, EffectFilters, EffectKind, Effects, EffectView, Status

TAG = "Effects"


class EffectsQuery(Listed, frozen=True, forbid_unknown_fields=True):
    status: Status | None = None
    effect_kind: EffectKind | None = None
    domain: Literal["runs", "notifications", "intents", "automation", "scores"] | None = None
    user_id: str | None = None
    """Of a delivery."""
    channel: str | None = None
    """Of a delivery."""


class RetryRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    effect_id: str


def _readable(ask: Ask) -> Effects:
    return Effects(ask.engine, ask.caller, readable_areas(ask.scopes, "read"))


def _writable(ask: Ask) -> Effects:
    return Effects(ask.engine, ask.caller, readable_areas(ask.scopes, "write"))


async def effects(ask: Ask) -> Page[EffectView]:
    query: EffectsQuery = ask.query
    filters = EffectFilters(
        status=query.status,
        effect_kind=query.effect_kind,
        domain=query.domain,
        user_id=query.user_id,
        channel=query.channel,
    )
    return await _readable(ask).effects(filters, limit=query.limit, cursor=query.cursor)


async def effect(ask: Ask) -> EffectDetail:
    return await _readable(ask).effect(ask.path["effect_id"])


async def retry(ask: Ask) -> EffectView:
    return await _writable(ask).retry(ask.path["effect_id"])


async def retry_listed(ask: Ask) -> EffectView:
    return await _writable(ask).retry(ask.body.effect_id)


_RETRY = (
    "Only a dead letter can be retried: a run's handler is called at most once, and an expired notification is over."
)

ROUTES = (
    Route(
        method="GET",
        path="/v1/effects",
        scope="any:read",
        answer=effects,
        tag=TAG,
        summary="Effects, by their ids",
        description="Deliveries are `effect_kind=delivery`, dead letters `status=dead`. Effects of domains the key may "
        "not read are left out; those that ended are forgotten after a while.",
        query=EffectsQuery,
        reply=Page[EffectView],
    ),
    Route(
        method="GET",
        path="/v1/effects/{effect_id}",
        scope="any:read",
        answer=effect,
        tag=TAG,
        summary="An effect with what it carries",
        reply=EffectDetail,
    ),
    Route(
        method="POST",
        path="/v1/effects/{effect_id}/retry",
        scope="any:write",
        answer=retry,
        tag=TAG,
        keeps_answer="effects",
        summary="Try a dead letter once more, with fresh attempts",
        description=_RETRY,
        reply=EffectView,
        codes=((409, "NOT_RETRYABLE"),),
    ),
    Route(
        method="POST",
        path="/v1/effects/retry",
        scope="any:write",
        answer=retry_listed,
        tag=TAG,
        keeps_answer="effects",
        summary="Try dead letters once more",
        description=_RETRY,
        body=RetryRequest,
        reply=EffectView,
        batch=True,
        codes=((409, "NOT_RETRYABLE"),),
        example={"items": [{"effect_id": "inbox:u-1:7:0"}]},
    ),
)
