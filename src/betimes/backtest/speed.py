"""The speed of backtests in this process: a running mean of the last ones, for estimates.

It begins with what was measured when this was written. Every backtest of everybody that this process makes counts;
one of a sample mostly reads, and a short one mostly starts, so those say little.
"""

from __future__ import annotations

SEGMENTS_READ_PER_S = 20_000
DECISIONS_PER_S = 2_200
"""In one process, over all worlds, until one was measured here."""
DECISIONS_MIN = 200
"""A backtest of fewer is not counted."""
NEWEST_SHARE = 0.3
"""The part of the newest backtest in the mean."""


class BacktestSpeed:
    """Decisions in a second of one process."""

    def __init__(self) -> None:
        self.decisions_per_s = float(DECISIONS_PER_S)
        self.is_measured = False

    def note(self, segments: int, decisions: int, took_s: float) -> None:
        """Count a backtest: the segments it read, the decisions it made in all worlds, the seconds of one process."""
        if decisions < DECISIONS_MIN or took_s <= 0:
            return
        # Reading took a part of it; however slow the disk, at least a tenth was deciding.
        deciding_s = max(took_s - segments / SEGMENTS_READ_PER_S, took_s / 10)
        newest = decisions / deciding_s
        before = self.decisions_per_s if self.is_measured else newest
        self.decisions_per_s = before + NEWEST_SHARE * (newest - before)
        self.is_measured = True

    def estimate_s(self, segments: int, decisions: int) -> float:
        """Return about how many seconds of one process a backtest takes."""
        return segments / SEGMENTS_READ_PER_S + decisions / self.decisions_per_s


SPEED = BacktestSpeed()
"""Of this process."""
