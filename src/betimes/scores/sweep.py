"""The sweep: take what every score that is due owes, in batches, together with any number of other sweepers.

A sweep fixes its instant when it starts and takes the scores that were due by then, each up to that instant; after a
decay a score is due again only later, so a sweep comes to its end. Each batch is one commit: a sweeper that is killed
leaves whole batches behind and nothing half done, and whoever sweeps next goes on where it stopped. Rows that another
sweeper holds are left to it.

A score that cannot be decided (its stage is gone from the policy, its row is damaged) is counted, reported and left as
it is. Since it stays due it would be picked again and again; so once a score has failed the sweep goes on by the list
of what is due, which leads past it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from betimes.core.deciders import Decision, View
from betimes.core.errors import BetimesError, Overloaded, StoreError
from betimes.core.instants import Instant
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.domain.json_view import JsonView
from betimes.domain.requests import check_request
from betimes.domain.service import Service
from betimes.engine.jobs import Submission
from betimes.engine.store import PAGE_MAX, StreamQuery, StreamRow
from betimes.engine.transactions import Position
from betimes.scores.decide import decide
from betimes.scores.model import KIND, SweepScore

EVERYBODY = "*"
"""The tenant of a caller who sweeps for all."""
_log = logging.getLogger("betimes.scores")


class SweepRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Scores to take at most; those that fail are not taken, so that they never stand before the others."""
    max_s: Annotated[float, msgspec.Meta(ge=1, le=25)] = 25.0
    """Seconds after which to stop early."""
    dry_run: bool = False


class SweepResult(JsonView, frozen=True):
    """What a sweep did; `complete` is false when it stopped early, and whoever called should call again."""

    processed: int = 0
    decayed: int = 0
    capped: int = 0
    """Of those decayed, how many owed more than the cap per cycle; the rest was forgiven."""
    game_overs: int = 0
    skipped: int = 0
    failed: int = 0
    complete: bool = True


Progress = Callable[[SweepResult], None]


class _Count:
    """What a sweep has done so far."""

    def __init__(self) -> None:
        self.decayed = self.capped = self.game_overs = self.skipped = 0
        self.failed: set[StreamId] = set()

    @property
    def taken(self) -> int:
        return self.decayed + self.skipped

    @property
    def processed(self) -> int:
        return self.taken + len(self.failed)

    def add(self, recorded: Recorded) -> None:
        self.count(recorded.reply)

    def count(self, reply: object) -> None:
        if reply == "skipped":
            self.skipped += 1
            return
        self.decayed += 1
        self.game_overs += reply == "game_over"
        self.capped += reply == "capped"

    def result(self, complete: bool = False) -> SweepResult:
        return SweepResult(
            self.processed, self.decayed, self.capped, self.game_overs, self.skipped, len(self.failed), complete
        )

    def report(self) -> None:
        if self.capped:
            _log.warning(
                "the decay of %d scores reached the cap per cycle; what they owed beyond that is forgiven", self.capped
            )


