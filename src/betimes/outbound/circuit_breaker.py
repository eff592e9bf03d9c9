"""A circuit breaker: a receiver that fails too often is left alone for a while, then tried once.

Closed, everybody passes. `failures_max` failures within `window_s` open it for `open_s`. After that one trial passes;
its success closes the breaker, its failure opens it again, and nobody else passes meanwhile. The outcome of a passage
counts only for the period it began in, so an answer that comes late neither closes nor opens anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

Condition: TypeAlias = Literal["closed", "open", "trying"]


class Passage(NamedTuple):
    """Permission to try, to be handed back with the outcome."""

    period: int


class Breaker:
    """Counts failures by a monotonic clock."""

    def __init__(
        self, clock: Callable[[], float], *, failures_max: int = 5, window_s: float = 10.0, open_s: float = 10.0
    ) -> None:
        self._clock = clock
        self._failures_max = failures_max
        self._window_s = window_s
        self._open_s = open_s
        # Of the last so many the oldest tells whether all fell within the window.
        self._failed_s: deque[float] = deque(maxlen=failures_max)
        self._condition: Condition = "closed"
        self._opened_s = 0.0
        self._period = 0

    @property
    def condition(self) -> Condition:
        return self._condition

    @property
    def lets_pass(self) -> bool:
        """Return whether a call may pass now."""
        if self._condition == "open":
            return self._clock() - self._opened_s >= self._open_s
        return self._condition == "closed"

    def enter(self) -> Passage | None:
        """Return permission to try now, or `None`."""
        if not self.lets_pass:
            return None
        if self._condition == "open":
            self._enter_period("trying")
        return Passage(self._period)

    def record_success(self, passage: Passage) -> None:
        if passage.period == self._period and self._condition == "trying":
            self._enter_period("closed")

    def record_failure(self, passage: Passage) -> None:
        # An attempt from before the breaker opened, or closed again, says nothing about how things are now.
        if passage.period != self._period:
            return
        now_s = self._clock()
        self._failed_s.append(now_s)
        recent = len(self._failed_s) == self._failures_max and now_s - self._failed_s[0] < self._window_s
        if recent or self._condition == "trying":
            self._opened_s = now_s
            self._enter_period("open")

    def withdraw(self, passage: Passage) -> None:
        """Take back a passage whose outcome is not known; the next one may try."""
        if passage.period == self._period and self._condition == "trying":
            # Since when it is open stays as it was, so the next may try at once.
            self._enter_period("open")

    def _enter_period(self, condition: Condition) -> None:
        self._condition = condition
        self._period += 1
        self._failed_s.clear()
