"""Dry runs: commands decided as they would be, and never committed.

    engine ─► DryRunEngine ─► Transactions ─► the one turn
                 │ store
                 └─► TrialStore: reads through to the store, keeps what is committed to itself

A `DryRunEngine` is an engine of its own for one request. Its transactions are those of the engine, over a store that
reads what the real one holds and keeps every commit in memory, where later reads of the same request find it. So what a
service does with its answer (read the stream again, answer a repeated key, submit a second command) goes as it would.

**What is promised.** No byte of the store changes: of the store only reads are called, and none of them locks, so a
caller who may only read cannot keep anybody waiting. No key is used, no effect is carried out, nothing is observed.
Streams are read in one snapshot for each transaction. What another process commits meanwhile may make the write, when
it comes, another one; nothing can promise otherwise without committing.

**Another instant.** `at` replaces the store's time if it is later. The alarms of the command's stream ring on the way,
each at its own instant as the alarm loop would ring it, then the command is decided at `at`. Of other streams nothing
happens before. Past `ALARMS_MAX` the rest ring together at `at`, as if nobody had worked from there on.

**Another policy.** A draft is put in force by the command that would put it in force, in the dry run, first of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Unpack, cast

from msgspec.structs import asdict

from betimes.core.errors import BetimesError, Invalid, Unavailable
from betimes.core.instants import Instant, earliest
from betimes.core.policies import Body, Policy, merge
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import WAKE, Job, JointAnswer, Submission
from betimes.engine.policies import PoliciesInForce
from betimes.engine.store import (
    NO_ROW,
    PAGE_MAX,
    Changes,
    DueBounds,
    DueIndex,
    EffectQuery,
    EffectRow,
    EffectWrite,
    LedgerQuery,
    LockRequest,
    Row,
    SeenKey,
    Store,
    StreamRow,
    StreamWrite,
    Tx,
)
from betimes.engine.tenants.model import DEPLOYMENT, SetPolicy, tenant_stream
from betimes.engine.transactions import DueRequest, Result, Transactions

HELD_MAX = 20
"""How often a command may ask for more streams before it is given up."""
ALARMS_MAX = 150
"""Alarms of one stream that ring each at its own instant."""
ALARMS_TOGETHER_MAX = 1_000
"""The same of all streams of one dry run."""
READS = frozenset({"streams", "next_due", "due_tenants", "backlog", "waiting_sends", "check_writable"})
"""Other methods of the real store that only read; anything not listed might write."""


class TrialStore:
    """The real store, and over it what was committed to this one."""

    def __init__(self, store: Store, at: Instant | None) -> None:
        self._store = store
        self.at = at
        """The instant it is, if that is later than the store's."""
        self.rows: dict[StreamId, StreamWrite] = {}
        self.segments: list[Segment] = []
        self.effects_written: list[EffectWrite] = []
        self._keys: dict[KeyId, SeenKey] = {}
        self._policies: dict[str, str] = {}
        self._revived: set[EffectId] = set()
        self._discarded: set[EffectId] = set()

    def __getattr__(self, name: str) -> Any:
        if name not in READS:
            raise AttributeError(f"a dry run cannot {name} in a store")
        return getattr(self._store, name)

    async def now(self) -> Instant:
        now = await self._store.now()
        return now if self.at is None else max(now, self.at)

    # -- transactions

    @asynccontextmanager
    async def begin(self, ask: LockRequest) -> AsyncIterator[Tx]:
        tx = _TrialTransaction(self, await self.now())
        await tx.extend(ask)
        yield tx

    @asynccontextmanager
    async def begin_due(
        self, index: DueIndex, kinds: Sequence[str], limit: int, **bounds: Unpack[DueBounds]
    ) -> AsyncIterator[Tx]:
        """Pick what is due as the store would, release the locks at once, and continue without them."""
        async with self._store.begin_due(index, kinds, limit, **bounds) as held:
            picked = dict(held.rows)
        tx = _TrialTransaction(self, await self.now())
        # What this dry run has taken already is due no more.
        tx.rows.update({stream: row for stream, row in picked.items() if stream not in self.rows})
        yield tx

    async def find_rows(self, streams: Sequence[StreamId]) -> dict[StreamId, Row]:
        """Return the rows of streams, of those that are not there too."""
        found = await self.load(streams)
        return {stream: found.get(stream, NO_ROW) for stream in streams}

    def keep(self, changes: Changes) -> None:
        """Take what was committed."""
        self.rows.update({write.stream: write for write in changes.streams})
        self.segments += changes.segments
        self.effects_written += changes.effects
        self._policies.update(changes.policies)
        at_version = {(segment.stream, segment.version): segment for segment in changes.segments}
        for used in changes.keys:
            self._keys[used.key] = SeenKey(used.request, at_version[used.stream, used.version])

    # -- reads that see what was committed here

    async def load(self, streams: Sequence[StreamId]) -> dict[StreamId, Row]:
        there = await self._store.load([stream for stream in streams if stream not in self.rows])
        return there | {stream: self.rows[stream].row() for stream in streams if stream in self.rows}

    async def seen(self, key: KeyId) -> SeenKey | None:
        return self._keys.get(key) or await self._store.seen(key)

    async def policy(self, fingerprint: str) -> str | None:
        return self._policies.get(fingerprint) or await self._store.policy(fingerprint)

    async def history(self, stream: StreamId, after_version: int, limit: int) -> tuple[StreamRow | None, list[Segment]]:
        row, page = await self._store.history(stream, after_version, limit)
        own = [one for one in self.segments if one.stream == stream and one.version > after_version]
        # Versions that were committed here follow all that the store has.
        return self._row_as_tried(stream, row), [*page, *own][: min(limit, PAGE_MAX)]

    def _row_as_tried(self, stream: StreamId, row: StreamRow | None) -> StreamRow | None:
        write = self.rows.get(stream)
        if write is None:
            return row
        columns = asdict(write)
        del columns["expected"]
        return StreamRow(**columns, snooze_until=None, created_at=row.created_at if row else write.at)

    async def ledger(self, query: LedgerQuery) -> list[Segment]:
        page = await self._store.ledger(query)
        own = [segment for segment in self.segments if query.selects(segment)]
        both = [*reversed(own), *page] if query.backwards else [*page, *own]
        return both[: min(query.limit, PAGE_MAX)]

    async def effects(self, query: EffectQuery) -> list[EffectRow]:
        there = await self._store.effects(query)
        rows = [await self._as_tried(row) for row in there if row.id not in self._discarded]
        own = [
            effect_row(write)
            for write in self.effects_written
            if query.source == write.id.source and query.version in (None, write.id.version)
        ]
        return [*rows, *own][: min(query.limit, PAGE_MAX)]

    async def _as_tried(self, row: EffectRow) -> EffectRow:
        if row.id not in self._revived:
            return row
        return row._replace(status="pending", attempts=0, next_attempt_at=await self.now(), finished_at=None)

    # -- writes outside of a transaction

    async def revive_effect(self, effect: EffectId) -> bool:
        return await self._take_dead_letter(effect, self._revived)

    async def discard_effect(self, effect: EffectId) -> bool:
        return await self._take_dead_letter(effect, self._discarded)

    async def revive_effects(self, effects: Sequence[EffectId]) -> list[EffectId]:
        return [effect for effect in effects if await self.revive_effect(effect)]

    async def discard_effects(self, effects: Sequence[EffectId]) -> list[EffectId]:
        return [effect for effect in effects if await self.discard_effect(effect)]

    async def replace_history(self, checkpoint: Segment) -> int:
        """Return how many segments the store would replace: none if a key that is alive answers from one of them."""
        stream, version, gone = checkpoint.stream, 0, 0
        while True:
            _, page = await self._store.history(stream, version, PAGE_MAX)
            for segment in page:
                if segment.version > checkpoint.version:
                    return gone
                if segment.key and (seen := await self._store.seen(segment.key)) and seen.segment.stream == stream:
                    return 0
                version, gone = segment.version, gone + 1
            if len(page) < PAGE_MAX:
                return gone

    async def _take_dead_letter(self, effect: EffectId, taken: set[EffectId]) -> bool:
        rows = await self._store.effects(EffectQuery(source=effect.source, version=effect.version))
        is_dead = any(row.id == effect and row.status == "dead" for row in rows)
        if not is_dead or effect in self._revived | self._discarded:
            return False
        taken.add(effect)
        return True


