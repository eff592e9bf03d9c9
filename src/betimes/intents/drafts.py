"""Drafts of intents: made from the body that was sent, and turned into the definition that is kept, and back.

Fields that are read-only may be sent back and are ignored; `null` is the same as leaving a field out. A draft whose
shape is wrong in places is still made from the rest, so that everything else that is wrong can be named with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from betimes.core.checks import examine
from betimes.core.instants import Instant, render
from betimes.domain.derivation import derive
from betimes.domain.struct_forms import nested_fields
from betimes.intents.check_times import read_instant, usual_check_minutes
from betimes.intents.conditions import TRIGGER_SOURCES, expression, sources_of
from betimes.intents.intent_view import READ_ONLY
from betimes.intents.model import CONDITION_BASED, Definition, DefinitionProblem, Draft, Gate, IntentState, Schedule

_NESTED = nested_fields(Draft)


def sent_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a body that its author decides, without those that are read-only or null."""
    kept = {name: value for name, value in body.items() if name not in READ_ONLY and value is not None}
    for name in _NESTED:
        if isinstance(kept.get(name), Mapping):
            kept[name] = {inner: value for inner, value in kept[name].items() if value is not None}
    return kept


def draft_from(fields: dict[str, Any]) -> tuple[Draft, list[DefinitionProblem], int]:
    """Return the draft as far as its shape is right, the first things wrong with that, and how many there are."""
    examined = examine(fields, Draft)
    first = [DefinitionProblem(path, message) for path, message in examined.found.first]
    return examined.value, first, examined.found.total


def body_of(intent_id: str, state: IntentState) -> dict[str, Any]:
    """Return the definition as its author could have written it."""
    draft = derive(Draft, state.definition, instant=render, intent_id=intent_id, enabled=state.enabled)
    body: dict[str, Any] = msgspec.to_builtins(draft)
    return body


def definition_of(draft: Draft) -> Definition:
    """Return the form to keep of a draft in which nothing is wrong; a default that was spelt out stays the default."""
    gate, minutes = draft.gate, draft.schedule.check_interval_minutes
    is_usual = minutes == usual_check_minutes(draft.trigger_type)

    def instant(text: str) -> Instant:
        return read_instant(text, draft.schedule.timezone)

    return derive(
        Definition,
        draft,
        instant=instant,
        schedule=derive(
            Schedule, draft.schedule, instant=instant, check_interval_minutes=None if is_usual else minutes
        ),
        gate=Gate(gate.trigger_type) if gate and gate.account_id == draft.user_id else gate,
        sources=_other_sources(draft),
    )


def _other_sources(draft: Draft) -> tuple[str, ...]:
    """Return the sources of its expression, unless they are what its type stands for."""
    text = draft.condition.expression if draft.condition and draft.trigger_type in CONDITION_BASED else None
    needed = tuple(sorted(sources_of(expression(text).needs))) if text is not None else ()
    return () if needed == (TRIGGER_SOURCES.get(draft.trigger_type),) else needed
