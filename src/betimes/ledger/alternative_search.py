"""The search for alternatives: one segment decided again and again, within bounds, and the views of what is found."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from time import thread_time
from typing import Any, Literal, TypeAlias

import msgspec

from betimes.core.datetimes import moment
from betimes.core.errors import Invalid
from betimes.core.policies import Policy
from betimes.core.setting_paths import with_settings
from betimes.core.verdicts import Answer, Verdict
from betimes.domain.json_view import JsonView
from betimes.engine.engine import Engine
from betimes.engine.redecision import Past, Redecided, decide_again
from betimes.ledger.outcomes import spell_events, spell_outcome

DECISIONS_MAX = 200
CPU_S_MAX = 0.5
SLICE_S = 0.01
RANK: dict[Answer, int] = {"NEVER": 0, "LATER": 1, "NOW": 2}
ChangeKind: TypeAlias = Literal["time", "rule", "setting", "request", "person", "definition"]


class PromisedAnswer(JsonView, frozen=True):
    """The answer that a change leads to."""

    outcome: str
    reasons: tuple[str, ...]
    until: datetime | None


class AlternativeChange(JsonView, frozen=True, kw_only=True, rename={"says": "if", "before": "from", "after": "to"}):
    """One change, and the answer it leads to."""

    kind: ChangeKind
    says: str
    """The change, in words."""
    path: str
    """The setting, the field of the request or the definition, or the rules, joined by `+`."""
    before: Any
    after: Any
    then: PromisedAnswer
    at: datetime | None = None
    """Of a change of time: the instant."""


class AlternativesView(JsonView, frozen=True, kw_only=True):
    segment_id: str
    reproduced: bool
    """Whether deciding again gave the recorded verdict and events, byte for byte."""
    why_not: str | None = None
    """Why it cannot be decided again as it was."""
    answer: PromisedAnswer | None
    """The recorded answer."""
    changes: list[AlternativeChange]
    decisions: int = 0
    """Number of times it was decided again."""
    truncated: bool = False
    """Whether the search ended at its bound; there may be further changes."""


class OutOfBudget(Exception):
    """The search is at its bound."""


class AlternativeSearch:
    """Decides one segment again and again, within its bounds."""

    def __init__(self, engine: Engine, past: Past, recorded: Verdict) -> None:
        self.engine = engine
        self.past = past
        self.recorded = recorded
        self.decisions = 0
        self.body: dict[str, Any] = msgspec.json.decode(past.policy.body)
        # Time of this thread alone, so that what others do in their turn is not counted.
        self._began_s = self._slice_s = thread_time()

    async def decide(self, **changed: Any) -> Redecided | None:
        """Return what is decided with something changed; raise `OutOfBudget` at a bound."""
        self.count()
        if thread_time() - self._slice_s > SLICE_S:
            await asyncio.sleep(0)
            self._slice_s = thread_time()
        return decide_again(self.engine, self.past, **changed)

    def count(self) -> None:
        """Count one more decision; raise `OutOfBudget` at a bound."""
        if self.decisions >= DECISIONS_MAX or thread_time() - self._began_s > CPU_S_MAX:
            raise OutOfBudget
        self.decisions += 1

    async def decide_under(self, changes: Mapping[str, Any]) -> Redecided | None:
        """Return what is decided under a policy with other settings; `None` under one that cannot be."""
        policy = self._policy_with(changes)
        return await self.decide(policy=policy) if policy else None

    def is_possible(self, changes: Mapping[str, Any]) -> bool:
        """Return whether a policy may have these settings together with its others."""
        return self._policy_with(changes) is not None

    def _policy_with(self, changes: Mapping[str, Any]) -> Policy | None:
        try:
            return self.engine.book.from_stored(msgspec.json.encode(with_settings(self.body, changes)).decode())
        except (Invalid, KeyError):
            return None

    def is_better(self, again: Redecided | None) -> bool:
        return self.rank_of(again) > RANK[self.recorded.answer]

    def rank_of(self, again: Redecided | None) -> int:
        """Return how good an answer is. Events that decided something without a verdict did what was asked for."""
        if again and again.verdict:
            return RANK[again.verdict.answer]
        return RANK["NOW"] if again and spell_events(self.past.segment.stream.kind, again.events) else -1

    def change(
        self, kind: ChangeKind, says: str, path: str, before: Any, after: Any, again: Redecided
    ) -> AlternativeChange:
        """Return a change with the answer that it leads to."""
        then = self.tell(again)
        return AlternativeChange(kind=kind, says=says, path=path, before=before, after=after, then=then)

    def tell(self, again: Redecided) -> PromisedAnswer:
        kind, verdict = self.past.segment.stream.kind, again.verdict
        if verdict is None:
            return PromisedAnswer(spell_events(kind, again.events) or "", (), None)
        return PromisedAnswer(spell_outcome(kind, verdict, again.events), verdict.reasons, moment(verdict.until))


def bound_rule(verdict: Verdict) -> str | None:
    """Return the name of the rule that decided."""
    bound = [step.rule for step in verdict.trace if step.reason is not None and not step.shadow]
    return str(bound[-1]) if bound else None
