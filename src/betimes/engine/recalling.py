"""Decisions that need not be made twice: worlds that go through the same traffic mostly decide the same.

`decide` is pure, so the same view, command, instant and policy give the same decision. One world teaches: it notes what
each of its decisions saw, and which sections of the policy it looked at. Another world at the same version of the same
stream that would see the very same things, and whose policy says the same in those sections, takes over the decision
and the states it leads to. What is noted is kept until all worlds have come to the same instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from betimes.core.deciders import Command, Decision, Event, View
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.streams import StreamId

Section = TypeVar("Section", bound=msgspec.Struct)


class Watched(Policy):
    """A policy that notes which of its sections were looked at."""

    __slots__ = ("_policy", "looked_at")

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.fingerprint, self.body = policy.fingerprint, policy.body
        self.looked_at: set[type[msgspec.Struct]] = set()

    def __getitem__(self, section: type[Section]) -> Section:
        self.looked_at.add(section)
        return self._policy[section]

    def changed_from(self, before: Policy) -> frozenset[type[msgspec.Struct]]:
        self.looked_at |= self._policy.sections
        return self._policy.changed_from(before)

    @property
    def sections(self) -> frozenset[type[msgspec.Struct]]:
        self.looked_at |= self._policy.sections
        return self._policy.sections


class _Decided(NamedTuple):
    view: View[Any]
    command: Command
    now: Instant
    policy: Policy
    looked_at: set[type[msgspec.Struct]]
    decision: Decision


class _Folded(NamedTuple):
    state: Any
    events: tuple[Event, ...]
    after: Any


class Recollection:
    """What one world has decided lately."""

    def __init__(self) -> None:
        self._decided: dict[tuple[StreamId, int], _Decided] = {}
        self._folded: dict[tuple[StreamId, int], _Folded] = {}
        self._changed: dict[tuple[str, str], frozenset[type[msgspec.Struct]]] = {}

    def clear(self) -> None:
        self._decided.clear()
        self._folded.clear()

    # -- the world that teaches

    def note(self, view: View[Any], command: Command, now: Instant, watched: Watched, policy: Policy,
             decision: Decision) -> None:  # fmt: skip
        self._decided[view.stream, view.version] = _Decided(view, command, now, policy, watched.looked_at, decision)

    def note_fold(self, stream: StreamId, version: int, state: Any, events: tuple[Event, ...], after: Any) -> None:
        self._folded[stream, version] = _Folded(state, events, after)

    # -- the worlds that learn

    def decision(self, view: View[Any], command: Command, now: Instant, policy: Policy) -> Decision | None:
        """What was decided by the very same things, if it was."""
        known = self._decided.get((view.stream, view.version))
        if known is None or known.now != now or known.view.state is not view.state or known.view.key != view.key:
            return None
        if not _are_the_same(known.view.others, view.others) or known.command != command:
            return None
        return known.decision if self._changes(known.policy, policy).isdisjoint(known.looked_at) else None

    def after(self, stream: StreamId, version: int, state: Any, events: tuple[Event, ...]) -> tuple[Any, bool]:
        """The state that the same events led to, and whether that is known."""
        known = self._folded.get((stream, version))
        if known is None or known.state is not state or known.events is not events:
            return None, False
        return known.after, True

    def _changes(self, one: Policy, other: Policy) -> frozenset[type[msgspec.Struct]]:
        names = (one.fingerprint, other.fingerprint)
        changed = self._changed.get(names)
        if changed is None:
            changed = self._changed[names] = other.changed_from(one)
        return changed


def _are_the_same(ones: Mapping[StreamId, Any], others: Mapping[StreamId, Any]) -> bool:
    if ones is others:
        return True
    return len(ones) == len(others) and all(name in others and others[name] is state for name, state in ones.items())
