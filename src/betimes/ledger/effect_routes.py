"""Routes of effects: list them; retry or discard dead letters."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from betimes.catalogue import readable_areas
from betimes.domain.operations.model import Note
from betimes.http.routes import RequestContext, name_segment
from betimes.http.service_calls import ServiceRoutes, query_of
from betimes.ledger.effect_actions import (
    DeadLetterFilter,
    EffectActions,
    EffectGroups,
    EffectName,
    EffectsAction,
    EffectsOutcome,
)
from betimes.ledger.effects import Effects, EffectView

TAG = "Effects"


class NamedEffect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    effect_id: EffectName
    note: Note | None = None
    """Why, for the record."""


def _readable(request: RequestContext) -> EffectActions:
    return EffectActions(request.engine, request.caller, readable_areas(request.scopes, "read"))


def _writable(request: RequestContext) -> EffectActions:
    return EffectActions(request.engine, request.caller, readable_areas(request.scopes, "write"))


async def groups(request: RequestContext) -> EffectGroups:
    return await _readable(request).groups(request.query)


async def retry_many(request: RequestContext[EffectsAction]) -> EffectView | EffectsOutcome:
    actions = _writable(request)
    if isinstance(request.body, NamedEffect):
        return await actions.retry(request.body.effect_id, note=_note_of(request))
    outcome = await actions.retry_matching(replace(request.body, note=_note_of(request)))
    name_segment(request, actions)
    return outcome


async def discard_many(request: RequestContext[EffectsAction]) -> NamedEffect | EffectsOutcome:
    actions = _writable(request)
    if isinstance(request.body, NamedEffect):
        await actions.discard(request.body.effect_id, note=_note_of(request))
        return request.body
    outcome = await actions.discard_matching(replace(request.body, note=_note_of(request)))
    name_segment(request, actions)
    return outcome


def _note_of(request: RequestContext) -> str | None:
    """Return the note of an item or a filter, else that of the whole request."""
    note: str | None = request.body.note
    return request.query.note if note is None else note


_RETRY = (
    "Only a dead letter can be retried: a run's handler is called at most once, and an expired notification is over."
)
_MANY = (
    "Those in `ids`, or those that the filter finds: oldest first, at most 500 a call; `next_cursor` leads on past "
    "those that were skipped. The operation is on the ledger as a segment of `operation:effects` with its note; each "
    "item may have one of its own, and `?note=` is that of all the others."
)

_effects = ServiceRoutes(_readable, TAG, read="any:read", write="any:write")
_changes = ServiceRoutes(_writable, TAG, read="any:read", write="any:write")

ROUTES = (
    _effects.get("/v1/effects", Effects.effects, "Effects, by id"),
    _effects.get("/v1/effects/{effect_id}", Effects.effect, "An effect with its payload"),
    _changes.post(
        "/v1/effects/{effect_id}/retry",
        EffectActions.retry,
        "Retry a dead letter, with fresh attempts",
        keeps_answer="effects",
        description=_RETRY,
        codes=((409, "NOT_RETRYABLE"),),
    ),
    _changes.delete(
        "/v1/effects/{effect_id}",
        EffectActions.discard,
        "Discard a dead letter",
        codes=((409, "NOT_DISCARDABLE"),),
    ),
    _effects.get(
        "/v1/effects/groups",
        groups,
        "Dead letters by executor and error",
        description="Counts what a retry or a discard with the same filter would reach.",
        query=DeadLetterFilter,
    ),
    _changes.post(
        "/v1/effects/retry",
        retry_many,
        "Retry dead letters, by id or by filter",
        keeps_answer="effects",
        description=f"{_RETRY} {_MANY}",
        query=query_of(EffectActions.retry),
        reply=EffectsOutcome,
        batch_reply=EffectView,
        batch=True,
        batch_item=NamedEffect,
        codes=((409, "NOT_RETRYABLE"),),
        example={"filter": {"executor": "webhook", "error": "503"}, "note": "their server is back"},
    ),
    _changes.post(
        "/v1/effects/discard",
        discard_many,
        "Discard dead letters, by id or by filter",
        keeps_answer="discards",
        description=_MANY,
        query=query_of(EffectActions.retry),
        reply=EffectsOutcome,
        batch_reply=NamedEffect,
        batch=True,
        batch_item=NamedEffect,
        codes=((409, "NOT_DISCARDABLE"),),
        example={"filter": {"until": "2026-01-01T00:00:00Z"}, "note": "too old to matter"},
    ),
)
