"""Counters of commits, reports and requests: plain numbers, cheap enough to be kept always and read when scraped.

`CommitCounters.count_commit` is given to the engine as its observer, and `count_reports` wraps its reporter. Verdicts
are counted by what they say, lost claims by what the domains declare (`Domain.lost_claims`); nothing is guessed from
the text of a segment. No label names a tenant, a person or anything else by its id.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate

from betimes.catalogue import DOMAINS, spell_answer
from betimes.engine.reports import Report, Reporter, Written

BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Upper bounds, in segments."""
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds; what took longer than the last is counted behind them."""
LOST_CLAIMS = {kind: is_lost for domain in DOMAINS for kind, is_lost in domain.lost_claims.items()}
"""By kind of stream: the predicate that says whether an event lost a claim."""


class CommitCounters:
    """Counts since the process started."""

    def __init__(self) -> None:
        self.batches = [0] * (len(BATCH_BOUNDS) + 1)
        self.segments = 0
        self.claims_expired: Counter[str] = Counter(dict.fromkeys(LOST_CLAIMS, 0))
        self.reports: Counter[str] = Counter()
        self._verdicts: Counter[tuple[str, str, str]] = Counter()

    def count_commit(self, written: Sequence[Written]) -> None:
        """Count the segments of a commit, their verdicts and the claims they lost."""
        if not written:
            return
        self.batches[bisect_left(BATCH_BOUNDS, len(written))] += 1
        self.segments += len(written)
        for segment, events, verdict in written:
            kind = segment.stream.kind
            if verdict is not None:
                self._verdicts[kind, verdict.answer, verdict.reasons[0] if verdict.reasons else ""] += 1
            elif kind in LOST_CLAIMS:
                self.claims_expired[kind] += any(map(LOST_CLAIMS[kind], events))

    def count_reports(self, report: Reporter) -> Reporter:
        """Return the reporter with its reports counted."""

        def count_and_report(said: Report) -> None:
            self.reports[said.what] += 1
            report(said)

        return count_and_report

    def verdicts(self) -> Counter[tuple[str, str, str]]:
        """Return the count of each kind, answer and first reason, the answer as its domain spells it."""
        counts: Counter[tuple[str, str, str]] = Counter()
        for (kind, answer, reason), count in self._verdicts.items():
            counts[kind, spell_answer(kind, answer), reason] += count
        return counts


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
        """Requests refused by a tenant's rate limit, by limit."""

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
