"""Outcomes of segments, in the spelling of their domains: verdicts, fires, ticks, evaluations, decays.

This is the one place for the word of an outcome. Explanations, lists, live verdicts and the terminal take it from here;
the tally counts under the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from betimes.catalogue import DOMAIN_OF, spell_answer
from betimes.core.datetimes import moment
from betimes.core.deciders import Command, Event
from betimes.core.outcomes import EventOutcome
from betimes.core.segments import Segment
from betimes.core.verdicts import Verdict
from betimes.domain.declaration import Domain, list_reasons
from betimes.engine.codecs import Kinds, checkpoint_of, repair_of


class OutcomeView(msgspec.Struct, frozen=True):
    """One decision of a segment, as people see it."""

    outcome: str
    reasons: tuple[str, ...]
    explanation: str
    defer_until: datetime | None = None
    would_pass_at: datetime | None = None


def spell_outcome(kind: str, verdict: Verdict, events: Iterable[Event]) -> str:
    """Return the word of a verdict: what its events came to, if the domain has a word for that, else its answer."""
    return spell_events(kind, events) or spell_answer(kind, verdict.answer)


def spell_events(kind: str, events: Iterable[Event]) -> str | None:
    """Return the word for what events came to, if one of them stands for a decision."""
    domain = DOMAIN_OF.get(kind)
    decided = [*_decided(domain, events)] if domain else []
    return decided[-1][1].outcome if decided else None


def verdict_outcome(kinds: Kinds, segment: Segment) -> OutcomeView | None:
    """Return what the segment decided, in the words of its events where its domain has such; else its verdict."""
    verdict = kinds.of(segment.stream).recorded(segment).verdict if segment.verdict is not None else None
    domain = DOMAIN_OF.get(segment.stream.kind)
    if domain and domain.outcome_of and (decided := outcomes_of(kinds, segment)):
        last = decided[-1]  # what it came to
        if verdict is None:  # nothing was judged, as of a tick that somebody asked for
            return last
        until = last.defer_until or moment(verdict.until)
        return msgspec.structs.replace(last, reasons=last.reasons or verdict.reasons, defer_until=until)
    if verdict is None:
        return None
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
    decided = [*_decided(domain, _complete_events(kinds, segment, domain))]
    command = _command_of(kinds, segment) if decided else None
    return [
        OutcomeView(outcome.outcome, outcome.reasons, domain.describe_event(event, command), moment(outcome.until))
        for event, outcome in decided
    ]


def _command_of(kinds: Kinds, segment: Segment) -> Command | None:
    """Return the command of a segment; `None` if another stream's led to it, or a repair."""
    if segment.command is None or repair_of(segment):
        return None
    return kinds.of(segment.stream).command(segment.command, segment)


def _complete_events(kinds: Kinds, segment: Segment, domain: Domain) -> Iterable[Event]:
    """Return the events of a segment, with what its verdict knows about them."""
    kind, complete = kinds.of(segment.stream), domain.complete_event
    verdict = kind.recorded(segment).verdict if complete and segment.verdict is not None else None
    events = kind.events(segment)
    return [complete(event, verdict) for event in events] if complete and verdict else events


def _decided(domain: Domain, events: Iterable[Event]) -> Iterator[tuple[Event, EventOutcome]]:
    """Yield the events that stand for a decision, each with what it decided."""
    for event in events if domain.outcome_of else ():
        if domain.outcome_of and (decided := domain.outcome_of(event)):
            yield event, decided