class Sweeps(Service):
    """Sweeping for one caller: for its tenant, or for all when that is `*`."""

    async def sweep(
        self,
        request: SweepRequest | Mapping[str, Any] | None = None,
        *,
        batch: int | None = None,
        progress: Progress | None = None,
        unbounded: bool = False,
        until_at: Instant | None = None,
    ) -> SweepResult:
        """Decay what is due, now or by an instant that has passed (`until_at`).

        `progress` is told after every batch; `unbounded` ignores the time limit.
        """
        request = check_request(request or {}, SweepRequest)
        count = _Count()
        try:
            return await self._sweep(request, count, batch, progress, unbounded, until_at)
        finally:
            if not request.dry_run:
                count.report()

    async def _sweep(
        self,
        request: SweepRequest,
        count: _Count,
        batch: int | None,
        progress: Progress | None,
        unbounded: bool,
        until_at: Instant | None,
    ) -> SweepResult:
        size = min(batch or self.engine.settings.batch_max, self.engine.settings.batch_max)
        loop = asyncio.get_running_loop()
        ends_s = None if unbounded else loop.time() + request.max_s
        now = await self.engine.store.now()
        until_at = now if until_at is None else min(until_at, now)
        tell, position = progress or (lambda result: None), Position()
        while ends_s is None or loop.time() < ends_s:
            room = size if request.limit is None else min(size, request.limit - count.taken)
            if room <= 0:
                break
            if request.dry_run or count.failed:
                return await self._by_list(until_at, request, count, tell, ends_s)
            from_the_start = position.reached is None
            taken = await self._batch(until_at, room, count, position)
            tell(count.result())
            if not taken:
                position.reached = None
            if not taken and not count.failed and from_the_start:
                return count.result(complete=not await self._is_left(until_at, count))
        return count.result(complete=not await self._is_left(until_at, count))

    async def _batch(self, until_at: Instant, size: int, count: _Count, position: Position) -> int:
        """One commit; how many scores were taken. At the end of what is due it begins from the start again."""
        command = SweepScore(until_at)
        done = await self.engine.submit_due(
            (KIND,),
            lambda stream: command,
            size,
            tenant=self._tenant,
            until_at=until_at,
            actor=self.caller.actor,
            failed=lambda stream, error: count.failed.add(stream),
            position=position,
        )
        for recorded in done:
            count.add(recorded)
        return len(done)

    async def _is_left(self, until_at: Instant, count: _Count) -> bool:
        """Whether anything is still due that did not fail; another sweeper may hold it."""
        rows = await self.engine.store.streams(self._due(until_at, None, min(len(count.failed) + 1, PAGE_MAX)))
        return any(row.stream not in count.failed for row in rows)

    # -- by the list of what is due

    async def _by_list(
        self, until_at: Instant, request: SweepRequest, count: _Count, tell: Progress, ends_s: float | None
    ) -> SweepResult:
        """Go through what is due page by page, past what fails; or only say what would be done."""
        loop, last = asyncio.get_running_loop(), None
        while ends_s is None or loop.time() < ends_s:
            size = min(PAGE_MAX, self.engine.settings.batch_max)
            room = size if request.limit is None else min(size, request.limit - count.taken)
            rows = await self.engine.store.streams(self._due(until_at, last, max(room, 1)))
            if not rows:
                return count.result(complete=True)
            if room <= 0:
                return count.result(complete=False)
            last = rows[-1]
            todo = [row for row in rows if row.stream not in count.failed]
            await asyncio.gather(*(self._one(row, until_at, count, request.dry_run) for row in todo))
            tell(count.result())
        return count.result(complete=False)

    async def _one(self, row: StreamRow, until_at: Instant, count: _Count, dry_run: bool) -> None:
        command = SweepScore(until_at)
        try:
            if dry_run:
                state = self.engine.kinds.of(row.stream).state(row.stream, row.schema, row.state)
                policy = await self.engine.policy_of(row.stream.tenant)
                decision = decide(View(row.stream, state, row.version), command, policy, until_at)
                if isinstance(decision, Decision):
                    count.count(decision.reply)
            else:
                count.add(
                    await self.engine.submit(Submission(stream=row.stream, command=command, actor=self.caller.actor))
                )
        except (StoreError, Overloaded):
            raise
        except (BetimesError, ValueError) as error:
            count.failed.add(row.stream)
            _log.warning("the sweep failed on %s: %s", row.stream, error)

    def _due(self, until_at: Instant, last: StreamRow | None, limit: int) -> StreamQuery:
        return StreamQuery(
            tenant=self._tenant,
            kind=KIND,
            due_before=until_at,
            limit=limit,
            after=last and last.stream,
            after_due_at=last and last.due_at,
        )

    @property
    def _tenant(self) -> str | None:
        return None if self.caller.tenant == EVERYBODY else self.caller.tenant
