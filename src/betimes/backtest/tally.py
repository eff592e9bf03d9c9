"""Counts of worlds that saw the same traffic, and samples of questions that they answered differently."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from betimes.catalogue import DOMAIN_OF, area_of, spell_answer
from betimes.core.instants import SECOND, Instant
from betimes.core.streams import StreamId
from betimes.core.verdicts import Verdict
from betimes.core.zones import is_zone, offset_at
from betimes.domain.declaration import Domain
from betimes.engine.rehearsal import RehearsedStep

NOTHING = "nothing"
REFUSED = "refused"
SEPARATOR = "\t"
WEEK_HOURS = 7 * 24
NIGHT = range(6)
"""The hours in which most people sleep."""
THURSDAY_HOURS = 3 * 24
"""The first of January 1970 was a Thursday."""


class WorldAnswer(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The answer of a world to a command."""

    outcome: str
    reasons: tuple[str, ...] = ()
    verdict: Verdict | None = None

    @property
    def reason(self) -> str:
        return self.reasons[0] if self.reasons else ""


class Sample(msgspec.Struct, frozen=True):
    """One question that two worlds answered differently."""

    at: Instant
    seq: int
    stream: StreamId
    key: str
    before: WorldAnswer
    after: WorldAnswer

    @property
    def place(self) -> tuple[Instant, StreamId, str, int]:
        """Return the place among others, whichever was found first."""
        return (self.at, self.stream, self.key, self.seq)


class WorldTally(msgspec.Struct):
    """The counts of one world for one part of the traffic. Names are joined by tabs, so that it travels."""

    answers: dict[str, int] = {}
    """Domain, outcome, reason."""
    hours: list[int] = msgspec.field(default_factory=lambda: [0] * 24)
    """Notifications in each hour of the person's own day."""
    people: dict[str, int] = {}
    """Notifications by tenant and user."""
    nights: dict[str, int] = {}
    """The same, between midnight and six by their own clock."""
    runs: int = 0
    """How many were allowed."""
    flips: dict[str, int] = {}
    """Domain, outcome under the recorded policy, outcome here."""
    subjects: dict[str, int] = {}
    """Tenant, kind, id: how many answers to them changed."""
    samples: dict[str, list[Sample]] = {}
    fallbacks: dict[str, int] = {}
    """Outside answers that were never recorded, by who would have been asked."""
    refused: dict[str, int] = {}
    """Recorded commands that this world had no use for, by reason."""
    gone: int = 0
    """Recorded ends of calls that this world never made."""
    week: list[int] = msgspec.field(default_factory=lambda: [0] * WEEK_HOURS)
    """The same as `hours` for each hour of their own week, from Monday on."""

    def add(self, other: WorldTally) -> None:
        """Count what another part counted; samples are left out."""
        for name in ("answers", "people", "nights", "flips", "subjects", "fallbacks", "refused"):
            for counted, count in getattr(other, name).items():
                bump(getattr(self, name), counted, count)
        self.hours = [sum(pair) for pair in zip(self.hours, other.hours, strict=True)]
        self.week = [sum(pair) for pair in zip(self.week, other.week, strict=True)]
        self.runs += other.runs
        self.gone += other.gone

    def differs(self, sample: Sample, samples_max: int) -> None:
        """Count a question that was answered differently; of each kind the first few are kept."""
        stream = sample.stream
        domain = area_of(stream.kind) or stream.kind
        flip = SEPARATOR.join((domain, sample.before.outcome, sample.after.outcome))
        bump(self.flips, flip)
        bump(self.subjects, SEPARATOR.join(stream))
        kept = self.samples.setdefault(flip, [])
        # The first by place, not by when they were found: parts that run side by side come to the same samples.
        if len(kept) < samples_max or (kept and sample.place < kept[-1].place):
            insort(kept, sample, key=place_of)
            del kept[samples_max:]


place_of = attrgetter("place")


def bump(counts: dict[str, int], name: str, by: int = 1) -> None:
    counts[name] = counts.get(name, 0) + by


def answer_of(step: RehearsedStep) -> WorldAnswer | None:
    """Return what a step decided, in the spelling of its domain."""
    verdict = step.recorded.verdict
    if verdict is not None:
        return WorldAnswer(spell_answer(step.stream.kind, verdict.answer), verdict.reasons, verdict)
    domain = DOMAIN_OF.get(step.stream.kind)
    if domain is None or domain.outcome_of is None:
        return None
    for event in reversed(step.events):  # the last one is what it came to
        if decided := domain.outcome_of(event):
            return WorldAnswer(decided.outcome, decided.reasons)
    return None


class Watch:
    """Counts the steps of one world."""

    def __init__(self, tally: WorldTally, state: Callable[[StreamId], Any]) -> None:
        self._tally = tally
        self._state = state

    def count_step(self, step: RehearsedStep, answer: WorldAnswer | None) -> None:
        kind = step.stream.kind
        if answer:
            bump(self._tally.answers, SEPARATOR.join((area_of(kind) or kind, answer.outcome, answer.reason)))
        domain = DOMAIN_OF.get(kind)
        if domain is None:
            return
        rules = domain.backtest
        for event in step.events:
            if event.__class__ in rules.contacts:
                self._count_contact(step.stream, event.at, domain)  # type: ignore[attr-defined]
            elif event.__class__ in rules.costs:
                self._tally.runs += 1

    def _count_contact(self, stream: StreamId, at: Instant, domain: Domain) -> None:
        state, timezone_of = self._state(stream), domain.timezones.get(stream.kind)
        week_hour = local_week_hour(at, timezone_of(state) if state and timezone_of else "UTC")
        hour = week_hour % 24
        self._tally.week[week_hour] += 1
        person = f"{stream.tenant}{SEPARATOR}{stream.id}"
        self._tally.hours[hour] += 1
        bump(self._tally.people, person)
        if hour in NIGHT:
            bump(self._tally.nights, person)


def local_week_hour(at: Instant, timezone: str) -> int:
    """Return the hour of the week at the person's place, 0 to 167, looked up once for every quarter of an hour."""
    return _week_hour(at // (900 * SECOND), timezone)


@lru_cache(maxsize=65_536)
def _week_hour(quarter: int, timezone: str) -> int:
    at = quarter * 900
    # A zone that this machine does not know counts as UTC.
    local = at + (offset_at(timezone, at) if is_zone(timezone) else 0)
    return (local // 3_600 + THURSDAY_HOURS) % WEEK_HOURS
