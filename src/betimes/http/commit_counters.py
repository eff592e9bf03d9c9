"""Counters of commits and reports: plain numbers, cheap enough to be kept always and read when metrics are scraped.

`CommitCounters.count_commit` is given to the engine as its observer, and `count_reports` wraps its reporter. Verdicts
are counted by what they say, lost claims by what the domains declare (`Domain.lost_claims`); nothing is guessed from
the text of a segment. The counters know no tenants and no ids.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from betimes.catalogue import DECIDERS, DOMAINS, spell_answer
from betimes.core.deciders import Event
from betimes.core.segments import Segment
from betimes.engine.codecs import Kind
from betimes.engine.reports import Report, Reporter

BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Upper bounds, in segments."""
LOST_CLAIMS = {kind: is_lost for domain in DOMAINS for kind, is_lost in domain.lost_claims.items()}
"""By kind of stream: the predicate that says whether an event lost a claim."""


class _Verdict(msgspec.Struct, frozen=True, gc=False):
    """The part of a verdict that is counted; the decoder skips its trace."""

    answer: str
    reasons: tuple[str, ...]


_verdicts = msgspec.json.Decoder(_Verdict)


class CommitCounters:
    """Counts since the process started."""

    def __init__(self) -> None:
        self.batches = [0] * (len(BATCH_BOUNDS) + 1)
        self.segments = 0
        self.claims_expired: Counter[str] = Counter(dict.fromkeys(LOST_CLAIMS, 0))
        self.reports: Counter[str] = Counter()
        self._verdicts: Counter[tuple[str, str, str]] = Counter()
        self._claims: dict[str, tuple[Kind, Callable[[Event], bool]]] = {
            decider.kind: (Kind(decider), LOST_CLAIMS[decider.kind])
            for decider in DECIDERS
            if decider.kind in LOST_CLAIMS
        }

    def count_commit(self, segments: Sequence[Segment]) -> None:
        """Count the segments of a commit, their verdicts and the claims they lost."""
        if not segments:
            return
        self.batches[bisect_left(BATCH_BOUNDS, len(segments))] += 1
        self.segments += len(segments)
        for segment in segments:
            kind = segment.stream.kind
            if segment.verdict is not None:
                verdict = _verdicts.decode(segment.verdict)
                self._verdicts[kind, verdict.answer, verdict.reasons[0] if verdict.reasons else ""] += 1
            elif kind in self._claims:
                codec, is_lost = self._claims[kind]
                self.claims_expired[kind] += any(map(is_lost, codec.events(segment)))

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
