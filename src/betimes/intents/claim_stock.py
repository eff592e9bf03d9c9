"""Claims that a worker holds ahead of its places: where work is quick, one commit claims what many checks will need.

A stock is as large as what was used up within `AHEAD_S` lately, so it grows only where places are free again that soon.
What nobody has begun within `KEPT_S` is given back, and so is all of it when its worker stops. A worker that dies
leaves its stock to run out like any other claim.

A claim in stock is no work in progress: one whose intent was put on hold, disabled or changed meanwhile is given back
instead of begun, at once where this process did it, and else once this process knows of it or the claim is too old.
"""

from __future__ import annotations

import asyncio
from collections import deque

from betimes.core.errors import Refused
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.reports import Report, Reporter
from betimes.intents.claimer import Claimer, HeldClaim
from betimes.intents.model import ReleaseClaim

AHEAD_MAX = 64
"""So many more than there are places are claimed at most."""
AHEAD_S = 0.25
"""A stock that is used up within this time is twice as large the next time, any other half as large."""
KEPT_S = 1.0
"""A stock that is older is given back: work has become slow, and somebody else may have a place."""


class ClaimStock:
    """The claims of one worker that no place works on yet, the longest due first."""

    def __init__(self, engine: Engine, claimer: Claimer, worker: str, report: Reporter) -> None:
        self._engine = engine
        self._claimer = claimer
        self._worker = worker
        self._report = report
        self._claims: deque[HeldClaim] = deque()
        self._lapsed: list[HeldClaim] = []
        """Claims that must not be begun any more, to be given back."""
        self._claimed_s = float("-inf")
        self._ahead = 0

    async def take(self, limit: int) -> list[HeldClaim]:
        """Return up to `limit` claims, those in stock first; raise what the store said if more could not be claimed."""
        if len(self._claims) < limit:
            await self._refill(limit)
        taken: list[HeldClaim] = []
        while self._claims and len(taken) < limit:
            claim = self._claims.popleft()
            (taken if self._may_begin(claim) else self._lapsed).append(claim)
        return taken

    def _may_begin(self, claim: HeldClaim) -> bool:
        """Return whether the intent is as it was claimed, as far as this process knows."""
        version = self._engine.last_seen_version(claim.stream)
        is_moved = version is not None and version > claim.version
        return not is_moved and not self._engine.is_held(claim.stream.tenant, claim.stream.kind)

    async def _refill(self, limit: int) -> None:
        was_quick = asyncio.get_running_loop().time() - self._claimed_s < AHEAD_S
        self._ahead = min(max(2 * self._ahead, limit), AHEAD_MAX) if was_quick else self._ahead // 2
        self._claims += await self._claimer.claim(limit - len(self._claims) + self._ahead)
        self._claimed_s = asyncio.get_running_loop().time()

    async def give_back_lapsed(self) -> None:
        """Give back what must not be begun any more, and what nobody has begun in time."""
        if self._claims and asyncio.get_running_loop().time() - self._claimed_s >= KEPT_S:
            self._lapse()
        if self._lapsed:
            await self._release()

    async def give_back(self) -> None:
        """Give back all that nobody has begun, and what was granted to whoever was cancelled meanwhile."""
        self._lapse()
        self._lapsed += self._claimer.take_interrupted()
        await self._release()

    def _lapse(self) -> None:
        self._lapsed += self._claims
        self._claims.clear()

    async def _release(self) -> None:
        lapsed, self._lapsed = self._lapsed, []
        answers = await self._engine.submit_many(
            [Submission(stream=claim.stream, command=ReleaseClaim(claim.token), actor=self._worker) for claim in lapsed]
        )
        for claim, answer in zip(lapsed, answers, strict=True):
            if isinstance(answer, Exception) and not isinstance(answer, Refused):
                self._report(Report("claim_not_released", str(claim.stream), answer))
