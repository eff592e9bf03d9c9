"""Waits of intents for `betimes why`: one that is due and not claimed has no decision to explain."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from betimes.core.errors import MissingScope, NotFound
from betimes.domain.json_view import JsonView
from betimes.intents.conditions import TRIGGER_SOURCES, expression, sources_of
from betimes.intents.expressions import BadExpression
from betimes.intents.intent_view import IntentView
from betimes.ledger.call_results import shorten_error
from betimes.tenancy import Tenancy


class IntentWait(JsonView, frozen=True, kw_only=True):
    """An intent that waits for a worker, or for a source that failed."""

    since: datetime
    sources: list[str]
    """Those that its worker has to have."""
    error: str | None
    """Of the source, if it was asked and failed."""


async def find_wait(services: Tenancy, intent_id: str, now: datetime) -> IntentWait | None:
    """Return what the check of an intent waits for, if it should have been made by now."""
    with suppress(NotFound, MissingScope):
        intent = await services.intents.get(intent_id)
        if failed := intent.waiting_for_source:
            return IntentWait(since=failed.since, sources=[failed.name], error=failed.error)
        if intent.enabled and intent.claim is None and intent.due_at and intent.due_at < now:
            return IntentWait(since=intent.due_at, sources=_sources_of(intent), error=None)
    return None


def spell_wait(wait: IntentWait, spell_time: Callable[[datetime], str]) -> str:
    """Return in a sentence what an intent waits for."""
    names = " and ".join(wait.sources)
    if wait.error is not None:
        return f"It waits for its source {names} since {spell_time(wait.since)}: {shorten_error(wait.error)}."
    needed = f" that has the source{'s' if len(wait.sources) > 1 else ''} {names}" if names else ""
    return f"It is due since {spell_time(wait.since)} and nobody has taken it: it waits for a worker{needed}."


def _sources_of(intent: IntentView) -> list[str]:
    by_type = TRIGGER_SOURCES.get(intent.trigger_type)
    if by_type is None:
        return []
    text = intent.condition.expression if intent.condition else None
    with suppress(BadExpression):
        return sorted({by_type, *(sources_of(expression(text).needs) if text else ())})
    return [by_type]
