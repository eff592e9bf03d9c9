"""Memory stores broken on purpose, one rule of the contract each, to show that the suite notices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar

from msgspec.structs import replace

from betimes.core.instants import Instant
from betimes.core.segments import Segment
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.store import (
    NO_ROW,
    Changes,
    DueIndex,
    EffectQuery,
    EffectRow,
    KeyWrite,
    Lease,
    LedgerQuery,
    LockRequest,
    SeenKey,
    StreamQuery,
    StreamRow,
    StreamWrite,
)
from betimes.stores.memory import MemoryDatabase, MemoryStore
from betimes.stores.memory.effects import MemoryEffect
from betimes.stores.memory.transaction import MemoryTx


class Broken(MemoryStore):
    """A memory store that may have other transactions and another database."""

    Transaction: ClassVar[type[MemoryTx]] = MemoryTx
    Database: ClassVar[type[MemoryDatabase]] = MemoryDatabase

    def transaction(self) -> MemoryTx:
        return self.Transaction(self.database, self.clock)


class NeverComparesVersions(Broken):
    class Transaction(MemoryTx):
        def _check(self, changes: Changes) -> None:
            super()._check(replace(changes, streams=[]))


class NeverComparesFences(Broken):
    class Transaction(MemoryTx):
        def _check(self, changes: Changes) -> None:
            super()._check(replace(changes, settlements=[]))


class NeverRefusesUsedKeys(Broken):
    class Transaction(MemoryTx):
        def _check(self, changes: Changes) -> None:
            super()._check(replace(changes, keys=[]))


class WritesRowsBeforeChecking(Broken):
    class Transaction(MemoryTx):
        def _check(self, changes: Changes) -> None:
            super()._check(replace(changes, keys=[], settlements=[], sends_applied=[], sends_dead=[]))
            self._apply(Changes(streams=changes.streams))
            super()._check(replace(changes, streams=[]))


class QueuesEffectsBeforeChecking(Broken):
    class Transaction(MemoryTx):
        def _check(self, changes: Changes) -> None:
            self._apply(Changes(effects=changes.effects))
            super()._check(changes)


class RemovesSendsWhenTaken(Broken):
    class Transaction(MemoryTx):
        def _take_sends(self, sends: Sequence[EffectId]) -> None:
            super()._take_sends(sends)
            for taken in self.sends:
                self.db.remove_effect(taken)


class LocksNothing(Broken):
    class Transaction(MemoryTx):
        def try_lock(self, name: object) -> bool:
            self.db.holders[name] = self
            return True


class LocksOnlyRowsThatExist(Broken):
    class Transaction(MemoryTx):
        def try_lock(self, name: object) -> bool:
            if isinstance(name, StreamId) and name not in self.db.rows:
                self.db.holders[name] = self
                return True
            return super().try_lock(name)


class ReadsTheClockBeforeWaiting(Broken):
    class Transaction(MemoryTx):
        async def start(self, ask: LockRequest) -> None:
            now = self.clock()
            await super().start(ask)
            self.now = now


class TrustsNewerCaches(Broken):
    class Transaction(MemoryTx):
        def _show(self, asked: Mapping[StreamId, int]) -> None:
            ahead = {stream for stream, cached in asked.items() if cached >= self.db.version(stream)}
            self.unchanged |= ahead
            super()._show({stream: cached for stream, cached in asked.items() if stream not in ahead})


class SendsEveryRowAgain(Broken):
    class Transaction(MemoryTx):
        def _show(self, asked: Mapping[StreamId, int]) -> None:
            super()._show(dict.fromkeys(asked, -1))


class TakesAnySend(Broken):
    class Transaction(MemoryTx):
        def _take_sends(self, sends: Sequence[EffectId]) -> None:
            self.sends |= {send for send in sends if send in self.db.effects and self.try_lock(send)}


class OvertakesSendsHeldElsewhere(Broken):
    class Transaction(MemoryTx):
        def _take_sends(self, sends: Sequence[EffectId]) -> None:
            for send in sends:
                older = [other for other in self.db.sends.get(send.source, ()) if other <= send]
                if send in older and set(sends).issuperset(older) and self.try_lock(send):
                    self.sends.add(send)


class KeepsSnoozes(Broken):
    class Transaction(MemoryTx):
        def _apply(self, changes: Changes) -> None:
            snoozes = dict(self.db.snoozes)
            super()._apply(changes)
            self.db.snoozes = snoozes


class ForgetsTurns(Broken):
    class Transaction(MemoryTx):
        async def turn_at(self, stream: StreamId, version: int) -> str | None:
            return None


class LeaksReservations(Broken):
    class Database(MemoryDatabase):
        def release(self, tx: object) -> None:
            leaked = [name for name in self.holders if isinstance(name, KeyId)]
            super().release(tx)
            self.holders.update(dict.fromkeys(leaked, tx))


class LeaksLocks(Broken):
    @asynccontextmanager
    async def begin(self, ask: LockRequest) -> AsyncIterator[MemoryTx]:
        tx = self.Transaction(self.database, self.clock)
        await tx.start(ask)
        yield tx
        self.database.release(tx)


class _KeysOfTenants(dict[KeyId, KeyWrite]):
    """Keys that forget their collection."""

    def get(self, key: KeyId, default: object = None) -> KeyWrite | None:  # type: ignore[override]
        return super().get(key._replace(collection=""))

    def __setitem__(self, key: KeyId, used: KeyWrite) -> None:
        super().__setitem__(key._replace(collection=""), used)


class KeysAreUniquePerTenant(Broken):
    class Database(MemoryDatabase):
        def __init__(self) -> None:
            super().__init__()
            self.keys = _KeysOfTenants()


class KeysNeverExpire(Broken):
    class Database(MemoryDatabase):
        def live_key(self, key: KeyId, now: Instant) -> SeenKey | None:
            return super().live_key(key, 0)


class KeysLoseTheirRequest(Broken):
    class Database(MemoryDatabase):
        def live_key(self, key: KeyId, now: Instant) -> SeenKey | None:
            seen = super().live_key(key, now)
            return seen and seen._replace(request="")


class StartsCallsAtMostOnceAgain(Broken):
    class Database(MemoryDatabase):
        def add_effect(self, effect: MemoryEffect) -> None:
            super().add_effect(MemoryEffect(replace(effect.write, at_most_once=False, attempts_max=9)))


class GivesEveryLeaseTheSameFence(Broken):
    async def lease_calls(
        self, executors: Sequence[str], limit: int, *, shares: Mapping[str, int] | None = None
    ) -> list[Lease]:
        for effect in self.database.effects.values():
            effect.fence = 0
        return await super().lease_calls(executors, limit, shares=shares)


class LeasesForEverybody(Broken):
    async def lease_calls(
        self, executors: Sequence[str], limit: int, *, shares: Mapping[str, int] | None = None
    ) -> list[Lease]:
        everybody = [effect.write.executor for effect in self.database.effects.values()]
        return await super().lease_calls([*executors, *everybody], limit, shares=shares)


class LeasesForEveryTenant(Broken):
    async def lease_calls(
        self, executors: Sequence[str], limit: int, *, shares: Mapping[str, int] | None = None
    ) -> list[Lease]:
        return await super().lease_calls(executors, limit)


class LooksAheadForEveryTenant(Broken):
    async def next_due(
        self, index: DueIndex, kinds: Sequence[str], executors: Sequence[str] = (), *, tenant: str | None = None
    ) -> Instant | None:
        return await super().next_due(index, kinds, executors)


class RevivesWithoutFreshAttempts(Broken):
    async def revive_effect(self, effect: EffectId) -> bool:
        attempts = self.database.effects[effect].attempts if effect in self.database.effects else 0
        revived = await super().revive_effect(effect)
        if revived:
            self.database.effects[effect].attempts = attempts
        return revived


class ForgetsAttemptsThatFailed(Broken):
    async def effects(self, query: EffectQuery) -> list[EffectRow]:
        return [row._replace(history=row.history[-1:]) for row in await super().effects(query)]


class OrdersEffectsAsText(Broken):
    async def effects(self, query: EffectQuery) -> list[EffectRow]:
        return sorted(await super().effects(query), key=lambda row: str(row.id.version))


class ListsTheLastChangedFirst(Broken):
    def _stream_row(self, row: StreamWrite) -> StreamRow:
        return super()._stream_row(row)._replace(created_at=row.at)


class ForgetsWhenEffectsWereMade(Broken):
    async def effects(self, query: EffectQuery) -> list[EffectRow]:
        return await super().effects(replace(query, newest_first=False))


class IgnoresSnoozes(Broken):
    def _wakes_at(self, row: StreamWrite) -> Instant | None:
        return row.alarm_at


class IgnoresKinds(Broken):
    def _due(self, index: DueIndex, kinds: Sequence[str], tenant: str | None = None) -> list[tuple[Instant, StreamId]]:
        return super()._due(index, [stream.kind for stream in self.database.rows], tenant)


class TakesTheYoungestFirst(Broken):
    def _due(self, index: DueIndex, kinds: Sequence[str], tenant: str | None = None) -> list[tuple[Instant, StreamId]]:
        return super()._due(index, kinds, tenant)[::-1]


class IgnoresTheTenantOfWhatIsDue(Broken):
    def _due(self, index: DueIndex, kinds: Sequence[str], tenant: str | None = None) -> list[tuple[Instant, StreamId]]:
        return super()._due(index, kinds)


class ReadsTheLedgerByStream(Broken):
    async def ledger(self, query: LedgerQuery) -> list[Segment]:
        return sorted(await super().ledger(query), key=lambda segment: segment.stream)


class ReadsTheLedgerWithoutBound(Broken):
    async def ledger(self, query: LedgerQuery) -> list[Segment]:
        return [segment for segment in self.database.segments if segment.seq > query.after][: query.limit]


class ListsDeletedStreams(Broken):
    async def streams(self, query: StreamQuery) -> list[StreamRow]:
        return [self._stream_row(self.database.rows[stream]) for stream in sorted(self.database.rows)]


class ShowsRowsThatAreOnlyLocked(Broken):
    class Transaction(MemoryTx):
        async def start(self, ask: LockRequest) -> None:
            for stream in ask.locks:
                self.db.rows.setdefault(stream, StreamWrite(stream, 0, *NO_ROW, status="", owner="", due_at=None))
            await super().start(ask)


class PrunesWhatKeysNeed(Broken):
    async def replace_history(self, checkpoint: Segment) -> int:
        self.database.keys, keys = {}, self.database.keys
        gone = await super().replace_history(checkpoint)
        self.database.keys = keys
        return gone


class ForgetsTheTenantOnTheWay(Broken):
    def begin_due(self, *args: Any, **kwargs: Any) -> AbstractAsyncContextManager[MemoryTx]:  # type: ignore[override]
        return super().begin_due(*args, **kwargs | ({"tenant": None} if kwargs.get("after") else {}))


class ForgetsDeadLetters(Broken):
    async def forget(self, *, before_at: Instant, limit: int) -> int:
        dead = [id for id, effect in self.database.effects.items() if effect.status == "dead"]
        for id in dead:
            del self.database.effects[id]
        return await super().forget(before_at=before_at, limit=limit) + len(dead)


class CutsText(Broken):
    class Database(MemoryDatabase):
        def append(self, segment: Segment) -> None:
            super().append(replace(segment, actor=segment.actor.encode("ascii", "ignore").decode()))


CAUGHT_BY: dict[type[Broken], str] = {
    NeverComparesVersions: "a_version_that_moved_is_refused_under_the_lock",
    ForgetsTheTenantOnTheWay: "whoever_takes_all_that_is_due_gets_each_once",
    NeverComparesFences: "who_lost_the_lease_is_fenced_off",
    NeverRefusesUsedKeys: "using_a_key_that_is_on_record_is_refused",
    WritesRowsBeforeChecking: "a_key_on_record_refuses_the_whole_batch",
    QueuesEffectsBeforeChecking: "effects_of_a_refused_batch_do_not_happen",
    RemovesSendsWhenTaken: "a_send_that_was_left_can_be_taken_again",
    LocksNothing: "a_row_held_by_one_connection_is_skipped_by_the_other",
    LocksOnlyRowsThatExist: "one_who_waits_sees_what_the_holder_committed",
    ReadsTheClockBeforeWaiting: "the_clock_is_read_after_the_wait",
    TrustsNewerCaches: "a_cached_version_ahead_of_the_store_is_not_trusted",
    SendsEveryRowAgain: "a_cached_row_is_sent_again_only_when_it_moved",
    TakesAnySend: "only_a_run_from_the_oldest_send_is_taken",
    OvertakesSendsHeldElsewhere: "a_send_taken_by_one_is_not_taken_by_the_other",
    KeepsSnoozes: "any_commit_to_the_stream_ends_its_snooze",
    ForgetsTurns: "the_turn_of_a_version_can_be_asked_under_the_lock",
    LeaksReservations: "a_reservation_that_was_left_is_free",
    LeaksLocks: "a_refused_transaction_gives_its_locks_back",
    KeysAreUniquePerTenant: "a_key_is_unique_within_its_tenant_and_collection",
    KeysNeverExpire: "a_key_is_free_from_the_instant_it_expires",
    KeysLoseTheirRequest: "a_used_key_returns_its_request_and_its_segment",
    StartsCallsAtMostOnceAgain: "a_call_at_most_once_is_never_started_again",
    GivesEveryLeaseTheSameFence: "who_lost_the_lease_is_fenced_off",
    LeasesForEveryTenant: "only_calls_of_the_tenant_asked_for_are_taken",
    LooksAheadForEveryTenant: "the_next_instant_of_one_tenant_is_told_apart",
    LeasesForEverybody: "a_process_takes_only_what_it_can_execute",
    RevivesWithoutFreshAttempts: "a_dead_letter_that_is_revived_has_fresh_attempts",
    ForgetsAttemptsThatFailed: "every_attempt_at_a_call_is_on_record",
    OrdersEffectsAsText: "effects_are_listed_in_order_of_their_ids_page_by_page",
    ListsTheLastChangedFirst: "the_newest_streams_are_listed_first",
    ForgetsWhenEffectsWereMade: "the_newest_effects_are_listed_first_page_by_page",
    IgnoresSnoozes: "a_snoozed_wake_rests_until_its_time",
    IgnoresKinds: "only_the_kinds_asked_for_are_taken",
    TakesTheYoungestFirst: "streams_that_are_due_are_taken_oldest_first",
    IgnoresTheTenantOfWhatIsDue: "only_the_tenant_asked_for_is_taken",
    ReadsTheLedgerByStream: "segments_are_in_the_order_of_their_commits",
    ReadsTheLedgerWithoutBound: "a_page_has_a_bound_whatever_is_asked",
    ListsDeletedStreams: "a_deleted_stream_is_not_listed",
    ShowsRowsThatAreOnlyLocked: "a_stream_that_was_locked_and_not_written_does_not_exist",
    PrunesWhatKeysNeed: "history_that_a_live_key_needs_is_kept",
    ForgetsDeadLetters: "calls_that_ended_are_forgotten_and_owed_ones_kept",
    CutsText: "a_segment_with_everything_set_comes_back_unchanged",
}

CAUGHT_BY_WALKS = (
    NeverComparesVersions,
    TakesAnySend,
    KeepsSnoozes,
    KeysNeverExpire,
    StartsCallsAtMostOnceAgain,
    IgnoresSnoozes,
    IgnoresKinds,
    ReadsTheLedgerByStream,
    PrunesWhatKeysNeed,
    ForgetsDeadLetters,
)
