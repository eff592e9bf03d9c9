"""A report in words: what the terminal and the page both say, so that they say the same."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import TypeAlias

import msgspec

from betimes.backtest.domain_rules import NOUNS
from betimes.backtest.plan import value_text
from betimes.backtest.report import BacktestReport, CandidateReport, ControlReport, Flip
from betimes.domain.service import TraceStep

HOURS = tuple(f"{hour:02}" for hour in range(24))


Aligned: TypeAlias = tuple[str, TraceStep | None, TraceStep | None]


class Pair(msgspec.Struct, frozen=True):
    """One rule as both worlds saw it; `None` where a world did not come to it."""

    rule: str
    before: TraceStep | None
    after: TraceStep | None
    parts: bool = False
    """Whether this is where the two part."""


class CandidateSummary(msgspec.Struct, frozen=True):
    name: str
    """As in `candidates`; empty for one policy that was given without a name."""
    sentence: str
    notes: list[str]
    """Caveats about the numbers."""


class ReportSummary(msgspec.Struct, frozen=True):
    """A report in sentences."""

    control: str
    window: str
    candidates: list[CandidateSummary]


def summarize(report: BacktestReport) -> ReportSummary:
    """Return the sentences of a report."""
    candidates = [CandidateSummary(one.name, flips_sentence(one), notes(one)) for one in report.candidates]
    return ReportSummary(control_sentence(report.control), window_sentence(report), candidates)


def control_sentence(control: ControlReport) -> str:
    """Return how well the recorded policy was reproduced, on which everything else rests."""
    if not control.segments:
        return "Nothing is recorded in this window, so nothing can be said of any policy."
    to_the_byte = f"{control.identical:,} of {count_text(control.segments, 'segment')} to the byte"
    verdicts = count_text(control.verdicts, "verdict")
    if not control.verdicts:
        return f"There are no verdicts in this window to reproduce ({to_the_byte})."
    if control.reproduced:
        all_of_them = "the only verdict" if control.verdicts == 1 else f"all {verdicts}"
        return f"The recorded policy reproduces {all_of_them} ({to_the_byte})."
    return (
        f"The recorded policy reproduces {control.same:,} of {verdicts} ({to_the_byte}); "
        f"so some of the differences below may not be due to the policy."
    )


def window_sentence(report: BacktestReport) -> str:
    """Return the window and the number of segments that were rehearsed."""
    of = f" of the tenant {report.tenant}" if report.tenant else ""
    only = f"; only {report.domain} is reported" if report.domain else ""
    if report.sample:
        only += f"; a sample of {report.sample.subjects:,} of {count_text(report.sample.subjects_total, 'subject')}"
    since, until = report.since or "the beginning", report.until or "the end"
    counts = f"{count_text(report.commands, 'command')} from outside, {count_text(report.segments, 'segment')}"
    return f"{since} to {until}{of}: {counts}{only}."


def flips_sentence(candidate: CandidateReport) -> str:
    if not candidate.flip_count:
        return "It would have changed no answer."
    return f"It would have changed {count_text(candidate.flip_count, 'answer')}."


def count_text(count: int, of: str, many: str | None = None) -> str:
    """Return a count with its noun in the singular or the plural, which is that with an s unless given."""
    return f"{count:,} {of if count == 1 else many or of + 's'}"


def number_text(value: float) -> str:
    """Return a count as it is, and a rate with two decimals."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def candidate_name(candidate: CandidateReport) -> str:
    return candidate.name or "the policy"


def change(before: float, after: float) -> str:
    """Return the difference of two numbers as they are shown, with its sign, or = where there is none."""
    difference = round(round(after, 2) - round(before, 2), 2)
    return f"{'+' if difference > 0 else '−'}{number_text(abs(difference))}" if difference else "="


def notes(candidate: CandidateReport) -> list[str]:
    """Return what to know before relying on the numbers."""
    told = []
    for executor, count in candidate.fallbacks.items():
        if noun := NOUNS.get(executor):
            told.append(f"{count_text(count, noun)} no provider was asked for then; the policy's fallback was taken")
        else:
            told.append(f"{count_text(count, 'call')} of {executor} not made then; each was taken to end well")
    if candidate.gone:
        told.append(
            f"{count_text(candidate.gone, 'call')} made then that it would not have made; how they ended is left out"
        )
    for reason, count in candidate.refused.items():
        told.append(f"{count_text(count, 'command')} it would have had no use for: {reason}")
    return told


def pairs(flip: Flip) -> list[Pair]:
    """Pair both traces rule by rule, and mark where they part: the first rule that held in one world only."""
    rows = _align_traces(flip.before.trace, flip.after.trace)
    places = [place for place, (_, before, after) in enumerate(rows) if _match_of(before) != _match_of(after)]
    # The same rules held in both worlds: then they part where a rule saw other values.
    places = places or [place for place, (_, before, after) in enumerate(rows) if before != after]
    return [Pair(*row, parts=place == places[0]) if places else Pair(*row) for place, row in enumerate(rows)]


def parting_rule(flip: Flip) -> str | None:
    """Return the rule at which the two traces part, if they do."""
    return next((pair.rule for pair in pairs(flip) if pair.parts), None)


def _align_traces(before: list[TraceStep], after: list[TraceStep]) -> list[Aligned]:
    """Align two traces: rules of one table come in one order, so the longer one goes on where the shorter ended."""
    if all(one.rule == other.rule for one, other in zip(before, after, strict=False)):
        return [((one or other).rule, one, other) for one, other in zip_longest(before, after)]
    return [*((step.rule, step, None) for step in before), *((step.rule, None, step) for step in after)]


def _match_of(step: TraceStep | None) -> tuple[bool, str | None]:
    return (step.matched and step.mode == "enforce", step.reason) if step else (False, None)


def describe_step(step: TraceStep | None) -> str:
    """Return the values a rule saw, in a line."""
    if step is None:
        return "not looked at"
    values = ", ".join(f"{name} {value_text(value)}" for name, value in step.values.items() if value is not None)
    return values or "–"


def reasons(of: Iterable[str]) -> str:
    return ", ".join(of) or "–"
