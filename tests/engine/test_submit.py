"""Submitting commands: order, keys, failures, bounds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.core.errors import Fault, Invalid, KeyConflict, Overloaded, Refused, TooLarge, UnknownKind
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.jobs import Submission
from betimes.engine.settings import EngineSettings
from betimes.engine.store import LedgerQuery
from betimes.testing.sample import Knock, Open, Shut
from tests.engine.worlds import GATE, world
from tests.stores.backends import Backend


async def test_a_command_is_answered_with_its_verdict_and_segment(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        first = await w.knock("ann")
        assert first.verdict
        assert (first.verdict.answer, first.verdict.reasons, first.segment_id) == ("NOW", ("WELCOME",), "gate:front:1")
        second = await w.knock("bob")
        assert second.verdict
        assert (second.verdict.answer, second.verdict.reasons) == ("LATER", ("COOLDOWN",))
        assert second.verdict.until == w.clock() + 60_000_000


async def test_commands_of_one_stream_keep_their_order(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 0, "per_hour": 1000}) as w:
        answers = await asyncio.gather(*(w.knock(f"v{n}") for n in range(300)))
        assert [answer.version for answer in answers] == list(range(1, 301))
        segments = await w.store.ledger(LedgerQuery(kind="gate", limit=1000))
        assert [segment.command for segment in segments] == [f'{{"type":"Knock","visitor":"v{n}"}}' for n in range(300)]


async def test_commands_submitted_together_are_answered_each_in_its_place(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 0, "per_hour": 1000}) as w:
        asked = [Submission(stream=GATE, command=Knock(f"v{n}"), key=f"k{n % 4}") for n in range(3)]
        wrong = Submission(stream=StreamId("default", "nothing", "x"), command=Knock("v"))
        again = Submission(stream=GATE, command=Knock("v0"), key="k0")
        other = Submission(stream=GATE, command=Knock("v9"), key="k1")
        first, second, third, unknown, repeated, conflict = await w.engine.submit_many([*asked, wrong, again, other])
        assert [getattr(one, "version", None) for one in (first, second, third)] == [1, 2, 3]
        assert isinstance(unknown, UnknownKind)
        assert isinstance(repeated, Recorded)
        assert (repeated.version, repeated.replayed) == (1, True)
        assert isinstance(conflict, KeyConflict)
        assert await w.engine.submit_many([]) == []


async def test_commands_submitted_together_past_the_bound_are_refused_one_by_one(
    backend: Backend, tmp_path: Path
) -> None:
    settings = EngineSettings(queue_max=5)
    async with world(backend, tmp_path, policy={"cooldown_s": 0, "per_hour": 1000}, settings=settings) as w:
        answers = await w.engine.submit_many([Submission(stream=GATE, command=Knock(f"v{n}")) for n in range(8)])
        assert [isinstance(answer, Overloaded) for answer in answers] == [False] * 5 + [True] * 3


async def test_two_processes_never_admit_twice_for_one_gate(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"waiting_max": 1000}) as w:
        calls = [
            engine.submit(Submission(stream=GATE, command=Knock(f"{n}"), key=f"k{n}"))
            for n in range(100)
            for engine in (w.engine, w.other)
        ]
        answers = await asyncio.gather(*calls)
        admitted = {answer.version for answer in answers if answer.verdict and answer.verdict.answer == "NOW"}
        assert admitted == {1}
        assert (await w.state()).admitted_count == 1
        assert len({answer.version for answer in answers}) == 100, "each key led to one segment, for both processes"


async def test_the_same_key_again_returns_the_recorded_outcome(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        first = await w.knock("ann", key="k")
        w.clock.advance(3600)
        again = await w.knock("ann", key="k")
        assert (again.verdict, again.version, again.at) == (first.verdict, first.version, first.at)
        assert (first.replayed, again.replayed) == (False, True)
        assert (await w.state()).admitted_count == 1


async def test_a_key_used_twice_in_one_batch_is_decided_once(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        answers = await asyncio.gather(*(w.knock("ann", key="k") for _ in range(5)))
        assert {answer.version for answer in answers} == {1}
        assert [answer.replayed for answer in answers] == [False, True, True, True, True]


async def test_a_key_used_for_another_request_is_a_conflict(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await w.knock("ann", key="k")
        with pytest.raises(KeyConflict, match="gate:front:1"):
            await w.knock("bob", key="k")
        with pytest.raises(KeyConflict):
            await w.knock("ann", StreamId("acme", "gate", "back"), key="k")
        await w.knock("ann", StreamId("other", "gate", "back"), key="k")


async def test_a_key_is_free_again_after_its_time(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await w.knock("ann", key="k")
        w.clock.advance(7 * 86_400 - 1)
        assert (await w.knock("ann", key="k")).replayed
        w.clock.advance(1)
        again = await w.knock("ann", key="k")
        assert (again.replayed, again.version) == (False, 2)


async def test_a_key_is_kept_beyond_the_last_promise(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 86_400}) as w:
        await w.knock("ann")
        await w.knock("bob", key="k")
        w.clock.advance(7 * 86_400 + 1)
        assert (await w.knock("bob", key="k")).replayed
        w.clock.advance(86_400)
        assert not (await w.knock("bob", key="k")).replayed


async def test_a_refused_command_writes_nothing_and_leaves_its_key_free(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        with pytest.raises(Refused, match="open already") as refusal:
            await w.submit(Open(), key="k")
        assert refusal.value.reason == "NOT_SHUT"
        assert await w.state() is None
        await w.submit(Shut())
        assert (await w.submit(Open(), key="k")).version == 2


async def test_one_failure_leaves_its_neighbours_alone(backend: Backend, tmp_path: Path) -> None:
    settings = EngineSettings(command_chars_max=1000)
    async with world(backend, tmp_path, policy={"cooldown_s": 0}, settings=settings) as w:
        answers = await asyncio.gather(
            w.knock("ann"), w.knock("x" * 2000), w.submit(Open()), w.knock("bob"), return_exceptions=True
        )
        kinds = [type(answer) for answer in answers]
        assert kinds[1:3] == [TooLarge, Refused]
        assert (await w.state()).admitted_count == 2
        assert "command to acme/gate/front is 2,0" in str(answers[1])


async def test_a_command_that_cannot_be_encoded_is_a_named_fault(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        with pytest.raises(Fault, match="acme/gate/front"):
            await w.knock(object())  # type: ignore[arg-type]
        assert await w.state() is None


async def test_unknown_kinds_and_bad_ids_are_refused_by_name(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        with pytest.raises(UnknownKind, match=r"'window'.*gate, quota, tally, tenant"):
            await w.knock("ann", StreamId("acme", "window", "w"))
        with pytest.raises(Invalid, match="'no spaces please' is not a valid id"):
            await w.knock("ann", StreamId("acme", "gate", "no spaces please"))


async def test_a_full_queue_is_overloaded_and_drains(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, settings=EngineSettings(queue_max=3)) as w:
        answers = await asyncio.gather(*(w.knock(f"v{n}") for n in range(5)), return_exceptions=True)
        assert [type(answer).__name__ for answer in answers] == ["Recorded"] * 3 + ["Overloaded"] * 2
        assert (await w.knock("later")).version == 4


async def test_closing_finishes_what_was_accepted(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        accepted = [asyncio.ensure_future(w.knock(f"v{n}")) for n in range(20)]
        await asyncio.sleep(0)
        await w.engine.close()
        assert [answer.version for answer in await asyncio.gather(*accepted)] == list(range(1, 21))
        with pytest.raises(Overloaded, match="not open"):
            await w.knock("late")
        await w.engine.open()
        assert (await w.knock("back again")).version == 21


async def test_time_never_goes_back_within_a_stream(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 0}) as w:
        first = await w.knock("ann")
        w.clock._now -= 5_000_000
        assert (await w.knock("bob")).at == first.at


async def test_a_turn_over_two_streams_commits_both_under_one_turn(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"tenant_per_hour": 2, "cooldown_s": 0}) as w:
        gates = [StreamId("acme", "gate", name) for name in "abc"]
        answers = await asyncio.gather(*(w.knock("ann", gate) for gate in gates))
        assert [answer.verdict and answer.verdict.reasons for answer in answers] == [
            ("WELCOME",),
            ("WELCOME",),
            ("TENANT_CAP",),
        ]
        segments = await w.store.ledger(LedgerQuery(tenant="acme"))
        turns = [(segment.stream.kind, segment.turn) for segment in segments]
        assert [kind for kind, _ in turns] == ["gate", "quota", "gate", "quota", "gate"]
        assert turns[0][1] == turns[1][1] != turns[2][1] == turns[3][1]
        assert segments[1].command is None
