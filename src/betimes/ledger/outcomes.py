"""Outcomes of segments, in the spelling of their domains: verdicts, fires, ticks, evaluations, decays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import msgspec

from betimes.catalogue import DOMAIN_OF, spell_answer
from betimes.core.datetimes import moment
from betimes.core.deciders import Event
from betimes.core.outcomes import EventOutcome
from betimes.core.segments import Segment
from betimes.domain.declaration import Domain, list_reasons
from betimes.engine.codecs import Kinds, checkpoint_of


class OutcomeView(msgspec.Struct, frozen=True):
    """One decision of a segment, as people see it."""

    outcome: str
    reasons: tuple[str, ...]
    explanation: str
    defer_until: datetime | None = None
    would_pass_at: datetime | None = None


def verdict_outcome(kinds: Kinds, segment: Segment) -> OutcomeView | None:
    """Return the segment's verdict, if it has one."""
    verdict = kinds.of(segment.stream).recorded(segment).verdict if segment.verdict is not None else None
    if verdict is None:
        return None
    domain = DOMAIN_OF.get(segment.stream.kind)
    describe = domain.describe_verdict if domain else list_reasons
    return OutcomeView(
        outcome=spell_answer(segment.stream.kind, verdict.answer),
        reasons=verdict.reasons,
        explanation=describe(segment, verdict),
        defer_until=moment(verdict.until),
        would_pass_at=moment(verdict.would_pass_at),
    )


def outcomes_of(kinds: Kinds, segment: Segment) -> list[OutcomeView]:
    """Return everything the segment decided, in order; of most segments one thing or nothing."""
    domain = DOMAIN_OF.get(segment.stream.kind)
    if domain is None or checkpoint_of(segment):
        return []
    if domain.outcome_of is None:
        verdict = verdict_outcome(kinds, segment)
        return [verdict] if verdict else []
    return list(_event_outcomes(domain, domain.outcome_of, kinds.of(segment.stream).events(segment)))


def _event_outcomes(
    domain: Domain, outcome_of: Callable[[Event], EventOutcome | None], events: Iterable[Event]
) -> Iterator[OutcomeView]:
    for event in events:
        decided = outcome_of(event)
        if decided:
            yield OutcomeView(decided.outcome, decided.reasons, domain.describe_event(event), moment(decided.until))
