"""Definitions as their authors write them: made from what was sent, patched, and turned into what is kept.

Fields that are read-only may be sent back and are ignored; `null` is the same as leaving a field out. A draft whose
shape is wrong in places is still made from the rest, so that everything else that is wrong can be named with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from betimes.core.checks import examine
from betimes.core.instants import render
from betimes.intents.conditions import TRIGGER_SOURCES, expression, sources_of
from betimes.intents.model import CONDITION_BASED, Definition, Draft, Gate, Problem, Schedule
from betimes.intents.timing import read_instant, usual_check_minutes

READ_ONLY = frozenset(
    {
        "version",
        "created_at",
        "updated_at",
        "warnings",
        "segment_id",
        "next_check",
        "last_checked",
        "last_executed",
        "execution_count",
        "last_status",
        "last_error",
        "last_condition_fire",
        "in_cooldown",
        "cooldown_remaining_hours",
        "claimed_at",
        "claim",
        "was_disabled_reason",
        "waiting_for_source",
    }
)
_NESTED = ("schedule", "condition", "gate")


def sent_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """What an author decides, without what is read-only and what is null."""
    kept = {name: value for name, value in body.items() if name not in READ_ONLY and value is not None}
    for name in _NESTED:
        if isinstance(kept.get(name), Mapping):
            kept[name] = {inner: value for inner, value in kept[name].items() if value is not None}
    return kept


def draft_from(fields: dict[str, Any]) -> tuple[Draft, list[Problem], int]:
    """Return the draft as far as its shape is right, the first things wrong with that, and how many there are."""
    examined = examine(fields, Draft)
    first = [Problem(path, message) for path, message in examined.found.first]
    return examined.value, first, examined.found.total


def patched(body: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON merge patch: mappings are merged, `null` removes, anything else replaces."""
    merged = dict(body)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            below = merged.get(name)
            merged[name] = patched(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[name] = value
    return merged


def body_of(intent_id: str, definition: Definition, enabled: bool) -> dict[str, Any]:
    """The definition as its author could have written it."""
    body: dict[str, Any] = msgspec.to_builtins(definition)
    if definition.expires_at is not None:
        body["expires_at"] = render(definition.expires_at)
    if definition.schedule.trigger_at is not None:
        body["schedule"]["trigger_at"] = render(definition.schedule.trigger_at)
    return {**body, "intent_id": intent_id, "enabled": enabled}


def definition_of(draft: Draft) -> Definition:
    """What is kept of a draft in which nothing is wrong; a default that was spelt out is still the default."""
    schedule, gate = draft.schedule, draft.gate
    explicit = schedule.check_interval_minutes
    return Definition(
        user_id=draft.user_id,
        trigger_type=draft.trigger_type,
        expires_at=None if draft.expires_at is None else read_instant(draft.expires_at, schedule.timezone),
        max_executions=draft.max_executions,
        metadata=draft.metadata,
        schedule=Schedule(
            cron=schedule.cron,
            interval_minutes=schedule.interval_minutes,
            trigger_at=None if schedule.trigger_at is None else read_instant(schedule.trigger_at, schedule.timezone),
            check_interval_minutes=None if explicit == usual_check_minutes(draft.trigger_type) else explicit,
            timezone=schedule.timezone,
        ),
        condition=draft.condition,
        action_type=draft.action_type,
        action_context=draft.action_context,
        action_priority=draft.action_priority,
        action_channels=draft.action_channels,
        gate=Gate(gate.trigger_type) if gate and gate.account_id == draft.user_id else gate,
        worker=draft.worker,
        sources=_other_sources(draft),
    )


def _other_sources(draft: Draft) -> tuple[str, ...]:
    """Return the sources of its expression, unless they are what its type stands for."""
    text = draft.condition.expression if draft.condition and draft.trigger_type in CONDITION_BASED else None
    needed = tuple(sorted(sources_of(expression(text).needs))) if text is not None else ()
    return () if needed == (TRIGGER_SOURCES.get(draft.trigger_type),) else needed
