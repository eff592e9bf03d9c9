"""Variations of a notification's decision, for the search for alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Command
from betimes.core.instants import Instant
from betimes.domain.variations import Variation, Variations
from betimes.notifications.model import InboxState, Item, Notify, OptOut
from betimes.notifications.policy import CRITICAL_TYPE
from betimes.notifications.reasons import SHADOWABLE_RULES
from betimes.notifications.rule_context import RANK

_HINTS = ("MEDIUM", "HIGH", "CRITICAL")
_request, _person = partial(Variation, "request"), partial(Variation, "person")


def names(command: Command, state: InboxState | None, at: Instant) -> Mapping[str, tuple[str, ...]]:
    """Return the type and the channels of what is judged: a new notification, or the one that waits and is due."""
    item = command if isinstance(command, Notify) else _due_item(state, at) if state else None
    return {} if item is None else {"event_type": (item.event_type,), "channel": item.channels}


def _due_item(state: InboxState, at: Instant) -> Item | None:
    """Return the item that a wake evaluates: of those due the one of highest priority, then the oldest."""
    due = [item for item in state.waiting if item.until_at <= at and not item.digest]
    return min(due, key=lambda item: (-RANK[item.priority], item.accepted_at, item.version), default=None)


def vary(command: Command, state: InboxState | None) -> Iterator[Variation]:
    """Return other hints, lives and types of a new notification, and other choices of the person."""
    if isinstance(command, Notify):
        yield from _vary_request(command)
    if state is not None:
        yield from _vary_person(state)


def _vary_request(command: Notify) -> Iterator[Variation]:
    hint = command.priority_hint
    stronger = _HINTS if hint not in _HINTS else _HINTS[_HINTS.index(hint) + 1 :]
    for after in stronger:
        changed = replace(command, priority_hint=after)
        yield _request(f"its priority hint had been {after}", "priority_hint", hint, after, command=changed)
    if command.expires_at is not None:
        changed = replace(command, expires_at=None)
        yield _request("it had had no expiry", "expires_at", command.expires_at, None, command=changed)
    if not command.requested:
        changed = replace(command, requested=True)
        yield _request("the person had asked for it", "requested", False, True, command=changed)
    if command.event_type != CRITICAL_TYPE:
        changed = replace(command, event_type=CRITICAL_TYPE)
        says = f"it had been of the type {CRITICAL_TYPE}"
        yield _request(says, "event_type", command.event_type, CRITICAL_TYPE, command=changed)


def _vary_person(state: InboxState) -> Iterator[Variation]:
    chosen = state.preferences
    if chosen.quiet_hours:
        changed = replace(state, preferences=replace(chosen, quiet_hours=()))
        yield _person("the person had no quiet hours", "preferences.quiet_hours", "set", "none", state=changed)
    if chosen.opt_out != OptOut():
        changed = replace(state, preferences=replace(chosen, opt_out=OptOut()))
        yield _person("the person had opted out of nothing", "preferences.opt_out", "set", "none", state=changed)
    if state.ban is not None:
        yield _person("the account had not been banned", "ban", "banned", "not banned", state=replace(state, ban=None))


def switch_off(rule: str, names: Mapping[str, tuple[str, ...]]) -> Mapping[str, Any]:
    """Put a rule in shadow, if it can be."""
    return {"notifications.shadow": (rule,)} if rule in SHADOWABLE_RULES else {}


VARIATIONS = Variations(names=names, vary=vary, switch_off=switch_off)
