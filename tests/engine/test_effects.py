"""Effects: commands to other streams exactly once; calls at least once or at most once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Call, Decision, EffectCall, Settled, Wake
from betimes.core.errors import Fenced
from betimes.core.instants import SECOND
from betimes.core.streams import EffectId, StreamId
from betimes.engine.effects import GiveUp, RetryAfter, retry_pause
from betimes.engine.jobs import NEWS_PLACE
from betimes.engine.settings import EngineSettings
from betimes.engine.store import EffectQuery
from betimes.testing.sample import GATE as SAMPLE_GATE
from betimes.testing.sample import SAMPLE
from betimes.testing.sample.model import Admitted, Greeted
from tests.engine.worlds import GATE, TALLY, World, until, world
from tests.patience import HANGS_S
from tests.stores.backends import Backend


class Recorder:
    """An executor that remembers its calls and does as told."""

    def __init__(self, *outcomes: Any) -> None:
        self.calls: list[EffectCall] = []
        self._outcomes = list(outcomes)

    async def __call__(self, call: EffectCall) -> Any:
        self.calls.append(call)
        outcome = self._outcomes.pop(0) if self._outcomes else "done"
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def ringing(call: Call) -> Any:
    """The sample domain with gates that make this call for every admission."""

    def decide(view: Any, command: Any, policy: Any, now: int) -> Any:
        if isinstance(command, Settled):
            return Decision((Greeted(f"{command.status}:{command.attempts}"),))
        return Decision((Admitted(command.visitor, now),), effects=(call,))

    return (replace(SAMPLE_GATE, decide=decide), *SAMPLE[1:])


async def statuses(w: World) -> list[tuple[str, int, str]]:
    return [(row.status, row.attempts, row.last_error) for row in await w.store.effects(EffectQuery())]


async def greetings(w: World) -> list[str]:
    _, segments = await w.store.history(GATE, 0, 100)
    return [segment.events.split('"')[7] for segment in segments if "Greeted" in segment.events]


async def test_a_command_to_another_stream_is_applied_exactly_once(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"tally": True, "cooldown_s": 0, "per_hour": 1000}) as w:
        await asyncio.gather(*(w.knock(f"v{n}", StreamId("acme", "gate", f"g{n % 7}")) for n in range(100)))
        await asyncio.gather(w.engine.tick(), w.other.tick())
        assert (await w.state(TALLY)).count == 100
        assert await w.store.effects(EffectQuery()) == []


async def test_a_tenants_own_pass_leaves_the_effects_of_others_alone(backend: Backend, tmp_path: Path) -> None:
    greet = Recorder()
    async with world(backend, tmp_path, policy={"tally": True, "greet": True}, executors={"handler:greet": greet}) as w:
        w.engine._queue.send_job = lambda *sent: None  # type: ignore[method-assign]  # it dies before it applies them
        for tenant in ("acme", "other", "third"):
            await w.knock("ann", StreamId(tenant, "gate", "front"))
        done = await w.other.tick(tenant="other")
        assert [call.id.tenant for call in greet.calls] == ["other"]
        assert (done.effects, done.sends) == ({"done": 1}, 1)
        left = await w.store.effects(EffectQuery(status="pending"))
        assert {row.id.tenant for row in left} == {"acme", "third"}
        assert (done.complete, done.next_due_at) == (True, (await w.store.next_due("alarm", ["gate"], tenant="other")))
        assert not (await w.other.tick(tenant="acme", limit=1)).complete, "there is more of this tenant"
        rest = await w.other.tick()
        assert rest.complete
        assert {call.id.tenant for call in greet.calls} == {"acme", "other", "third"}


async def test_a_send_left_by_a_dead_process_is_applied_by_another(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"tally": True}) as w:
        w.engine._queue.send_job = lambda *sent: None  # type: ignore[method-assign]  # it dies before it applies it
        await w.knock("ann")
        assert await w.state(TALLY) is None
        result = await w.other.tick()
        assert (result.sends, result.complete) == (1, True)
        assert (await w.state(TALLY)).count == 1


async def test_a_send_its_target_cannot_decide_is_a_dead_letter(backend: Backend, tmp_path: Path) -> None:
    def fails(*args: Any) -> Any:
        raise ZeroDivisionError("no")

    broken = (*SAMPLE[:2], replace(SAMPLE[2], decide=fails))
    async with world(backend, tmp_path, policy={"tally": True, "cooldown_s": 0}, deciders=broken) as w:
        await w.knock("ann")
        await w.engine.tick()
        [(status, _, error)] = await statuses(w)
        assert status == "dead"
        assert "acme/tally/all" in error
        assert "send_failed" in w.reported()


async def test_a_call_is_carried_out_and_its_end_comes_back(backend: Backend, tmp_path: Path) -> None:
    greet = Recorder({"said": "hello"})
    async with world(backend, tmp_path, policy={"greet": True}, executors={"handler:greet": greet}) as w:
        await w.knock("ann")
        assert (await w.engine.tick()).effects == {"done": 1}
        [call] = greet.calls
        assert (call.payload, call.attempt, call.id.handle) == ({"visitor": "ann"}, 1, "gate:front:1:0")
        assert await greetings(w) == ["done"]
        assert await statuses(w) == [("done", 1, "")]


async def test_a_failing_call_is_tried_again_later_under_the_same_id_until_it_works(
    backend: Backend, tmp_path: Path
) -> None:
    ring = Recorder(OSError("down"), OSError("down"), "up")
    gates = ringing(Call("handler:ring", attempts_max=5, report_to=GATE))
    async with world(backend, tmp_path, deciders=gates, executors={"handler:ring": ring}) as w:
        await w.knock("ann")
        assert (await w.engine.tick()).effects == {"retrying": 1}
        [(status, attempts, error)] = await statuses(w)
        assert (status, attempts) == ("pending", 1)
        assert "down" in error
        w.clock.advance(4.9)
        assert (await w.engine.tick()).effects == {}, "not before its time"
        w.clock.advance(1.2)
        assert (await w.engine.tick()).effects == {"retrying": 1}
        w.clock.advance(36)
        assert (await w.engine.tick()).effects == {"done": 1}
        assert len({call.id for call in ring.calls}) == 1
        assert [call.attempt for call in ring.calls] == [1, 2, 3]
        assert await greetings(w) == ["done:3"]


async def test_a_call_past_its_attempts_is_a_dead_letter_that_can_be_revived(backend: Backend, tmp_path: Path) -> None:
    ring = Recorder(OSError("one"), OSError("two"))
    gates = ringing(Call("handler:ring", attempts_max=2, report_to=GATE))
    async with world(backend, tmp_path, deciders=gates, executors={"handler:ring": ring}) as w:
        await w.knock("ann")
        await w.engine.tick()
        w.clock.advance(10)
        assert (await w.engine.tick()).effects == {"dead": 1}
        assert await greetings(w) == ["dead:2"]
        assert (await w.engine.backlog()).effects_dead == 1
        [dead] = await w.store.effects(EffectQuery(status="dead"))
        assert await w.store.revive_effect(dead.id)
        assert (await w.engine.tick()).effects == {"done": 1}


async def test_an_executor_may_say_that_trying_again_is_no_use(backend: Backend, tmp_path: Path) -> None:
    ring = Recorder(GiveUp("no such address"))
    gates = ringing(Call("handler:ring", attempts_max=8))
    async with world(backend, tmp_path, deciders=gates, executors={"handler:ring": ring}) as w:
        await w.knock("ann")
        assert (await w.engine.tick()).effects == {"dead": 1}


async def test_a_call_at_most_once_that_fails_is_not_repeated(backend: Backend, tmp_path: Path) -> None:
    greet = Recorder(OSError("down"))
    async with world(backend, tmp_path, policy={"greet": True}, executors={"handler:greet": greet}) as w:
        await w.knock("ann")
        assert (await w.engine.tick()).effects == {"failed": 1}
        w.clock.advance(10_000)
        assert (await w.engine.tick()).effects == {}
        assert len(greet.calls) == 1
        assert await greetings(w) == ["failed"]


async def test_a_call_at_most_once_whose_process_died_is_abandoned(backend: Backend, tmp_path: Path) -> None:
    greet = Recorder()
    async with world(backend, tmp_path, policy={"greet": True}, executors={"handler:greet": greet}) as w:
        await w.knock("ann")
        [lease] = await w.store.lease_calls(["handler:greet"], 10)  # and then its process is gone
        assert not lease.expired
        assert (await w.other.tick()).effects == {}
        w.clock.advance(60)
        assert (await w.other.tick()).effects == {"abandoned": 1}
        assert greet.calls == []
        assert await greetings(w) == ["abandoned"]


async def test_whoever_was_suspended_past_its_lease_changes_nothing(backend: Backend, tmp_path: Path) -> None:
    gates = ringing(Call("handler:ring", lease_s=10, report_to=GATE))
    started, resume = asyncio.Event(), asyncio.Event()

    async def slow(call: EffectCall) -> str:
        started.set()
        await resume.wait()
        return "late"

    async with world(backend, tmp_path, deciders=gates, executors={"handler:ring": slow}) as w:
        await w.knock("ann")
        suspended = asyncio.ensure_future(w.engine.tick())
        await started.wait()
        w.clock.advance(10)
        [lease] = await w.store.lease_calls(["handler:ring"], 10)
        assert lease.call.fence == 2
        resume.set()
        assert (await suspended).effects == {"fenced": 1}
        assert await greetings(w) == []


async def test_a_lease_that_could_not_be_renewed_is_renewed_again_and_its_loss_ends_the_work(
    backend: Backend, tmp_path: Path
) -> None:
    gates = ringing(Call("handler:ring", lease_s=1, report_to=GATE))
    raised = [RuntimeError("a mistake of the store"), Fenced("somebody else has it")]

    async def renew(effect: EffectId, fence: int) -> None:
        raise raised.pop(0)

    async def endless(call: EffectCall) -> None:
        await asyncio.Event().wait()

    async with world(backend, tmp_path, deciders=gates, executors={"handler:ring": endless}) as w:
        w.engine.store.renew_lease = renew  # type: ignore[method-assign]
        await w.knock("ann")
        async with asyncio.timeout(HANGS_S):
            assert (await w.engine.tick()).effects == {"fenced": 1}
        assert [report.what for report in w.reports] == ["renew_failed"]
        assert raised == []


async def test_calls_nobody_takes_are_reported_as_orphaned(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"greet": True}) as w:
        await w.knock("ann")
        assert (await w.engine.backlog()).orphaned == {}
        w.clock.advance(61)
        assert (await w.engine.backlog()).orphaned == {"handler:greet": 1}


def orphans(w: World) -> list[str]:
    return [report.name for report in w.reports if report.what == "calls_orphaned"]


async def test_calls_that_nobody_can_carry_out_are_reported_once(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"greet": True}) as w:
        await w.knock("ann")
        await w.engine.tick()
        w.clock.advance(61)
        for _ in range(3):
            await w.engine.tick()
            w.clock.advance(61)
        assert orphans(w) == ["handler:greet"]
        assert str(w.reports[-1].error).startswith(
            "1 call was not claimed by any process for a minute; start a process"
        )
        assert "(`betimes serve --app module:name`)" in str(w.reports[-1].error)
        await w.store.lease_calls(["handler:greet"], 10)
        await w.engine.tick()
        w.clock.advance(200)
        await w.engine.tick()
        assert orphans(w) == ["handler:greet"] * 2, "taken meanwhile, and left alone again"


async def test_a_running_engine_reports_calls_that_nobody_can_carry_out(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"greet": True}, settings=EngineSettings(orphans_every_s=0)) as w:
        await w.knock("ann")
        w.clock.advance(61)
        w.engine.start_workers()
        async with asyncio.timeout(HANGS_S):
            while not orphans(w):  # noqa: ASYNC110 — a report is a plain call
                await asyncio.sleep(0)


async def test_a_running_engine_carries_out_calls_by_itself(backend: Backend, tmp_path: Path) -> None:
    greet = Recorder()
    async with world(backend, tmp_path, policy={"greet": True}, executors={"handler:greet": greet}) as w:
        w.engine.start_workers()
        await w.knock("ann")
        await until(w, lambda gate: gate.greeted_count == 1)
        assert len(greet.calls) == 1


def test_retries_are_spread_and_bounded() -> None:
    pauses_s = EngineSettings().call_pauses_s
    pauses = [retry_pause(pauses_s, ("acme", "gate", f"g{n}", 1, 0), attempt=3) for n in range(100)]
    assert all(120 * SECOND <= pause < 144 * SECOND for pause in pauses)
    assert len(set(pauses)) > 90
    assert 2_700 * SECOND <= retry_pause(pauses_s, ("a",), attempt=60) < 3_240 * SECOND


async def test_an_executor_may_have_a_retry_policy_of_its_own(backend: Backend, tmp_path: Path) -> None:
    async def fail(_: EffectCall) -> None:
        raise RetryAfter(ConnectionError("not today"), (100.0,))

    gates = ringing(Call("handler:ring"))
    async with world(backend, tmp_path, deciders=gates, executors={"handler:ring": fail}) as w:
        await w.knock("ann")
        await w.engine.tick()
        [row] = await w.engine.store.effects(EffectQuery(tenant="acme"))
        assert row.next_attempt_at is not None
        assert 100 * SECOND <= row.next_attempt_at - w.clock() <= 120 * SECOND
        assert row.last_error == "ConnectionError('not today')"


async def test_the_end_of_a_call_is_told_even_if_a_wake_ahead_of_it_fails(backend: Backend, tmp_path: Path) -> None:
    failing = True

    def decide(view: Any, command: Any, policy: Any, now: int) -> Any:
        if failing and isinstance(command, Wake):
            raise ZeroDivisionError("not yet")
        return SAMPLE_GATE.decide(view, command, policy, now)

    gates, greet = (replace(SAMPLE_GATE, decide=decide), *SAMPLE[1:]), Recorder()
    executors = {"handler:greet": greet}
    async with world(backend, tmp_path, policy={"greet": True}, deciders=gates, executors=executors) as w:
        await w.knock("ann")
        await w.knock("bob")
        w.clock.advance(60)
        await w.engine.tick()
        assert (len(greet.calls), await greetings(w)) == (1, [])
        assert [row[0] for row in await statuses(w)] == ["done", "pending"], "the call ended, its news waits"
        failing = False
        w.clock.advance(2)
        await w.engine.tick()
        assert await greetings(w) == ["done", "done"]
        assert [row[0] for row in await statuses(w)] == ["done", "done"]


async def test_the_news_of_a_call_is_as_old_as_the_call(backend: Backend, tmp_path: Path) -> None:
    """Later sends of the stream wait for it, so a look at the oldest sends must come to it first."""

    def decide(view: Any, command: Any, policy: Any, now: int) -> Any:
        if isinstance(command, Wake):
            raise ZeroDivisionError("not yet")
        return SAMPLE_GATE.decide(view, command, policy, now)

    without_tally = (replace(SAMPLE_GATE, decide=decide), *(one for one in SAMPLE[1:] if one.kind != "tally"))
    policy, executors = {"greet": True, "tally": True}, {"handler:greet": Recorder()}
    async with world(backend, tmp_path, policy=policy, deciders=without_tally, executors=executors) as w:
        await w.knock("ann")
        w.clock.advance(60)
        await w.knock("bob")
        await w.knock("cid")
        w.clock.advance(60)
        await w.engine.tick()
        waiting = await w.engine.store.waiting_sends(9, created_before=w.clock() + 1)
        assert [send.id.place for send in waiting] == [1, NEWS_PLACE, 1, NEWS_PLACE]
        assert [send.id for send in waiting] == sorted(send.id for send in waiting)
