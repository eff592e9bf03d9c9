"""Plain counts of what a process commits and reports: cheap enough to be kept always, read when somebody asks.

A `Tally` is given to the engine as its observer and counts reports besides. It knows no tenants and no ids.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

import msgspec

from betimes.catalogue import spell_answer
from betimes.core.segments import Segment
from betimes.engine.reports import Report, Reporter
from betimes.intents.model import CLAIM_EXPIRED

BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Upper bounds, in segments."""
_LOST_CLAIMS = {"intent": CLAIM_EXPIRED, "run": "its lease ran out"}


class _Judged(msgspec.Struct, frozen=True):
    answer: str
    reasons: tuple[str, ...]


class Tally:
    """Counts since the process started."""

    def __init__(self) -> None:
        self.batches = [0] * (len(BATCH_BOUNDS) + 1)
        self.segments = 0
        self.claims_expired: Counter[str] = Counter()
        self.reports: Counter[str] = Counter()
        self._verdicts: Counter[tuple[str, str]] = Counter()

    def committed(self, segments: Sequence[Segment]) -> None:
        """Count a commit; verdicts by the beginning of their text, which is read when somebody asks."""
        if not segments:
            return
        self.batches[bisect_left(BATCH_BOUNDS, len(segments))] += 1
        self.segments += len(segments)
        for segment in segments:
            kind, verdict = segment.stream.kind, segment.verdict
            if verdict is not None:
                self._verdicts[kind, verdict[: verdict.index("]") + 1]] += 1
            elif kind in _LOST_CLAIMS and _LOST_CLAIMS[kind] in segment.events:
                self.claims_expired[kind] += 1

    def counting(self, report: Reporter) -> Reporter:
        """The reporter, with its reports counted."""

        def told(said: Report) -> None:
            self.reports[said.what] += 1
            report(said)

        return told

    def verdicts(self) -> Counter[tuple[str, str, str]]:
        """How many of each kind, outcome and first reason."""
        counted: Counter[tuple[str, str, str]] = Counter()
        for (kind, text), count in self._verdicts.items():
            verdict = msgspec.json.decode(text + "}", type=_Judged)
            counted[kind, spell_answer(kind, verdict.answer), verdict.reasons[0] if verdict.reasons else ""] += count
        return counted
