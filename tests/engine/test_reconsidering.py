"""A change of policy begins a pass over the streams whose instants follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from betimes.core.deciders import Decider, Decision, Index, Reconsider, View, Wake
from betimes.core.errors import Invalid
from betimes.core.instants import SECOND, Instant
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.engine import policy_change as reconsidering
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.replay import verify
from betimes.engine.settings import EngineSettings
from betimes.engine.store import EffectQuery, LedgerQuery
from betimes.engine.tenants.model import DEPLOYMENT, RECONSIDER, SetPolicy, TenantState, tenant_stream
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryDatabase, MemoryStore
from tests.engine.worlds import World, world
from tests.stores.backends import Backend

MINE, OTHERS = tenant_stream("acme"), tenant_stream("globex")


class Boiling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    boil_s: int = 300


class Colours(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    colour: str = "white"


class Boil(msgspec.Struct, frozen=True, tag=True): ...


class Empty(msgspec.Struct, frozen=True, tag=True): ...


class Boiled(msgspec.Struct, frozen=True, tag=True):
    since_at: Instant
    until_at: Instant | None


class Egg(msgspec.Struct, frozen=True):
    since_at: Instant
    until_at: Instant | None


def decide(view: View[Egg], command: Boil | Empty | Wake | Reconsider, policy: Policy, now: Instant) -> Decision:
    match command:
        case Boil():
            return Decision((Boiled(now, now + policy[Boiling].boil_s * SECOND),))
        case Reconsider():
            assert view.state
            if view.stream.id == "cracked":
                raise ValueError("it is cracked")
            until_at = view.state.since_at + policy[Boiling].boil_s * SECOND
            moves = view.state.until_at not in (None, until_at)
            return Decision((Boiled(view.state.since_at, until_at),)) if moves else Decision()
        case _:
            return Decision((Boiled(now, None),))


EGG: Decider[Egg] = Decider(
    kind="egg",
    state=Egg,
    commands=Boil | Empty,
    events=Boiled,
    decide=decide,
    fold=lambda state, event: Egg(event.since_at, event.until_at),
    alarm=lambda egg: egg.until_at,
    index=lambda egg: Index(status="boiling" if egg.until_at else "done"),
    heeds=(Boiling,),
    heeding=("boiling",),
)
SECTIONS: Mapping[str, type[msgspec.Struct]] = {"eggs": Boiling, "colours": Colours}


def kitchen(backend: Backend, folder: Path, **settings: Any) -> AbstractAsyncContextManager[World]:
    chosen = EngineSettings(**settings) if settings else None
    return world(backend, folder, deciders=(EGG,), sections=SECTIONS, body={}, settings=chosen)


def egg(id: str, tenant: str = "acme") -> StreamId:
    return StreamId(tenant, "egg", id)


async def minutes(w: World, *streams: StreamId) -> list[int]:
    """How long each boils."""
    states = [await w.state(stream) for stream in streams]
    return [(state.until_at - state.since_at) // (60 * SECOND) for state in states]


async def changed(w: World, seconds: int, stream: StreamId = MINE) -> None:
    await w.submit(SetPolicy({"eggs": {"boil_s": seconds}}), stream)


async def test_what_waits_is_told_of_a_change(backend: Backend, tmp_path: Path) -> None:
    async with kitchen(backend, tmp_path) as w:
        await w.submit(Boil(), egg("a"))
        await changed(w, 600)
        assert await minutes(w, egg("a")) == [5]
        assert (await w.engine.tick()).effects == {"done": 1}
        assert await minutes(w, egg("a")) == [10]
        told = (await w.store.ledger(LedgerQuery(kind="egg")))[-1]
        assert (told.command, told.actor) == ('{"type":"Reconsider"}', "policy")
        assert (await verify(w.store, w.engine.kinds)).findings == []


async def test_a_change_that_moves_nothing_writes_nothing(backend: Backend, tmp_path: Path) -> None:
    async with kitchen(backend, tmp_path) as w:
        await w.submit(Boil(), egg("a"))
        await w.submit(SetPolicy({"colours": {"colour": "brown"}}), MINE)
        assert await w.store.effects(EffectQuery()) == [], "eggs do not heed colours"
        await w.submit(SetPolicy({"colours": {"colour": "brown"}, "eggs": {"boil_s": 300}}), MINE)
        assert await w.store.effects(EffectQuery()) == [], "it is what they went by"
        assert len(await w.store.ledger(LedgerQuery(kind="egg"))) == 1


async def test_only_streams_that_wait_are_visited(backend: Backend, tmp_path: Path) -> None:
    async with kitchen(backend, tmp_path) as w:
        await w.submit(Boil(), egg("a"))
        await w.submit(Empty(), egg("b"))
        await changed(w, 600)
        await w.engine.tick()
        ends = [s.events for s in await w.store.ledger(LedgerQuery(kind="tenant")) if "StreamsVisited" in s.events]
        assert ends == ['[{"type":"StreamsVisited","visited":1,"moved":1}]']


async def test_a_tenants_change_is_its_own_and_the_deployments_is_everybodys(backend: Backend, tmp_path: Path) -> None:
    async with kitchen(backend, tmp_path) as w:
        for tenant in ("acme", "globex"):
            await w.submit(Boil(), egg("a", tenant))
        await changed(w, 600)
        await w.engine.tick()
        assert await minutes(w, egg("a"), egg("a", "globex")) == [10, 5]
        await changed(w, 1200, DEPLOYMENT)
        await w.engine.tick()
        assert await minutes(w, egg("a"), egg("a", "globex")) == [10, 20], "acme has its own"


async def test_a_pass_goes_page_by_page_and_leg_by_leg_in_any_process(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconsidering, "STREAMS_PER_LEG_MAX", 4)
    async with kitchen(backend, tmp_path, batch_max=2) as w:
        eggs = [egg(f"e{number}") for number in range(9)]
        for each in eggs:
            await w.submit(Boil(), each)
        await changed(w, 600)
        await w.engine.tick(limit=1)
        assert await minutes(w, *eggs) == [10] * 4 + [5] * 5
        await w.other.tick(limit=1)
        assert await minutes(w, *eggs) == [10] * 8 + [5]
        while not (await w.engine.tick()).complete:
            pass
        assert await minutes(w, *eggs) == [10] * 9
        state: TenantState = await w.state(MINE)
        assert state.visits is None
        assert (await verify(w.store, w.engine.kinds)).findings == []


async def test_a_second_change_takes_over_from_the_first(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconsidering, "STREAMS_PER_LEG_MAX", 2)
    async with kitchen(backend, tmp_path, batch_max=2) as w:
        eggs = [egg(f"e{number}") for number in range(5)]
        for each in eggs:
            await w.submit(Boil(), each)
        await changed(w, 600)
        await w.engine.tick(limit=1)
        await changed(w, 900)
        while not (await w.engine.tick()).complete:
            pass
        assert await minutes(w, *eggs) == [15] * 5
        assert (await w.state(MINE)).visits is None


async def test_a_change_that_follows_an_unfinished_one_finishes_it(backend: Backend, tmp_path: Path) -> None:
    async with kitchen(backend, tmp_path) as w:
        await w.submit(Boil(), egg("a"))
        await changed(w, 600)
        await w.submit(SetPolicy({"eggs": {"boil_s": 600}, "colours": {"colour": "brown"}}), MINE)
        [first, second] = sorted(effect.id.version for effect in await w.store.effects(EffectQuery(tenant="acme")))
        assert first < second
        await w.engine.tick()
        assert await minutes(w, egg("a")) == [10]
        assert (await w.state(MINE)).visits is None


async def test_a_stream_that_cannot_be_decided_is_reported_and_passed_by(backend: Backend, tmp_path: Path) -> None:
    async with kitchen(backend, tmp_path) as w:
        for name in ("a", "cracked", "d"):
            await w.submit(Boil(), egg(name))
        await changed(w, 600)
        await w.engine.tick()
        assert await minutes(w, egg("a"), egg("cracked"), egg("d")) == [10, 5, 10]
        assert w.reported() == ["reconsider_failed"]
        assert (await w.state(MINE)).visits is None


async def test_an_alarm_that_is_due_rings_first(backend: Backend, tmp_path: Path) -> None:
    async with kitchen(backend, tmp_path) as w:
        await w.submit(Boil(), egg("a"))
        w.clock.advance(301)
        await changed(w, 600)
        await w.engine._calls.once(1)
        assert (await w.state(egg("a"))).until_at is None, "it was done before the policy changed"


async def test_the_executors_name_is_the_engines() -> None:
    async def mine(call: Any) -> None: ...

    store = MemoryStore(VirtualClock(), MemoryDatabase())
    with pytest.raises(Invalid, match="reserved"):
        Engine(store, (EGG,), name="x", sections=SECTIONS, executors={RECONSIDER: mine})


async def test_nobody_but_the_engine_may_say_that_the_policy_changed(backend: Backend, tmp_path: Path) -> None:
    async with kitchen(backend, tmp_path) as w:
        with pytest.raises(Invalid, match="not a command of"):
            await w.engine.submit(Submission(stream=egg("a"), command=Reconsider()))
