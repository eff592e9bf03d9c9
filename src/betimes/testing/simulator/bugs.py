"""Planted bugs: the test of the tests. Each breaks one rule the design rests on; some invariant must notice.

A bug is planted by replacing a method of the engine or of the simulated store for the length of a `with` block. Where a
bug splits a commit, the later half runs in the worker's own process, so that it is lost when the worker dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch

from msgspec.structs import replace

from betimes.core.errors import Unavailable
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine import batch, turn
from betimes.engine import transactions as attempts
from betimes.engine.commit_queue import CommitQueue
from betimes.engine.effects import Caller
from betimes.engine.jobs import Job
from betimes.engine.policies import PoliciesInForce
from betimes.engine.store import NOT_CACHED, Changes, LockRequest
from betimes.engine.tenant_turns import TenantRotation
from betimes.engine.transactions import Transactions
from betimes.stores.memory.effects import MemoryEffect
from betimes.stores.memory.transaction import MemoryTx
from betimes.testing.simulator.connection import Connection, SimulatedTx
from betimes.testing.simulator.gates import TENANTS
from betimes.testing.simulator.world import World

SPLIT_S = 0.3
Replacement: TypeAlias = "tuple[Any, str, Any]"


class Bug(NamedTuple):
    """What is broken, and the replacements that break it."""

    what: str
    replacements: Callable[[], Iterator[Replacement]]


BUGS: dict[str, Bug] = {}


def bug(what: str) -> Callable[[Callable[[], Iterator[Replacement]]], Callable[[], Iterator[Replacement]]]:
    def register(plant: Callable[[], Iterator[Replacement]]) -> Callable[[], Iterator[Replacement]]:
        BUGS[plant.__name__] = Bug(what, plant)
        return plant

    return register


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The system with the bug in it."""
    with ExitStack() as stack:
        for target, attribute, value in BUGS[name].replacements():
            stack.enter_context(patch.object(target, attribute, value, create=True))
        yield


def _unless_it_dies(action: Callable[[], Any]) -> None:
    asyncio.get_running_loop().call_later(SPLIT_S, action)


# -- guards


@bug("versions are not compared at the commit")
def no_version_check() -> Iterator[Replacement]:
    check = SimulatedTx.check
    yield SimulatedTx, "check", lambda tx, changes: check(tx, replace(changes, streams=[]))


@bug("locks are given back as soon as the rows are read")
def locks_given_back_early() -> Iterator[Replacement]:
    start = SimulatedTx.start

    async def start_and_release(tx: SimulatedTx, ask: LockRequest) -> None:
        await start(tx, ask)
        tx.db.release(tx)

    yield SimulatedTx, "start", start_and_release


@bug("a row that does not exist yet is not created before locking, so two creators both hold it")
def row_not_created_before_locking() -> Iterator[Replacement]:
    try_lock, holds = MemoryTx.try_lock, MemoryTx._holds

    def is_missing(tx: MemoryTx, name: Any) -> bool:
        return isinstance(name, StreamId) and name not in tx.db.rows

    yield MemoryTx, "try_lock", lambda tx, name: is_missing(tx, name) or try_lock(tx, name)
    yield MemoryTx, "_holds", lambda tx, name: is_missing(tx, name) or holds(tx, name)


@bug("some workers lock rows, others write them without")
def optimistic_among_lockers() -> Iterator[Replacement]:
    try_lock, holds = MemoryTx.try_lock, MemoryTx._holds

    def is_optimist(tx: Any) -> bool:
        return int(tx.connection.name.removeprefix("w")) % 2 == 1

    yield MemoryTx, "try_lock", lambda tx, name: is_optimist(tx) or try_lock(tx, name)
    yield MemoryTx, "_holds", lambda tx, name: is_optimist(tx) or holds(tx, name)


@bug("a cached state is trusted whatever version was locked")
def cache_trusted_blindly() -> Iterator[Replacement]:
    show = MemoryTx._show

    def trusting(tx: MemoryTx, asked: Any) -> None:
        cached = {stream for stream, version in asked.items() if version != NOT_CACHED}
        tx.unchanged |= cached
        show(tx, {stream: version for stream, version in asked.items() if stream not in cached})

    yield MemoryTx, "_show", trusting