class _TrialTransaction:
    """A transaction that holds no lock; its commit stays in the trial store."""

    def __init__(self, store: TrialStore, now: Instant) -> None:
        self.now = now
        self.rows: dict[StreamId, Row] = {}
        self.unchanged: set[StreamId] = set()
        self.seen: dict[KeyId, SeenKey] = {}
        self.sends: set[EffectId] = set()
        self._store = store

    async def extend(self, ask: LockRequest) -> None:
        wanted = [stream for stream in {**ask.locks, **ask.reads} if stream not in self.rows]
        self.rows.update(await self._store.find_rows(wanted))
        for key in ask.keys:
            if seen := await self._store.seen(key):
                self.seen[key] = seen

    async def commit(self, changes: Changes) -> None:
        self._store.keep(changes)

    async def turn_at(self, stream: StreamId, version: int) -> str | None:
        return None


class DryRunEngine(Engine):
    """An engine for one request, whose commits are kept by itself and then forgotten."""

    def __init__(self, engine: Engine, *, at: Instant | None = None, draft: tuple[str, Body] | None = None) -> None:
        """`draft` is a tenant and the overrides of its policy to decide by, laid over those in force."""
        self.trial = TrialStore(engine.store, at)
        self.store = cast("Store", self.trial)
        self.book, self.kinds, self.settings = engine.book, engine.kinds, engine.settings
        self._behind = engine
        self._policies = PoliciesInForce(engine.book)
        self._policies.holds.put(engine.holds.by_tenant)
        self._transactions = Transactions(self.store, engine.kinds, self._policies, engine.settings, "dry-run")
        self._draft = draft
        self._alarms_left = ALARMS_TOGETHER_MAX
        self._one_at_a_time = asyncio.Lock()
        """Without row locks, the items of a batch would not see each other."""

    @property
    def is_open(self) -> bool:
        return self._behind.is_open

    @property
    def executors(self) -> tuple[str, ...]:
        return self._behind.executors

    async def policy_of(self, tenant: str) -> Policy:
        async with self._one_at_a_time:
            await self._put_draft()
        return await super().policy_of(tenant)

    async def submit_many(self, submissions: Sequence[Submission]) -> list[Recorded | BetimesError]:
        """Decide commands one after the other; see `Engine.submit_many`."""
        joint = JointAnswer(len(submissions))
        for place, submission in enumerate(submissions):
            try:
                joint.fill(place, await self.submit(submission))
            except BetimesError as error:
                joint.fill(place, error)
        return await joint.wait()

    async def _take_in(self, submission: Submission) -> Recorded:
        """Decide a command; return what it would lead to, or raise the error its caller would get."""
        async with self._one_at_a_time:
            await self._put_draft()
            await self._ring_on_the_way(submission.stream)
            return await self._decide(submission)

    async def _decide(self, submission: Submission) -> Recorded:
        job = Job(submission)
        for _ in range(HELD_MAX):
            [result] = await self._transactions.attempt([job])
            if isinstance(result, Recorded):
                return result
            if isinstance(result, BetimesError):
                raise result
        raise Unavailable(f"{job.name} needed other streams at every attempt; try again")

    async def _ring_on_the_way(self, stream: StreamId) -> None:
        """Ring the alarms of a stream that are due before the instant asked for, each at its own."""
        at = self.trial.at
        if at is None:
            return
        try:
            for _ in range(min(ALARMS_MAX, self._alarms_left)):
                if not await self._ring_before(at, stream):
                    return
                self._alarms_left -= 1
                await asyncio.sleep(0)  # others have their turn too
        finally:
            self.trial.at = at

    async def _ring_before(self, at: Instant, stream: StreamId) -> bool:
        """Ring a stream's alarm at its instant, or now if it is late; return whether there was one before `at`."""
        row = (await self.store.load([stream])).get(stream, NO_ROW)
        self.trial.at = row.alarm_at
        hold = await self.hold_of(stream.tenant)
        if row.alarm_at is not None and hold and stream.kind in self.kinds.of_domains(hold.domains):
            self.trial.at = max(row.alarm_at, hold.until_at)
        if row.alarm_at is None or await self.store.now() >= at:
            return False  # what is due at that very instant is the turn's own to ring
        [result] = await self._transactions.attempt([Job(Submission(stream=stream, command=WAKE))])
        return isinstance(result, Recorded)  # one that fails is told by the command that comes behind it

    async def _put_draft(self) -> None:
        """Put the draft of a policy in force here, and count nothing of that among what was written."""
        if self._draft is None:
            return
        (tenant, overrides), self._draft = self._draft, None
        own = tenant_stream(tenant)
        rows = await self.store.load([DEPLOYMENT, own])
        layers: dict[StreamId, Body] = {stream: self.kinds.state_in(stream, row).policy for stream, row in rows.items()}
        body = merge(layers.get(own, {}), overrides)
        self.book.effective_from_outside(layers.get(DEPLOYMENT, {}), body)  # what is refused here names every path
        await self._decide(Submission(stream=own, command=SetPolicy(body), actor="dry run"))
        self.trial.segments.clear()
        self.trial.effects_written.clear()

    async def _take_due(self, due: DueRequest) -> Sequence[tuple[Job, Result]]:
        jobs: list[Job] = []
        async with self._one_at_a_time:
            await self._put_draft()
            results: list[Result] = await self._transactions.attempt_due(due, jobs)
        return list(zip(jobs, results, strict=True))

    async def tick(self, **bounds: Any) -> Any:
        """Refuse a pass: what it would do depends on what it does first, outside too."""
        raise Invalid("a tick has no dry run; a sweep has one of its own")

    def first_alarm_at(self) -> Instant | None:
        """Return when the first of the streams that were written wants to be woken."""
        return earliest(*(write.alarm_at for write in self.trial.rows.values()))


def effect_row(write: EffectWrite) -> EffectRow:
    """Return an effect that was not written, as a list would show it."""
    return EffectRow(
        id=write.id,
        executor=write.executor,
        payload=write.payload,
        status="pending",
        attempts=0,
        created_at=write.created_at,
        next_attempt_at=write.next_attempt_at,
        finished_at=None,
        last_error="",
        at_most_once=write.at_most_once,
        to=write.to,
        history=(),
    )
