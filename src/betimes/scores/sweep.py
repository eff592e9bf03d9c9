"""The sweep: take the debt of every score that is due, in batches, together with any number of other sweepers.

A sweep fixes its instant when it starts and takes the scores that were due by then, each up to that instant; after a
decay a score is due again only later, so a sweep comes to its end. Each batch is one commit: a sweeper that is killed
leaves whole batches behind and nothing half done, and the next one goes on where it stopped. Rows that another sweeper
holds are left to it.

A score that cannot be decided (its stage is gone from the policy, its row is damaged) is counted, reported and left as
it is. Since it stays due it would be picked again and again; so once a score has failed, the sweep goes through the
list of due scores page by page, which leads past it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from betimes.core.deciders import Decision, EffectCall, View
from betimes.core.errors import BetimesError, Overloaded, StoreError
from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.domain.json_view import JsonView
from betimes.domain.service import Caller, Service, check_request
from betimes.engine.effects import Executor
from betimes.engine.engine import Engine
from betimes.engine.store import PAGE_MAX, StreamQuery, StreamRow
from betimes.engine.tenant_turns import IN_TURN_MAX
from betimes.engine.transactions import SweepPosition
from betimes.scores.decide import decide_score
from betimes.scores.model import KIND, SweepScore

EVERYBODY = "*"
"""The tenant of a caller who sweeps all tenants."""
_log = logging.getLogger("betimes.scores")


class SweepRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Scores to take at most; those that fail are not taken, so that they never stand before the others."""
    max_s: Annotated[float, msgspec.Meta(ge=1, le=25)] = 25.0
    """Seconds after which to stop early."""
    dry_run: bool = False


class SweepResult(JsonView, frozen=True):
    """The counts of a sweep; when `complete` is false it stopped early, and the caller should call again."""

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
    """The counts of a sweep so far."""

    def __init__(self) -> None:
        self.decayed = self.capped = self.game_overs = self.skipped = 0
        self.failed: set[StreamId] = set()

    @property
    def taken_count(self) -> int:
        return self.decayed + self.skipped

    @property
    def processed_count(self) -> int:
        return self.taken_count + len(self.failed)

    def count(self, reply: object) -> None:
        if reply == "skipped":
            self.skipped += 1
            return
        self.decayed += 1
        self.game_overs += reply == "game_over"
        self.capped += reply == "capped"

    def result(self, complete: bool = False) -> SweepResult:
        return SweepResult(
            self.processed_count, self.decayed, self.capped, self.game_overs, self.skipped, len(self.failed), complete
        )

    def report(self) -> None:
        if self.capped:
            _log.warning("the decay of %d scores reached the cap per cycle; the rest is not applied", self.capped)