@bug("what was presumed is neither locked nor compared")
def presumption_not_compared() -> Iterator[Replacement]:
    yield SimulatedTx, "lock_presumed", lambda tx, ask: None


@bug("an answer that came of a presumption is told although nothing was committed to compare it")
def presumption_told() -> Iterator[Replacement]:
    yield attempts, "_are_compared", lambda batch, jobs, results: True


# -- keys and unknown outcomes


@bug("a key may be used more than once")
def key_not_unique() -> Iterator[Replacement]:
    check = SimulatedTx.check

    async def take_nothing(tx: MemoryTx, keys: Any) -> None:
        await asyncio.sleep(0)

    yield MemoryTx, "_take_keys", take_nothing
    yield SimulatedTx, "check", lambda tx, changes: check(tx, replace(changes, keys=[]))


@bug("keys are read as they were before waiting for the lock")
def keys_read_before_waiting() -> Iterator[Replacement]:
    start = SimulatedTx.start

    async def start_with_old_keys(tx: SimulatedTx, ask: LockRequest) -> None:
        before = {key: seen for key in ask.keys if (seen := tx.db.live_key(key, tx.clock()))}
        await start(tx, ask)
        tx.seen = before

    yield SimulatedTx, "start", start_with_old_keys


@bug("a client whose answer was lost tries again under a fresh key")
def fresh_key_after_unknown() -> Iterator[Replacement]:
    yield World, "fresh_key_after_unknown", True


async def _always(value: bool) -> bool:
    return value


@bug("an unknown commit is taken as written")
def unknown_taken_as_written() -> Iterator[Replacement]:
    yield Transactions, "_has_arrived", lambda attempts, changes: _always(True)


@bug("an unknown commit is taken as not written")
def unknown_taken_as_not_written() -> Iterator[Replacement]:
    yield Transactions, "_has_arrived", lambda attempts, changes: _always(False)


@bug("a tenant never has its turn")
def tenant_starved() -> Iterator[Replacement]:
    next_tenants = TenantRotation.next

    async def all_but_one(rotation: TenantRotation, names: Sequence[str], limit: int) -> tuple[str, ...]:
        return tuple(name for name in await next_tenants(rotation, names, limit) if name != TENANTS[-1])

    yield TenantRotation, "next", all_but_one


# -- one commit, or several


@bug("a commit is answered before it is written")
def answered_before_written() -> Iterator[Replacement]:
    apply = SimulatedTx.apply
    yield SimulatedTx, "apply", lambda tx, changes: _unless_it_dies(lambda: apply(tx, changes))


@bug("the alarm is written after the commit")
def alarm_outside_the_commit() -> Iterator[Replacement]:
    apply = SimulatedTx.apply

    def apply_in_two(tx: SimulatedTx, changes: Changes) -> None:
        def set_alarms() -> None:
            for write in changes.streams:
                row = tx.db.rows[write.stream]
                if row.version == write.version:
                    tx.db.rows[write.stream] = replace(row, alarm_at=write.alarm_at)

        before = {write.stream: tx.db.rows.get(write.stream) for write in changes.streams}
        apply(tx, changes)
        for stream, row in before.items():
            tx.db.rows[stream] = replace(tx.db.rows[stream], alarm_at=row.alarm_at if row else None)
        _unless_it_dies(set_alarms)

    yield SimulatedTx, "apply", apply_in_two


@bug("effects are written after the commit")
def effects_outside_the_commit() -> Iterator[Replacement]:
    apply = SimulatedTx.apply

    def apply_in_two(tx: SimulatedTx, changes: Changes) -> None:
        apply(tx, replace(changes, effects=[]))
        _unless_it_dies(lambda: apply(tx, Changes(effects=changes.effects)))

    yield SimulatedTx, "apply", apply_in_two


