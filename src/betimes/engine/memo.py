"""Memos of decisions: worlds that go through the same traffic mostly decide the same, and need not do so twice.

`decide` is pure, so the same states, command, instant and policy give the same decision. One world teaches: of every
command it takes it notes the streams as they were, the sections of the policy that were looked at, and what was left
when it was done. Another world in which all of them are the very same, and whose policy says the same in those
sections, takes over what was left. Memos are kept until all worlds have come to the same instant. Holds are the same in
all worlds at all instants, so a memo need not say which one it was made under.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from betimes.core.deciders import Command, Decision
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.segments import Recorded
from betimes.core.streams import KeyId, StreamId
from betimes.engine.jobs import Job
from betimes.engine.turn import LoadedStream

Section = TypeVar("Section", bound=msgspec.Struct)


class WatchedPolicy(Policy):
    """A policy that notes which of its sections were looked at."""

    __slots__ = ("itself", "looked_at")

    def __init__(self, policy: Policy) -> None:
        self.itself = policy
        self.fingerprint, self.body = policy.fingerprint, policy.body
        self.looked_at: set[type[msgspec.Struct]] = set()

    def __getitem__(self, section: type[Section]) -> Section:
        self.looked_at.add(section)
        return self.itself[section]

    def changed_from(self, before: Policy) -> frozenset[type[msgspec.Struct]]:
        # Whoever compares policies depends on every section.
        self.looked_at |= self.itself.sections
        return self.itself.changed_from(before)

    @property
    def sections(self) -> frozenset[type[msgspec.Struct]]:
        self.looked_at |= self.itself.sections
        return self.itself.sections


class Move(NamedTuple):
    """One decision and what it leaves: the streams it wrote, each with its state and its next alarm."""

    stream: StreamId
    command: Command
    key: KeyId | None
    decision: Decision
    recorded: Recorded
    after: tuple[tuple[StreamId, Any, Instant | None], ...]


class DecisionMemo:
    """One command that was taken, whatever was rung ahead of it included."""

    __slots__ = ("at", "before", "command", "key", "moves", "policy", "recorded")

    def __init__(self, policy: WatchedPolicy, at: Instant) -> None:
        self.policy = policy
        self.at = at
        self.command: Command | None = None
        self.key: KeyId | None = None
        self.before: dict[StreamId, tuple[Any, int, Instant]] = {}
        """State, version and last instant of every stream that was seen or written, as it was at first."""
        self.moves: list[Move] = []
        self.recorded: Recorded | None = None

    def saw(self, live: LoadedStream) -> None:
        self.before.setdefault(live.stream, (live.state, live.version, live.at))

    def is_here(self, find: Callable[[StreamId], LoadedStream]) -> bool:
        """Return whether all streams that mattered are the very same in another world."""
        for name, (state, version, at) in self.before.items():
            live = find(name)
            # The very same object: worlds share states, and comparing them by value would cost what a memo saves.
            if live.state is not state or live.version != version or live.at != at:
                return False
        return True


class MemoTable:
    """The memos of what one world has done lately."""

    def __init__(self) -> None:
        self._memos: dict[tuple[StreamId, int], DecisionMemo] = {}
        self._changed: dict[tuple[str, str], frozenset[type[msgspec.Struct]]] = {}

    def clear(self) -> None:
        self._memos.clear()

    def note(self, job: Job, version: int, memo: DecisionMemo, recorded: Recorded) -> None:
        """Keep the memo of a job that was done; its stream was at this version when it came."""
        assert job.stream
        memo.command, memo.key, memo.recorded = job.submission.command, job.key, recorded
        self._memos[job.stream, version] = memo

    def find(self, stream: StreamId, version: int) -> DecisionMemo | None:
        return self._memos.get((stream, version))

    def is_the_same_by(self, memo: DecisionMemo, policy: Policy) -> bool:
        """Return whether a policy says the same wherever the memo looked."""
        names = (memo.policy.fingerprint, policy.fingerprint)
        changed = self._changed.get(names)
        if changed is None:
            # Comparing two policies is dear, and worlds go by the same two all along.
            changed = self._changed[names] = policy.changed_from(memo.policy.itself)
        return changed.isdisjoint(memo.policy.looked_at)