class Sweeps(Service):
    """Sweeps for one caller: of its tenant, or of all tenants when that is `*`."""

    async def sweep(
        self,
        request: SweepRequest | Mapping[str, Any] | None = None,
        *,
        batch: int | None = None,
        progress: Progress | None = None,
        unbounded: bool = False,
        until_at: Instant | None = None,
    ) -> SweepResult:
        """Let the scores decay that are due, now or by an instant that has passed (`until_at`).

        `progress` is called after every batch; `unbounded` ignores the time limit.
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
        # Fixed at the start: a sweep that took what comes due while it runs would never end.
        until_at = now if until_at is None else min(until_at, now)
        tell, position, misses = progress or (lambda result: None), SweepPosition(), 0
        while ends_s is None or loop.time() < ends_s:
            room = size if request.limit is None else min(size, request.limit - count.taken_count)
            if room <= 0:
                break
            # A score that failed stays due, and batches of the oldest would find it again and again: pages go past it.
            if request.dry_run or count.failed:
                return await self._sweep_pages(until_at, request, count, tell, ends_s)
            from_the_start = position.reached is None
            taken = await self._sweep_batch(until_at, room, count, position)
            tell(count.result())
            if not taken:
                position.reached = None
            misses = 0 if taken else misses + 1
            if not taken and not count.failed and from_the_start:
                is_left = await self._is_left(until_at, count)
                # A pass in shares may go to tenants whose scores came due after the sweep's instant.
                if not is_left or misses > IN_TURN_MAX:
                    return count.result(complete=not is_left)
        return count.result(complete=not await self._is_left(until_at, count))

    async def _sweep_batch(self, until_at: Instant, size: int, count: _Count, position: SweepPosition) -> int:
        """Sweep one batch in one commit and return its size; after the last due score, begin from the start."""
        command = SweepScore(until_at)
        done = await self.engine.submit_due(
            (KIND,),
            lambda stream: command,
            size,
            tenant=self._tenant,
            until_at=until_at,
            actor=self.caller.actor,
            note=self.caller.note,
            failed=lambda stream, error: count.failed.add(stream),
            position=position,
        )
        for recorded in done:
            count.count(recorded.reply)
        return len(done)

    async def _is_left(self, until_at: Instant, count: _Count) -> bool:
        """Return whether a score is still due that did not fail and may decay; another sweeper may hold it."""
        if not count.failed:
            due_at = await self.engine.store.next_due("due", [KIND], tenant=self._tenant)
            return due_at is not None and due_at <= until_at
        rows = await self.engine.store.streams(self._due_query(until_at, None, min(len(count.failed) + 1, PAGE_MAX)))
        return any(self._may_decay(row, count) for row in rows)

    def _may_decay(self, row: StreamRow, count: _Count) -> bool:
        return row.stream not in count.failed and not self.engine.is_held(row.stream.tenant, KIND)

    # -- page by page

    async def _sweep_pages(
        self, until_at: Instant, request: SweepRequest, count: _Count, tell: Progress, ends_s: float | None
    ) -> SweepResult:
        """Go through the due scores page by page, past those that fail; with `dry_run`, only count."""
        loop, last = asyncio.get_running_loop(), None
        while ends_s is None or loop.time() < ends_s:
            size = min(PAGE_MAX, self.engine.settings.batch_max)
            room = size if request.limit is None else min(size, request.limit - count.taken_count)
            # Read even without room: whether one is left tells whether the sweep is complete.
            rows = await self.engine.store.streams(self._due_query(until_at, last, max(room, 1)))
            if not rows:
                return count.result(complete=True)
            if room <= 0:
                return count.result(complete=False)
            last = rows[-1]
            todo = [row for row in rows if self._may_decay(row, count)]
            await asyncio.gather(*(self._sweep_one(row, until_at, count, request.dry_run) for row in todo))
            tell(count.result())
        return count.result(complete=False)

    async def _sweep_one(self, row: StreamRow, until_at: Instant, count: _Count, dry_run: bool) -> None:
        command = SweepScore(until_at)
        try:
            if dry_run:
                state = self.engine.kinds.state_in(row.stream, row)
                policy = await self.engine.policy_of(row.stream.tenant)
                decision = decide_score(View(row.stream, state, row.version), command, policy, until_at)
                if isinstance(decision, Decision):
                    count.count(decision.reply)
            else:
                count.count((await self.engine.submit(self.submission(row.stream, command))).reply)
        # Neither is the score's fault, so it does not count as failed.
        except (StoreError, Overloaded):
            raise
        except (BetimesError, ValueError) as error:
            count.failed.add(row.stream)
            _log.warning("the sweep failed on %s: %s", row.stream, error)

    def _due_query(self, until_at: Instant, last: StreamRow | None, limit: int) -> StreamQuery:
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


def sweeper(engine: Callable[[], Engine]) -> Executor:
    """Return the executor `sweep`, for schedules, sensors and hooks with that target.

    It sweeps the tenant that asked, to the end; called again after a crash, it goes on.
    """

    async def sweep(call: EffectCall) -> dict[str, Any]:
        sweeps = Sweeps(engine(), Caller(call.id.tenant, actor=f"sweep:{call.id.handle}"))
        result: dict[str, Any] = msgspec.to_builtins(await sweeps.sweep(unbounded=True))
        return result

    return sweep
