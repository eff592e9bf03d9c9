"""Deciders, executors and reporters that do what they should not: the culprit is named and nobody else suffers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from betimes.core.deciders import Call, Decision, EffectCall, Index, Send, Wake
from betimes.core.errors import BetimesError, Fault, Invalid, Overloaded, PolicyInvalid, Refused
from betimes.core.instants import SECOND
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.pruning import Retention, prune
from betimes.engine.reports import Report
from betimes.engine.settings import EngineSettings
from betimes.engine.store import EffectQuery
from betimes.engine.tenants.model import DEPLOYMENT, SetPolicy, tenant_stream
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryStore
from betimes.testing.sample import GATE as SAMPLE_GATE
from betimes.testing.sample import SAMPLE, SECTIONS, Knock
from betimes.testing.sample.model import Admitted
from tests.engine.worlds import GATE, TALLY, world
from tests.stores.backends import Backend

BACK = StreamId("acme", "gate", "back")


class Stranger(msgspec.Struct, frozen=True, tag=True):
    """Of no kind."""


def gates(**changes: Any) -> Any:
    return (replace(SAMPLE_GATE, **changes), *SAMPLE[1:])


def deciding(special: Callable[[Any, Any, int], Any]) -> Any:
    """Gates that do something else on a visitor called `x`, or when woken if it says so."""

    def decide(view: Any, command: Any, policy: Any, now: int) -> Any:
        if isinstance(command, Wake) or getattr(command, "visitor", "") == "x":
            return special(view, command, now)
        return SAMPLE_GATE.decide(view, command, policy, now)

    return gates(decide=decide)


BAD_DECISIONS: dict[str, Callable[[Any, Any, int], Any]] = {
    "nothing at all": lambda view, command, now: None,
    "an event of no kind": lambda view, command, now: Decision((Stranger(),)),
    "a stream of another tenant": lambda view, command, now: Decision(
        (Admitted("x", now),), also={StreamId("other", "tally", "t"): (Admitted("x", now),)}
    ),
    "a malformed stream": lambda view, command, now: Decision(
        (Admitted("x", now),), also={StreamId("acme", "tally", "no good"): (Admitted("x", now),)}
    ),
    "its own stream twice": lambda view, command, now: Decision(
        (Admitted("x", now),), also={view.stream: (Admitted("x", now),)}
    ),
    "the reserved executor": lambda view, command, now: Decision((Admitted("x", now),), effects=(Call("send"),)),
    "a lease of no time": lambda view, command, now: Decision((Admitted("x", now),), effects=(Call("h", lease_s=0),)),
    "an effect without an event": lambda view, command, now: Decision(effects=(Call("h"),)),
}


@pytest.mark.parametrize("name", BAD_DECISIONS)
async def test_a_bad_decision_is_a_named_error_and_its_neighbours_commit(
    backend: Backend, tmp_path: Path, name: str
) -> None:
    async with world(backend, tmp_path, deciders=deciding(BAD_DECISIONS[name])) as w:
        bad, good = await asyncio.gather(w.knock("x"), w.knock("ann", BACK), return_exceptions=True)
        assert isinstance(bad, Fault | Invalid), bad
        assert not isinstance(good, BaseException)
        assert await w.state() is None


@pytest.mark.parametrize("function", ["alarm", "index"])
async def test_an_instant_that_is_none_is_a_named_fault(backend: Backend, tmp_path: Path, function: str) -> None:
    wrong: Any = 1.5
    changes: Any = {"alarm": lambda state: wrong, "index": lambda state: Index(due_at=wrong)}
    async with world(backend, tmp_path, deciders=gates(**{function: changes[function]})) as w:
        with pytest.raises(Fault, match="is not an instant"):
            await w.knock("ann")
        assert await w.state() is None


@pytest.mark.parametrize(
    "outcome", [None, Decision((Stranger(),)), ZeroDivisionError()], ids=["none", "event", "raise"]
)
async def test_a_wake_that_fails_in_any_way_is_snoozed(backend: Backend, tmp_path: Path, outcome: Any) -> None:
    def special(view: Any, command: Any, now: int) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async with world(backend, tmp_path, deciders=deciding(special)) as w:
        await w.knock("ann")
        await w.knock("bob")
        w.clock.advance(60)
        await w.engine.tick()
        assert (await w.engine.backlog()).snoozed == 1
        assert (await w.engine.tick()).next_due_at == w.clock() + SECOND
        assert w.reported().count("wake_failed") == 1


async def test_a_stored_policy_that_fits_no_more_can_be_replaced(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 5}) as w:
        await w.knock("ann")
        await w.submit(SetPolicy({"gates": {"per_hour": 3}}), tenant_stream("acme"))
        renamed = Engine(w.store, SAMPLE, name="newer", sections={"doors": SECTIONS["gates"]}, report=w.reports.append)
        await renamed.open()
        with pytest.raises(PolicyInvalid, match="gates: no such section"):
            await renamed.submit(Submission(stream=GATE, command=Knock("bob")))
        for stream in (DEPLOYMENT, tenant_stream("acme")):
            await renamed.submit(Submission(stream=stream, command=SetPolicy({})))
        assert (await renamed.submit(Submission(stream=GATE, command=Knock("bob")))).version == 2
        await renamed.close()
        await w.store.open()


async def test_a_policy_for_a_stream_that_is_no_tenants_is_refused(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        with pytest.raises(Refused, match="acme/tenant/acme"):
            await w.submit(SetPolicy({}), StreamId("acme", "tenant", "other"))


async def test_a_send_nobody_can_read_is_a_dead_letter_and_lets_the_next_pass(backend: Backend, tmp_path: Path) -> None:
    def special(view: Any, command: Any, now: int) -> Any:
        effects = (Send(TALLY, Stranger()), Send(TALLY, SAMPLE[2].commands("x")))
        return Decision((Admitted("x", now),), effects=effects)

    async with world(backend, tmp_path, deciders=deciding(special)) as w:
        await w.knock("x")
        assert (await w.engine.tick()).complete
        assert [row.status for row in await w.store.effects(EffectQuery())] == ["dead"]
        assert (await w.state(TALLY)).count == 1
        assert "send_failed" in w.reported()


async def test_a_result_that_is_not_json_is_recorded_as_what_it_looks_like(backend: Backend, tmp_path: Path) -> None:
    calls = []

    async def greet(call: EffectCall) -> object:
        calls.append(call)
        return {1, object}

    async with world(backend, tmp_path, policy={"greet": True}, executors={"handler:greet": greet}) as w:
        await w.knock("ann")
        assert (await w.engine.tick()).effects == {"done": 1}
        w.clock.advance(3600)
        assert (await w.engine.tick()).effects == {}
        assert len(calls) == 1
        _, segments = await w.store.history(GATE, 1, 1)
        assert "class 'object'" in (segments[0].command or "")


async def test_a_plain_function_is_an_executor_too_and_a_cancelled_one_has_failed(
    backend: Backend, tmp_path: Path
) -> None:
    def greet(call: EffectCall) -> Any:
        return "hello"

    async def cancelled(call: EffectCall) -> None:
        raise asyncio.CancelledError

    async with world(backend, tmp_path, policy={"greet": True}, executors={"handler:greet": greet}) as w:
        await w.knock("ann")
        assert (await w.engine.tick()).effects == {"done": 1}
        w.other._calls._executors["handler:greet"] = cancelled
        await w.knock("ann", BACK)
        assert (await w.other.tick()).effects == {"failed": 1}


async def test_a_reporter_that_raises_breaks_nothing() -> None:
    def report(said: Report) -> None:
        raise ZeroDivisionError

    broken = deciding(lambda view, command, now: None)
    clock = VirtualClock()
    async with Engine(MemoryStore(clock), broken, name="one", sections=SECTIONS, report=report) as engine:
        await engine.submit(Submission(stream=GATE, command=Knock("ann")))
        await engine.submit(Submission(stream=GATE, command=Knock("bob")))
        clock.advance(60)
        await engine.tick()
        assert (await engine.submit(Submission(stream=BACK, command=Knock("ann")))).version == 1


async def test_what_is_unreadable_is_left_alone_by_prune_and_told() -> None:
    clock = VirtualClock()
    store = MemoryStore(clock)
    async with Engine(store, SAMPLE, name="one", sections=SECTIONS) as engine:
        await engine.submit(Submission(stream=GATE, command=Knock("ann")))
        await engine.submit(Submission(stream=GATE, command=Knock("bob")))
        clock.advance(86_400 * 30)
        history = store.database.histories[GATE]
        history[0] = replace(history[0], events="{")
        report = await prune(store, engine.kinds, Retention(history_days=1))
        assert {finding.stream for finding in report.findings} == {GATE}
        assert len(store.database.histories[GATE]) == 2


async def test_an_engine_that_is_not_open_says_so_instead_of_waiting() -> None:
    engine = Engine(MemoryStore(VirtualClock()), SAMPLE, name="one", sections=SECTIONS)
    with pytest.raises(Overloaded, match="not open"):
        await engine.tick()
    with pytest.raises(Overloaded, match="not open"):
        engine.start_workers()
    async with engine:
        engine.start_workers()
        engine.start_workers()
        with pytest.raises(Invalid, match="not a command of 'gate'"):
            await engine.submit(Submission(stream=GATE, command=SetPolicy({})))
        with pytest.raises(Invalid, match="empty"):
            await engine.submit(Submission(stream=GATE, command=Knock("ann"), key=""))
        with pytest.raises(Invalid, match="not a StreamId"):
            await engine.submit(Submission(stream=("acme", "gate", "front"), command=Knock("ann")))  # type: ignore[arg-type]


async def test_whoever_still_waits_when_the_engine_closes_is_answered() -> None:
    class Stuck(MemoryStore):
        def begin(self, ask: Any) -> Any:
            return stuck()

    class stuck:  # noqa: N801 — a context that is never entered
        async def __aenter__(self) -> None:
            await asyncio.Event().wait()

        async def __aexit__(self, *error: object) -> None: ...

    reports: list[Report] = []
    settings = EngineSettings(drain_s=0.01, batch_max=1)
    engine = Engine(
        Stuck(VirtualClock()), SAMPLE, name="one", sections=SECTIONS, settings=settings, report=reports.append
    )
    await engine.open()
    waiting = [asyncio.ensure_future(engine.submit(Submission(stream=GATE, command=Knock(v)))) for v in ("a", "b")]
    await asyncio.sleep(0)
    await engine.close()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [answer.code for answer in answers if isinstance(answer, BetimesError)] == ["OUTCOME_UNKNOWN", "OVERLOADED"]
    assert [report.what for report in reports] == ["drain_incomplete"]


@pytest.mark.parametrize("setting", [{"batch_max": 0}, {"queue_max": "many"}, {"poll_s": -1}])
def test_settings_that_cannot_work_are_refused(setting: Any) -> None:
    with pytest.raises(Invalid, match=next(iter(setting))):
        EngineSettings(**setting)


def test_names_that_cannot_work_are_refused() -> None:
    with pytest.raises(Invalid, match="a name that no other process"):
        Engine(MemoryStore(VirtualClock()), SAMPLE, name="", sections=SECTIONS)
    with pytest.raises(Invalid, match="'send' is reserved"):
        Engine(MemoryStore(VirtualClock()), SAMPLE, name="one", sections=SECTIONS, executors={"send": print})  # type: ignore[dict-item]
    with pytest.raises(Invalid, match="My Gate"):
        Engine(MemoryStore(VirtualClock()), gates(kind="My Gate"), name="one", sections=SECTIONS)
