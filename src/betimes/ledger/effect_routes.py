"""Routes of effects: what had to happen outside, and once more for dead letters."""

from __future__ import annotations

from typing import Literal

import msgspec

from betimes.catalogue import readable_areas
from betimes.domain.paging import Page
from betimes.http.routes import Listed, RequestContext, Route
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


def _readable(request: RequestContext) -> Effects:
    return Effects(request.engine, request.caller, readable_areas(request.scopes, "read"))


def _writable(request: RequestContext) -> Effects:
    return Effects(request.engine, request.caller, readable_areas(request.scopes, "write"))


async def effects(request: RequestContext) -> Page[EffectView]:
    query: EffectsQuery = request.query
    filters = EffectFilters(
        status=query.status,
        effect_kind=query.effect_kind,
        domain=query.domain,
        user_id=query.user_id,
        channel=query.channel,
    )
    return await _readable(request).effects(filters, limit=query.limit, cursor=query.cursor)


async def effect(request: RequestContext) -> EffectDetail:
    return await _readable(request).effect(request.path["effect_id"])


async def retry(request: RequestContext) -> EffectView:
    return await _writable(request).retry(request.path["effect_id"])


async def retry_listed(request: RequestContext) -> EffectView:
    return await _writable(request).retry(request.body.effect_id)


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
