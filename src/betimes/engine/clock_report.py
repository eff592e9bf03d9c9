"""The report of a store on its clock: whether it was stepped, and whether the database is ahead of it.

Instants of a stream never go back. A clock that was set ahead and back leaves streams behind that are stamped in the
future: until the clock has passed them, their time stands. So a store that goes by the machine's clock does not believe
a step ahead at once, and whoever watches is told.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from betimes.core.instants import SECOND, Instant, render


class ClockReport(NamedTuple):
    """The time in use, the latest instant in the database, and what the machine's clock did."""

    now: Instant
    high_water_at: Instant | None
    """The latest instant of any segment: until the clock has passed it, some streams' time stands."""
    held: int = 0
    """How far the machine's clock is ahead of the time in use, in microseconds; 0 when it is believed."""
    steps: int = 0
    """How often the clock was stepped, ahead or back, since the store was opened."""

    @property
    def ahead(self) -> int:
        """The lead of the database over the time in use, in microseconds."""
        return max(0, (self.high_water_at or 0) - self.now)


@runtime_checkable
class WatchesClock(Protocol):
    """A store that watches its own clock."""

    def watch_clock(self, step_max_s: float, hold_s: float) -> None:
        """Set how large a step is believed at once, and for how long a larger one is not."""

    async def clock_report(self) -> ClockReport: ...


def clock_problems(report: ClockReport, step_max_s: float) -> list[str]:
    """Say what is wrong with the clock, if anything is."""
    problems = []
    if report.held:
        problems.append(
            f"the clock was set ahead by {report.held / SECOND:,.0f} s and is not trusted yet; "
            f"time continues from {render(report.now)}"
        )
    if report.ahead > step_max_s * SECOND and report.high_water_at is not None:
        problems.append(
            f"the database has segments up to {render(report.high_water_at)}, {report.ahead / SECOND:,.0f} s ahead of "
            "the clock: it was ahead before, or is behind now. Streams stamped later than now stand still until then"
        )
    return problems
