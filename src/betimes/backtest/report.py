"""The answer of a backtest, for people and programs: first how well the recorded policy was reproduced, then what every
candidate would have changed. The same ledger and the same plan give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

import msgspec

from betimes.backtest.control import DIFFERENCES_MAX, Control
from betimes.backtest.domain_rules import NOUNS, PARTS
from betimes.backtest.lockstep import PartResult
from betimes.backtest.plan import Candidate, Plan
from betimes.backtest.tally import NIGHT, SEPARATOR, WEEK_HOURS, WorldAnswer, WorldTally, place_of
from betimes.core.instants import DAY, Instant, InstantText, render
from betimes.domain.service import TraceStep, trace_of
from betimes.engine.codecs import Kinds

AFFECTED_MAX = 20


class OutcomeLine(msgspec.Struct, frozen=True):
    """The number of answers given for a reason."""

    domain: str
    outcome: str
    reason: str
    before: int
    after: int


class FlipLine(msgspec.Struct, frozen=True):
    """The number of times one answer became another."""

    domain: str
    before: str
    after: str
    count: int


class Affected(msgspec.Struct, frozen=True):
    """Somebody to whom answers changed."""

    tenant: str
    kind: str
    id: str
    flips: int


class Nights(msgspec.Struct, frozen=True):
    """Notifications to a user between midnight and six, local time."""

    tenant: str
    user: str
    before: int
    after: int


class Change(msgspec.Struct, frozen=True):
    before: int
    after: int


class Rate(msgspec.Struct, frozen=True):
    before: float
    after: float


class Cost(msgspec.Struct, frozen=True):
    """The cost: allowed runs, and notifications."""

    runs_allowed: Change
    told: Change
    told_at_night: Change
    """Between midnight and six, in the user's local time."""
    people: int
    days: float
    """Of the window, as far as there is a ledger of it; for the rate, less than one counts as one."""
    told_per_person_day: Rate


class Side(msgspec.Struct, frozen=True):
    """One world's answer to a question."""

    outcome: str
    reasons: tuple[str, ...]
    until: InstantText | None
    trace: list[TraceStep]


class Flip(msgspec.Struct, frozen=True):
    """A changed answer, with both traces."""

    at: InstantText
    tenant: str
    kind: str
    id: str
    key: str
    before: Side
    after: Side


class CandidateReport(msgspec.Struct, frozen=True):
    """The changes that one policy would have made."""

    name: str
    tenant: str | None
    policy: dict[str, Any]
    outcomes: list[OutcomeLine]
    flips: list[FlipLine]
    flip_count: int
    affected: list[Affected]
    hours_before: list[int]
    hours_after: list[int]
    nights: list[Nights]
    """People whose nights would have been different, those who would have been woken most first."""
    cost: Cost
    fallbacks: dict[str, int]
    refused: dict[str, int]
    gone: int
    samples: list[Flip]
    week_before: list[list[int]] = []
    """Notifications by weekday (from Monday on) and local hour of the users."""
    week_after: list[list[int]] = []
    nights_changed: int = 0
    """Number of users whose nights would have been different; `nights` lists the first of them."""


class ControlReport(msgspec.Struct, frozen=True):
    """The reproduction of the recorded policy."""

    reproduced: bool
    """Whether every verdict was."""
    verdicts: int
    same: int
    segments: int
    identical: int
    differences: list[dict[str, str]]
    refused: dict[str, int]


class SampleReport(msgspec.Struct, frozen=True):
    """The part of the subjects that a backtest is of."""

    subjects: int
    subjects_total: int
    segments: int
    segments_total: int
    left_out: int
    """Subjects that depend on each other in groups too large for the sample: a tenant's shared quota ties its
    accounts."""


class BacktestReport(msgspec.Struct, frozen=True):
    """The whole answer."""

    since: InstantText | None
    until: InstantText | None
    tenant: str | None
    domain: str | None
    segments: int
    commands: int
    control: ControlReport
    candidates: list[CandidateReport]
    sample: SampleReport | None = None
    """If it is of a part of the subjects."""


def build_report(
    plan: Plan, parts: Sequence[PartResult], kinds: Kinds, sample: SampleReport | None = None
) -> BacktestReport:
    """Return one report of all parts, whose order does not matter."""
    before = merge_tallies([part.before for part in parts], plan.samples_max)
    starts_at, ends_at = parts[0].starts_at, parts[0].ends_at  # the same of all
    days = round(max((ends_at or 0) - (starts_at or 0), 1) / DAY, 6)
    idle = NOUNS.keys() - {provider for part in parts for provider in part.providers}
    candidates = []
    for place, candidate in enumerate(plan.candidates):
        after = merge_tallies([part.after[place] for part in parts], plan.samples_max)
        for provider in idle:  # nobody would have been asked
            after.fallbacks.pop(provider, None)
        candidates.append(_candidate(candidate, before, after, days, kinds))
    return BacktestReport(
        _instant_text(starts_at if plan.since_at is None else plan.since_at),
        _instant_text(ends_at if plan.until_at is None else plan.until_at),
        plan.tenant,
        plan.domain,
        sum(part.segments for part in parts),
        sum(part.commands for part in parts),
        _control([part.control for part in parts], before),
        candidates,
        sample,
    )