@bug("the streams of a turn are written one after the other")
def part_of_a_turn() -> Iterator[Replacement]:
    apply = SimulatedTx.apply

    def apply_in_two(tx: SimulatedTx, changes: Changes) -> None:
        first = {write.stream for write in changes.streams[:1]}
        apply(
            tx,
            replace(changes, streams=changes.streams[:1], segments=[s for s in changes.segments if s.stream in first]),
        )
        rest = Changes(streams=changes.streams[1:], segments=[s for s in changes.segments if s.stream not in first])
        if rest.streams:
            _unless_it_dies(lambda: apply(tx, rest))

    yield SimulatedTx, "apply", apply_in_two


# -- alarms and time


@bug("a command does not wait for an alarm that is due")
def alarm_after_command() -> Iterator[Replacement]:
    yield turn, "ring_due", lambda *arguments: True


@bug("a wake that failed once never comes back")
def wake_lost_when_snoozed() -> Iterator[Replacement]:
    snooze = Connection.snooze
    yield (
        Connection,
        "snooze",
        lambda store, stream, version, until, error: snooze(store, stream, version, until + 10**15),
    )


@bug("a turn takes the store's time even if its streams are further")
def turn_time_goes_back() -> Iterator[Replacement]:
    yield batch, "turn_instant", lambda now, loaded: now


@bug("a policy once seen is used for ever")
def policy_remembered() -> Iterator[Replacement]:
    effective = PoliciesInForce.effective

    def remembered(policies: Any, tenant: str, deployment: Any, own: Any) -> Any:
        return policies._last.get(tenant) or effective(policies, tenant, deployment, own)

    yield PoliciesInForce, "effective", remembered


# -- effects


@bug("the fence of a settlement is not compared")
def fence_ignored() -> Iterator[Replacement]:
    check = SimulatedTx.check

    async def renew_anything(store: Any, effect: Any, fence: int) -> None:
        await asyncio.sleep(0)

    yield SimulatedTx, "check", lambda tx, changes: check(tx, replace(changes, settlements=[]))
    yield Connection, "renew_lease", renew_anything


@bug("a command to another stream is removed after the commit that applies it")
def send_applied_twice() -> Iterator[Replacement]:
    apply = SimulatedTx.apply

    def apply_in_two(tx: SimulatedTx, changes: Changes) -> None:
        def remove() -> None:
            for sent in changes.sends_applied:
                if sent in tx.db.effects:
                    tx.db.remove_effect(sent)

        apply(tx, replace(changes, sends_applied=[]))
        _unless_it_dies(remove)

    yield SimulatedTx, "apply", apply_in_two


@bug("a command to another stream that met an unavailable store once is remembered as under way")
def send_remembered_as_under_way() -> Iterator[Replacement]:
    def forget_only_what_ended(queue: CommitQueue, job: Job, outcome: Recorded | BaseException) -> None:
        if job.send and not isinstance(outcome, Unavailable):
            queue._sends.pop(job.send, None)
        job.end(outcome)

    yield CommitQueue, "_end", forget_only_what_ended


@bug("whoever learnt of a hold from the store alone does not heed it")
def hold_not_heeded() -> Iterator[Replacement]:
    yield batch.Batch, "heeds_holds", False
    yield Connection, "pass_over", lambda connection, held: None


@bug("commands to another stream are taken in any order")
def sends_out_of_order() -> Iterator[Replacement]:
    def take_any(tx: MemoryTx, sends: Any) -> None:
        waiting = {id for ids in tx.db.sends.values() for id in ids}
        tx.sends.update(send for send in sends if send in waiting and tx.try_lock(send))

    yield MemoryTx, "_take_sends", take_any


@bug("a call for at most once is started again when its lease runs out")
def at_most_once_repeated() -> Iterator[Replacement]:
    lease = MemoryEffect.lease

    def lease_again(effect: MemoryEffect, now: int) -> Any:
        effect.status = "pending"
        return lease(effect, now)

    yield MemoryEffect, "lease", lease_again


@bug("an effect is settled without telling the stream that asked")
def settled_without_telling() -> Iterator[Replacement]:
    settling = Caller._settling_job

    def silent(calls: Caller, *arguments: Any) -> Any:
        job = settling(calls, *arguments)
        job.stream = None
        return job

    yield Caller, "_settling_job", silent
