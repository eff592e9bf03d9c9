"""The machine's clock, held against the time that has passed: a step ahead is not believed at once.

Two clocks are read: the wall's, which people and NTP set, and one that only counts (on Linux it counts while the
machine sleeps as well, so waking up is no step). As long as they agree within `step_max_s`, the wall is right. When the
wall is suddenly further ahead, time goes on by the other one, and after `hold_s` the wall is believed: by then somebody
has corrected it, or it is right. A step back is believed at once. Every step is logged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from betimes.core.instants import SECOND, Instant, render, seconds

_log = logging.getLogger("betimes.clock")
STEP_MAX_S = 60.0
HOLD_S = 300.0


def wall_clock() -> Instant:
    return time.time_ns() // 1_000


def elapsed_clock() -> int:
    """Return microseconds that have passed since some moment, sleep included where the system tells."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() // 1_000 if boot is None else time.clock_gettime_ns(boot) // 1_000


class SteadyClock:
    """Called for the instant; believes a step ahead only after a while."""

    def __init__(
        self,
        wall: Callable[[], Instant] = wall_clock,
        elapsed: Callable[[], int] = elapsed_clock,
        *,
        step_max_s: float = STEP_MAX_S,
        hold_s: float = HOLD_S,
    ) -> None:
        self._wall = wall
        self._elapsed = elapsed
        self._base = (wall(), elapsed())
        """Where both stood when the wall was last believed; one value, because two threads look at it."""
        self._held_since: int | None = None
        self.held = 0
        """How far the wall clock is ahead of the returned time, in microseconds."""
        self.steps = 0
        self.set_bounds(step_max_s, hold_s)

    def set_bounds(self, step_max_s: float, hold_s: float) -> None:
        self._step_max, self._hold = seconds(step_max_s), seconds(hold_s)

    def __call__(self) -> Instant:
        wall, elapsed = self._wall(), self._elapsed()
        base_at, base_elapsed = self._base
        expected = base_at + (elapsed - base_elapsed)
        step = wall - expected
        # The base moves along with every look, so that the small corrections of NTP never add up to a step.
        if abs(step) <= self._step_max:
            if self._held_since is not None:
                _log.warning("the clock is back at %s; the step ahead was ignored", render(wall))
            return self._believe(wall, elapsed)
        if step < 0:
            self._note_step("back", -step, wall)
            return self._believe(wall, elapsed)
        if self._held_since is None:
            self._held_since = elapsed
            self._note_step("ahead", step, wall)
        if elapsed - self._held_since >= self._hold:
            _log.warning("the clock stays at %s and is trusted now", render(wall))
            return self._believe(wall, elapsed)
        self.held = step
        return expected

    def _believe(self, wall: Instant, elapsed: int) -> Instant:
        self._base = (wall, elapsed)
        self._held_since, self.held = None, 0
        return wall

    def _note_step(self, way: str, by: int, wall: Instant) -> None:
        self.steps += 1
        _log.warning("the clock was stepped %s by %.0f s, to %s", way, by / SECOND, render(wall))
