"""Goals: what a verdict may cost, each beside what was measured in the same run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Row = dict[str, Any]
Results = Mapping[str, Sequence[Row]]


class Goal(NamedTuple):
    """A column of a suite's rows that has a bound. `where` picks the row; of several the last is the largest."""

    name: str
    suite: str
    where: Row
    column: str
    bound: str
    unit: str = ""


def _both(name: str, suite: str, column: str, bounds: tuple[str, str], unit: str = "", **where: Any) -> Iterator[Goal]:
    for store, bound in zip(("sqlite", "postgres"), bounds, strict=True):
        yield Goal(f"{name}, {store}", suite, {"store": store, **where}, column, bound, unit)


def _claims() -> Iterator[Goal]:
    for peer, bounds in (("procrastinate", (3, 8, 12)), ("pgqueuer", (1.2, 1.2, 1.2))):
        for workers, bound in zip((1, 8, 64), bounds, strict=True):
            where = {"store": "postgres", "workers": workers}
            name = f"intents claimed and fired by {workers} ÷ {peer}"
            yield Goal(name, "intents", where, f"pool_over_{peer}", f"≥ {bound}")


def _http() -> Iterator[Goal]:
    for asked, bound in (("notifications", 2_000), ("triggers", 3_000)):
        where = {"store": "sqlite", "asked": asked, "items": 1}
        yield Goal(f"{asked} over HTTP, one a request", "http", where, "http_per_s", f"≥ {bound}", "/s")
        yield Goal(f"{asked} over HTTP, p99", "http", where, "http_p99_ms", "≤ 60", "ms")


NOTES, TRIGGERS = ({"store": "sqlite", "asked": asked} for asked in ("notifications", "triggers"))
TICKS = {"store": "sqlite", "schedules": 10_000}
MILLION = 1_000_000
GOALS: tuple[Goal, ...] = (
    Goal("a notification", "cost", NOTES, "cpu_us", "≤ 150", "µs CPU"),
    Goal("notifications in batches of 256", "cost", NOTES, "per_s", "≥ 6000", "/s"),
    Goal("notifications ÷ windows of `limits`", "notifications", {"store": "sqlite"}, "engine_over_windows", "≥ 0.5"),
    Goal("triggers in batches of 256", "cost", TRIGGERS, "per_s", "≥ 10000", "/s"),
    *_both("triggers ÷ debounces of DBOS", "verdicts", "over_dbos", ("≥ 60", "≥ 40")),
    *_claims(),
    Goal("a tick of 10,000 schedules due at once, p99", "ticks", TICKS, "tick_p99_ms", "≤ 1000", "ms"),
    Goal("their runs ÷ jobs of APScheduler 3", "ticks", TICKS, "over_apscheduler", "≥ 15"),
    *_http(),
    *_both("engine ÷ the same by hand", "loop", "engine_over_loop", ("≥ 0.9", "≥ 0.9")),
    Goal("backtest ÷ live", "backtest", {"store": "sqlite"}, "over_live", "≥ 5"),
    *_both("a decision among 1M streams ÷ among 10k", "streams", "over_10k", ("≤ 1.2", "≤ 1.2"), streams=MILLION),
    Goal("import of betimes", "startup", {"what": "import betimes"}, "value", "≤ 150", "ms CPU"),
    Goal("start of the command line", "startup", {"what": "betimes --help"}, "value", "≤ 250", "ms CPU"),
    Goal("memory of an idle server", "startup", {"what": "idle `betimes serve`"}, "value", "≤ 60", "MB"),
    Goal("memory of a cached stream", "startup", {"what": "a cached inbox"}, "value", "≤ 2", "kB"),
)


def rows_against_goals(results: Results) -> list[Row]:
    """Return each goal that this run measured, with what it came to."""
    rows = []
    for goal in GOALS:
        value = _value(goal, results.get(goal.suite, ()))
        if value is not None:
            measured = f"{value:,.{_decimals(value)}f} {goal.unit}".strip()
            wanted = f"{goal.bound} {goal.unit}".strip()
            rows.append({"what": goal.name, "measured": measured, "goal": wanted, "": _mark(goal, value)})
    return rows


def _value(goal: Goal, rows: Sequence[Row]) -> float | None:
    fitting = [row for row in rows if goal.where.items() <= row.items()]
    value = fitting[-1].get(goal.column) if fitting else None
    return float(value) if isinstance(value, int | float) else None


def _mark(goal: Goal, value: float) -> str:
    sign, bound = goal.bound.split()
    return "" if (value <= float(bound) if sign == "≤" else value >= float(bound)) else "missed"


def _decimals(value: float) -> int:
    return 0 if value >= 100 else 1 if value >= 10 else 2
