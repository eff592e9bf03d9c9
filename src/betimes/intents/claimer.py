"""Claims of due intents by a worker of this process: looked for ahead, claimed together, held until they may end.

A look at what is due finds more than is claimed at once. The rest is claimed next, without another look: each claim is
decided by the intent as it is then, so one that changed or was taken meanwhile is merely not granted.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from betimes.core.errors import BetimesError, Refused, StoreError
from betimes.core.instants import SECOND
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.reports import Report, Reporter
from betimes.intents.due import DueIntent, DueIntents
from betimes.intents.fold import fold
from betimes.intents.model import Claimed, ClaimIntent, IntentClaimed, IntentState

CLAIMS_MAX = 200


class ClaimOver(Exception):
    """The claim may have ended; nothing is to be done or reported."""


class HeldClaim:
    """An intent this worker has claimed, and the loop's time before which the claim cannot end."""

    def __init__(self, claimed: Recorded, intent: IntentState, asked_s: float) -> None:
        claim: Claimed = claimed.reply
        self.stream = claimed.stream
        self.version = claimed.version
        self.segment_id = claimed.segment_id
        self.intent = intent
        self.token = claim.claim_token
        self.claimed_at = claim.claimed_at
        self.lease_s = (claim.expires_at - claim.claimed_at) // SECOND
        self.ends_s = asked_s + self.lease_s

    def renew(self, asked_s: float) -> None:
        self.ends_s = asked_s + self.lease_s

    def demand_alive(self) -> None:
        """Raise `ClaimOver` if the claim may have ended. A process that slept must not trust what it knew before."""
        if asyncio.get_running_loop().time() >= self.ends_s:
            raise ClaimOver


class Claimer:
    """Claims due intents for one worker, the longest due first."""

    def __init__(self, engine: Engine, due: DueIntents, command: ClaimIntent, report: Reporter) -> None:
        self._engine = engine
        self._due = due
        self._command = command
        self._report = report
        self._is_crowded = False
        """Whether somebody else took some of what was found last."""
        self._interrupted: list[HeldClaim] = []

    def take_interrupted(self) -> list[HeldClaim]:
        """Return once what was granted to whoever was cancelled before the answer."""
        interrupted, self._interrupted = self._interrupted, []
        return interrupted

    async def claim(self, limit: int) -> list[HeldClaim]:
        """Claim up to `limit`; raise what the store said, if it said so to all of them."""
        held = await self._claim_found(limit)
        # What was found ahead may all be taken by now: then what is due is looked at once more.
        return held or (await self._claim_found(limit) if self._is_crowded else [])

    async def _claim_found(self, limit: int) -> list[HeldClaim]:
        found = await self._due.find(min(limit, CLAIMS_MAX), crowded=self._is_crowded)
        # Taken before asking, so that no claim ends sooner than is thought here.
        asked_s = asyncio.get_running_loop().time()
        joint = self._engine.queue_many([self._submission(intent.stream) for intent in found])
        try:
            return await self._granted(found, await joint.wait(), asked_s)
        except asyncio.CancelledError:
            # Where nothing was granted nothing is to be given back, and whoever is cancelled must learn of that alone.
            with suppress(BetimesError):
                self._interrupted += await self._granted(found, await joint.wait(), asked_s)
            raise

    async def _granted(
        self, found: list[DueIntent], answers: list[Recorded | BetimesError], asked_s: float
    ) -> list[HeldClaim]:
        self._report_failed(found, answers)
        granted = [
            (intent, answer)
            for intent, answer in zip(found, answers, strict=True)
            if isinstance(answer, Recorded) and isinstance(answer.reply, Claimed)
        ]
        self._is_crowded = len(granted) < len(found)
        return [
            HeldClaim(answer, state, asked_s)
            for intent, answer in granted
            if (state := await self._claimed_state(intent, answer)) is not None
        ]

    def _submission(self, stream: StreamId) -> Submission:
        return Submission(stream=stream, command=self._command, actor=self._command.worker)

    def _report_failed(self, found: list[DueIntent], answers: list[Recorded | BetimesError]) -> None:
        """Report claims that failed: those that were granted beside them are worked on all the same."""
        if answers and all(isinstance(answer, StoreError) for answer in answers):
            raise answers[0]  # type: ignore[misc]
        for intent, answer in zip(found, answers, strict=True):
            if isinstance(answer, BetimesError) and not isinstance(answer, Refused):
                self._report(Report("intent_not_claimed", str(intent.stream), answer))

    async def _claimed_state(self, found: DueIntent, recorded: Recorded) -> IntentState | None:
        """Return the intent as the claim left it; `None` if it is not claimed any more."""
        claim: Claimed = recorded.reply
        if recorded.version == found.version + 1:  # the claim is all that has happened since it was found
            event = IntentClaimed(claim.claim_token, self._command.worker, claim.claimed_at, claim.expires_at)
            return fold(found.state, event)
        row = (await self._engine.store.load([found.stream])).get(found.stream)
        state: IntentState | None = row and self._engine.kinds.of(found.stream).state(
            found.stream, row.schema, row.state
        )
        is_held = state is not None and state.claim is not None and state.claim.token == claim.claim_token
        return state if is_held else None