def _candidate(
    candidate: Candidate, before: WorldTally, after: WorldTally, days: float, kinds: Kinds
) -> CandidateReport:
    return CandidateReport(
        candidate.name,
        candidate.tenant,
        candidate.policy,
        _outcomes(before, after),
        _flips(after),
        sum(after.flips.values()),
        _most_affected(after),
        before.hours,
        after.hours,
        _nights(before, after),
        _cost(before, after, days),
        _sort_counts(after.fallbacks),
        _sort_counts(after.refused),
        after.gone,
        [
            Flip(render(one.at), *one.stream, one.key, _side(one.before, kinds), _side(one.after, kinds))
            for one in sorted(chain.from_iterable(after.samples.values()), key=place_of)
        ],
        _days(before.week),
        _days(after.week),
        sum(before.nights.get(name, 0) != after.nights.get(name, 0) for name in before.nights | after.nights),
    )


def merge_tallies(tallies: Sequence[WorldTally], samples_max: int) -> WorldTally:
    """Return one tally of all parts."""
    whole = WorldTally()
    for tally in tallies:
        whole.add(tally)
        for flip, samples in tally.samples.items():
            whole.samples.setdefault(flip, []).extend(samples)
    for samples in whole.samples.values():
        # Parts end in any order; sorted, the same backtest shows the same samples every time.
        samples.sort(key=place_of)
        del samples[samples_max:]
    return whole


def _days(week: list[int]) -> list[list[int]]:
    return [week[start : start + 24] for start in range(0, WEEK_HOURS, 24)]


def _sort_counts(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))


def _instant_text(at: Instant | None) -> str | None:
    return None if at is None else render(at)


def _control(parts: Sequence[Control], before: WorldTally) -> ControlReport:
    verdicts, same = sum(part.verdicts for part in parts), sum(part.same for part in parts)
    differences = sorted((d for part in parts for d in part.differences), key=lambda d: (d.tenant, d.segment))
    return ControlReport(
        verdicts == same,
        verdicts,
        same,
        sum(part.segments for part in parts),
        sum(part.identical for part in parts),
        [msgspec.to_builtins(difference) for difference in differences[:DIFFERENCES_MAX]],
        _sort_counts(before.refused),
    )


def _three(name: str) -> tuple[str, str, str]:
    first, second, third = name.split(SEPARATOR)
    return first, second, third


def _outcomes(before: WorldTally, after: WorldTally) -> list[OutcomeLine]:
    names = sorted(before.answers.keys() | after.answers.keys())
    return [OutcomeLine(*_three(name), before.answers.get(name, 0), after.answers.get(name, 0)) for name in names]


def _flips(after: WorldTally) -> list[FlipLine]:
    lines = [FlipLine(*_three(name), count) for name, count in after.flips.items()]
    return sorted(lines, key=lambda line: (-line.count, line.domain, line.before, line.after))


def _most_affected(after: WorldTally) -> list[Affected]:
    """Return the people, accounts and the like with most changes; a run counts for its account."""
    most = sorted(after.subjects.items(), key=lambda item: (-item[1], item[0]))
    lines = (Affected(*_three(name), count) for name, count in most)
    return [*islice((line for line in lines if line.kind not in PARTS), AFFECTED_MAX)]


def _nights(before: WorldTally, after: WorldTally) -> list[Nights]:
    lines = []
    for name in before.nights.keys() | after.nights.keys():
        tenant, user = name.split(SEPARATOR)
        lines.append(Nights(tenant, user, before.nights.get(name, 0), after.nights.get(name, 0)))
    changed = [line for line in lines if line.before != line.after]
    return sorted(changed, key=lambda line: (line.before - line.after, line.tenant, line.user))[:AFFECTED_MAX]


def _cost(before: WorldTally, after: WorldTally, days: float) -> Cost:
    people = len(before.people.keys() | after.people.keys())
    told = Change(sum(before.people.values()), sum(after.people.values()))
    share = max(people, 1) * max(days, 1.0)
    return Cost(
        Change(before.runs, after.runs),
        told,
        Change(sum(before.hours[hour] for hour in NIGHT), sum(after.hours[hour] for hour in NIGHT)),
        people,
        days,
        Rate(round(told.before / share, 4), round(told.after / share, 4)),
    )


def _side(answer: WorldAnswer, kinds: Kinds) -> Side:
    until = answer.verdict.until if answer.verdict else None
    return Side(answer.outcome, answer.reasons, _instant_text(until), trace_of(kinds, answer.verdict))
