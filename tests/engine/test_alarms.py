"""Alarms: nothing postponed is lost, and nothing depends on how late the alarm loop is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision, View, Wake
from betimes.core.instants import SECOND, Instant
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.engine.store import NOT_CACHED, LedgerQuery, LockRequest
from betimes.testing.sample import GATE as SAMPLE_GATE
from betimes.testing.sample import SAMPLE, Shut
from tests.engine.worlds import World, until, world
from tests.stores.backends import BACKENDS, Backend


async def commands(w: World) -> list[str]:
    segments = await w.store.ledger(LedgerQuery(kind="gate", limit=1000))
    return [(segment.command or "").split('"')[3] for segment in segments]


async def test_a_postponed_visitor_is_admitted_when_the_alarm_rings(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await w.knock("ann")
        await w.knock("bob")
        early = await w.engine.tick()
        assert (early.fired, early.complete, early.next_due_at) == ({}, True, w.clock() + 60 * SECOND)
        w.clock.advance(60)
        assert (await w.engine.tick()).fired == {"gate": 1}
        assert (await w.state()).admitted_count == 2
        assert (await w.engine.tick()).fired == {}


async def test_an_alarm_that_is_due_rings_before_a_command(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await w.knock("ann")
        await w.knock("bob")
        w.clock.advance(3000)
        late = await w.knock("cid")
        assert late.verdict
        assert late.verdict.reasons == ("COOLDOWN",), "bob, who waited, came in first"
        assert await commands(w) == ["Knock", "Knock", "Wake", "Knock"]
        segments = await w.store.ledger(LedgerQuery(kind="gate"))
        assert segments[2].turn == segments[3].turn
        assert segments[2].at == segments[3].at


async def test_a_command_that_stops_the_stream_is_not_preceded_by_its_alarm(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await w.knock("ann")
        await w.knock("bob")
        w.clock.advance(3000)
        await w.submit(Shut())
        assert await commands(w) == ["Knock", "Knock", "Shut"]
        assert (await w.state()).turned_away_count == 1


async def test_many_alarms_are_rung_by_bounded_passes(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        gates = [StreamId("acme", "gate", f"g{n:03}") for n in range(120)]
        await asyncio.gather(*(w.knock(visitor, gate) for visitor in ("ann", "bob") for gate in gates))
        w.clock.advance(60)
        first = await w.engine.tick(limit=50)
        assert (first.fired, first.complete) == ({"gate": 50}, False)
        second = await w.engine.tick()
        assert (second.fired, second.complete) == ({"gate": 70}, True)


async def test_two_processes_ring_each_alarm_once(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        gates = [StreamId("acme", "gate", f"g{n:03}") for n in range(100)]
        await asyncio.gather(*(w.knock(visitor, gate) for visitor in ("ann", "bob") for gate in gates))
        w.clock.advance(60)
        results = await asyncio.gather(w.engine.tick(), w.other.tick())
        assert sum(result.fired.get("gate", 0) for result in results) == 100
        assert (await commands(w)).count("Wake") == 100


async def test_a_running_engine_rings_by_itself(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await w.knock("ann")
        await w.knock("bob")
        w.clock.advance(60)
        w.engine.start_workers()
        await until(w, lambda gate: gate.admitted_count == 2)


def _broken(decider: Decider[Any], outcome: Any) -> Decider[Any]:
    def decide(view: View[Any], command: Any, policy: Policy, now: Instant) -> Any:
        if isinstance(command, Wake):
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        return decider.decide(view, command, policy, now)

    return replace(decider, decide=decide)


async def test_a_wake_that_fails_is_snoozed_reported_and_tried_again(backend: Backend, tmp_path: Path) -> None:
    broken = (_broken(SAMPLE_GATE, ZeroDivisionError("oops")), *SAMPLE[1:])
    async with world(backend, tmp_path, deciders=broken) as w:
        await w.knock("ann")
        await w.knock("bob")
        w.clock.advance(60)
        assert (await w.engine.tick()).fired == {}
        assert w.reported() == ["wake_failed"]
        assert "acme/gate/front" in w.reports[0].name
        assert "oops" in str(w.reports[0].error)
        assert (await w.engine.tick()).next_due_at == w.clock() + SECOND, "snoozed, and not a loop"
        w.clock.advance(1)
        assert (await w.engine.tick()).next_due_at == w.clock() + 2 * SECOND, "longer each time"
        assert (await w.engine.backlog()).snoozed == 1
        assert (await w.state()).waiting, "bob still waits"


async def test_a_wake_that_writes_nothing_is_a_fault_not_a_loop(backend: Backend, tmp_path: Path) -> None:
    broken = (_broken(SAMPLE_GATE, Decision()), *SAMPLE[1:])
    async with world(backend, tmp_path, deciders=broken) as w:
        await w.knock("ann")
        await w.knock("bob")
        w.clock.advance(60)
        await w.engine.tick()
        assert "ring for ever" in str(w.reports[0].error)


async def test_streams_that_are_due_are_claimed_in_one_call(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        gates = [StreamId("acme", "gate", f"g{n}") for n in range(5)]
        for gate in gates:
            await w.knock("ann", gate)
            w.clock.advance(1)
        done = await w.engine.submit_due(["gate"], lambda stream: Shut(), 3)
        assert [recorded.stream.id for recorded in done] == ["g0", "g1", "g2"]


async def test_a_claim_leaves_streams_that_others_hold_to_them(tmp_path: Path) -> None:
    async with world(BACKENDS[0], tmp_path, policy={"tenant_per_hour": 9}) as w:
        await w.knock("ann")
        async with w.other.store.begin(LockRequest({StreamId("acme", "quota", "all"): NOT_CACHED})):
            assert await w.engine.submit_due(["gate"], lambda stream: Shut(), 3) == []
        await w.engine.tick()
        assert not (await w.state()).shut, "nobody was told of it, so it did not happen"
        assert len(await w.engine.submit_due(["gate"], lambda stream: Shut(), 3)) == 1
