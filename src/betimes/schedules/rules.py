"""The rules by which a wake judges the occurrences it has found, in order, with their sentences."""

from __future__ import annotations

import msgspec

from betimes.core.verdicts import Finding, Hit, Rule, RuleTable
from betimes.schedules.catchup import CatchupPlan, Timetable


class TickCase(msgspec.Struct, frozen=True, gc=False):
    """The occurrences a wake has found, with what the rules need to judge them."""

    plan: CatchupPlan
    timetable: Timetable
    overlap: str
    unfinished: int


def _window(case: TickCase) -> Finding:
    missed = _count(case.plan, "MISSED_OUTSIDE_WINDOW")
    return Finding(
        (missed, case.timetable.catchup_window_minutes),
        None if case.plan.fire or not missed else Hit("NEVER", "MISSED_OUTSIDE_WINDOW"),
    )


def _limit(case: TickCase) -> Finding:
    return Finding((len(case.plan.fire), _count(case.plan, "OVER_CATCHUP_LIMIT"), case.timetable.max_catchup_ticks))


def _overlap(case: TickCase) -> Finding:
    skips = case.overlap == "skip" and case.unfinished > 0
    return Finding((case.overlap, case.unfinished), Hit("NEVER", "OVERLAP") if skips else None)


def _nothing(case: TickCase) -> Finding:
    return Finding((len(case.plan.fire),), None if case.plan.fire else Hit("NEVER", "NOTHING_DUE"))


def _count(plan: CatchupPlan, reason: str) -> str | int:
    if not plan.skipped:
        return 0
    counts = [skipped.count for skipped in plan.skipped if skipped.reason == reason]
    return counts[0] if counts and counts[0] is not None else "many" if counts else 0


RULES: RuleTable[TickCase] = RuleTable(
    "ticks",
    (
        Rule(
            "window",
            _window,
            ("missed", "minutes"),
            "{missed:tick was|ticks were} older than the catch-up window of {minutes:minute|minutes}",
        ),
        Rule(
            "limit",
            _limit,
            ("kept", "over", "limit"),
            "{kept:tick was|ticks were} within the catch-up limit of {limit}, {over:was|were} over it",
        ),
        Rule("nothing", _nothing, ("due",), "no tick was due", "{due:tick was|ticks were} due"),
        Rule(
            "overlap",
            _overlap,
            ("overlap", "unfinished"),
            "{unfinished:earlier run was|earlier runs were} still going; overlap is set to {overlap}",
        ),
    ),
    otherwise=Hit("NOW", "DUE"),
    places=("window", "limit", "nothing", "overlap"),
)
