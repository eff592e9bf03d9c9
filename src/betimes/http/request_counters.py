"""Counters of requests: plain numbers, kept always and read when metrics are scraped or request times are asked for.

No label names a tenant, a person or anything else by its id.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import accumulate

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds; what took longer than the last is counted behind them."""


class RouteCounter:
    """The requests of one method, route and status."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    @property
    def cumulative_counts(self) -> list[int]:
        """Return how many took at most each of `BOUNDS_S`, and in all."""
        return [*accumulate(self.counts)]


class RequestCounters:
    """Counts since the process started."""

    def __init__(self) -> None:
        self.answered: defaultdict[tuple[str, str, int], RouteCounter] = defaultdict(RouteCounter)
        """By method, route and status."""
        self.refused: Counter[str] = Counter()
        """Requests refused because their tenant asked for too much, by what of."""

    def count_refusal(self, what: str) -> None:
        self.refused[what] += 1

    def observe_request(self, method: str, route: str, status: int, took_s: float) -> None:
        counter = self.answered[method, route, status]
        counter.counts[bisect_left(BOUNDS_S, took_s)] += 1
        counter.total_s += took_s

    def request_times(self) -> dict[tuple[str, str], list[int]]:
        """Return how many requests of each method and route took at most each of `BOUNDS_S`, and in all."""
        found: dict[tuple[str, str], list[int]] = {}
        for (method, route, _), counter in self.answered.items():
            before = found.get((method, route), [0] * len(counter.counts))
            found[method, route] = [sum(pair) for pair in zip(before, counter.cumulative_counts, strict=True)]
        return found
