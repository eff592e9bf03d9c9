"""A backtest's report on a terminal: the control first, then what each policy would have changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from rich.table import Table
from rich.text import Text

from betimes.backtest import summary
from betimes.backtest.report import BacktestReport, CandidateReport, Change, ControlReport, Flip, Side
from betimes.cli.output import put, text
from betimes.domain.service import TraceStep

BLOCKS = " ▁▂▃▄▅▆▇█"
AFFECTED = 10
DIFFERENCES = 3
_NONE = Change(0, 0)


def show_report(report: BacktestReport, *, samples_max: int) -> None:
    """Print it, with so many changed answers of each kind."""
    _control(report.control)
    put(text(summary.window_sentence(report), "dim"))
    if len(report.candidates) > 1:
        put("")
        put(_comparison(report.candidates))
    for candidate in report.candidates:
        _candidate(candidate, samples_max)


def _control(control: ControlReport) -> None:
    put(text(summary.control_sentence(control), "bold green" if control.reproduced else "bold yellow"))
    for difference in control.differences[:DIFFERENCES]:
        put(text(f"  {difference['tenant']} {difference['segment']}"))
        put(text(f"    recorded:  {difference['recorded'] or 'no verdict'}"))
        put(text(f"    rehearsed: {difference['rehearsed'] or 'no verdict'}"))
    if len(control.differences) > DIFFERENCES:
        put(text("  There are more; --json has them."))


def _comparison(candidates: Sequence[CandidateReport]) -> Table:
    rows = (
        (
            summary.candidate_name(one),
            f"{one.flip_count:,}",
            *(
                f"{counted.after:,} ({summary.change(counted.before, counted.after)})"
                for counted in (one.cost.runs_allowed, one.cost.told, one.cost.told_at_night)
            ),
        )
        for one in candidates
    )
    return _table(("policy", "answers changed", "runs allowed", "told", "told at night"), rows)


def _candidate(candidate: CandidateReport, samples_max: int) -> None:
    whose = f" (overrides of {candidate.tenant})" if candidate.tenant else ""
    put("")
    put(text(f"{summary.candidate_name(candidate)}{whose}", "bold"))
    put(text(summary.flips_sentence(candidate)))
    for table in _tables(candidate):
        put("")
        put(table)
    if told := summary.notes(candidate):
        put("")
    for note in told:
        put(text(f"  · {note}", "dim"))
    for flip in _few(candidate.samples, samples_max):
        key = f" {flip.key}" if flip.key else ""
        what = f" {flip.kind} {flip.id} of {flip.tenant}"
        put("")
        answers = text(f"{flip.before.outcome}→{flip.after.outcome}", "bold")
        put(Text.assemble(answers, text(what), text(f" {flip.at}{key}", "dim")))
        put(_side_by_side(flip))


def _tables(candidate: CandidateReport) -> Iterator[Table]:
    if candidate.flips:
        flips = ((f"{line.before}→{line.after}", f"{line.count:,}", line.domain) for line in candidate.flips)
        yield _table(("answers that change", "", "domain"), flips)
    changed = [line for line in candidate.outcomes if line.before != line.after]
    if changed:
        outcomes = ((one.domain, one.outcome, one.reason, *_change_cells(one.before, one.after)) for one in changed)
        yield _table(("domain", "outcome", "reason", "before", "after", "change"), outcomes, left=3)
    if candidate.cost.runs_allowed != _NONE or candidate.cost.told != _NONE:
        yield _cost(candidate)
    if any((*candidate.hours_before, *candidate.hours_after)):
        yield _hours(candidate)
    if candidate.nights:
        worst = candidate.nights[:AFFECTED]
        nights = ((line.user, line.tenant, *_change_cells(line.before, line.after)) for line in worst)
        yield _table(("told at night", "tenant", "before", "after", "change"), nights, left=2)
    if candidate.affected:
        most = ((line.id, line.kind, line.tenant, f"{line.flips:,}") for line in candidate.affected[:AFFECTED])
        yield _table(("most affected", "kind", "tenant", "answers changed"), most, left=3)


def _change_cells(before: float, after: float) -> tuple[str, str, str]:
    return summary.number_text(before), summary.number_text(after), summary.change(before, after)


def _cost(candidate: CandidateReport) -> Table:
    cost = candidate.cost
    rows = (
        ("runs allowed", cost.runs_allowed.before, cost.runs_allowed.after),
        ("told", cost.told.before, cost.told.after),
        ("told between midnight and six", cost.told_at_night.before, cost.told_at_night.after),
        ("told per person and day", cost.told_per_person_day.before, cost.told_per_person_day.after),
    )
    return _table(
        ("cost", "before", "after", "change"),
        ((name, *_change_cells(before, after)) for name, before, after in rows if before or after),
    )


def _hours(candidate: CandidateReport) -> Table:
    """Return the hours of people's own days: how much they are told in each, and what changes."""
    before, after = candidate.hours_before, candidate.hours_after
    most = max(*before, *after)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("told at", style="bold")
    for hour in summary.HOURS:
        table.add_column(hour, justify="center")
    table.add_row("before", *(_block(count, most) for count in before))
    table.add_row("after", *(_block(count, most) for count in after))
    if before != after:
        pairs = zip(before, after, strict=True)
        table.add_row("change", *("" if one == other else _signed_change(one, other) for one, other in pairs))
    return table


def _block(count: int, most: int) -> str:
    return BLOCKS[-(-count * (len(BLOCKS) - 1) // most)] * 2


def _signed_change(before: int, after: int) -> Text:
    return text(summary.change(before, after), "yellow" if after > before else "green")


def _few(samples: Iterable[Flip], each: int) -> Iterator[Flip]:
    """Yield the first of each kind."""
    shown: Counter[tuple[str, str, str]] = Counter()
    for flip in samples:
        kind = (flip.kind, flip.before.outcome, flip.after.outcome)
        shown[kind] += 1
        if shown[kind] <= each:
            yield flip


def _side_by_side(flip: Flip) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "rule", "before", "after"):
        table.add_column(name, overflow="fold")
    for pair in summary.pairs(flip):
        table.add_row(*_rule(pair), style="yellow" if pair.parts else "")
    table.add_row("", "the answer", _end(flip.before), _end(flip.after), style="bold")
    return table


def _rule(pair: summary.Pair) -> tuple[str, Text, Text, Text]:
    return "→" if pair.parts else "", text(pair.rule), _trace_text(pair.before), _trace_text(pair.after)


def _trace_text(step: TraceStep | None) -> Text:
    held = f" → {step.reason or 'held'}" if step and step.matched else ""
    shadow = " (shadow)" if step and step.mode == "shadow" else ""
    return text(f"{summary.describe_step(step)}{held}{shadow}", "" if step else "dim")


def _end(side: Side) -> Text:
    return text(f"{side.outcome} {summary.reasons(side.reasons)}" + (f" until {side.until}" if side.until else ""))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> Table:
    """Return a table in which columns after the first `left` are numbers."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place < left or head == "domain" else "right", overflow="fold")
    for row in islice(rows, 200):
        table.add_row(*map(text, row))
    return table
