"""Hooks: what else is to happen when something does, by policy.

`hooks` is a list in the policy: `[{on: [occasions], target}]`. A domain names its occasion and gets the effects to put
beside its own; the key of each derives from the cause, so that no occasion is answered twice. The effects of a
hook cause no hooks themselves.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from betimes.core.deciders import Effect
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.domain.targets import Cause, Target, effect_of

Occasion: TypeAlias = Literal[
    "RUN_DECISION", "RUN_DECISION_DEFERRED", "SCORE_THRESHOLD", "GAME_OVER", "DELIVERY_FAILED", "INTENT_DISABLED"
]


class Hook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    on: Annotated[tuple[Occasion, ...], msgspec.Meta(min_length=1)]
    target: Target


class Hooks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The section `hooks`, written as a list."""

    listed: ClassVar[str] = "entries"

    entries: Annotated[tuple[Hook, ...], msgspec.Meta(max_length=32)] = ()
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] = "betimes"


BY_POLICY = ("admin",)
"""Whoever sets a policy is an administrator."""


def hook_effects(
    policy: Policy,
    tenant: str,
    occasion: Occasion,
    *,
    key: str,
    at: Instant,
    subject: str,
    detail: dict[str, Any],
    correlation: str = "",
) -> tuple[Effect, ...]:
    """Return the effects that hooks on this occasion ask for; handlers and webhooks are given the envelope."""
    hooks = policy[Hooks]
    if not hooks.entries:
        return ()
    body = envelope(hooks.source, occasion, detail)
    cause = Cause(
        key=key, at=at, subject=subject, body=body, correlation=correlation, by_hook=True, authority=BY_POLICY
    )
    return tuple(
        effect_of(tenant, hook.target, replace(cause, key=f"{key}:hook:{place}"))
        for place, hook in enumerate(hooks.entries)
        if occasion in hook.on
    )


def envelope(source: str, occasion: str, detail: dict[str, Any]) -> dict[str, Any]:
    """Return what receivers get: the source, the occasion and its details."""
    return {"source": source, "detail-type": occasion, "detail": detail}
