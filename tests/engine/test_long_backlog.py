"""A long backlog: longer passes over alarms, and commands that wait neither for those nor for the ends of calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import count

import pytest

from betimes.core.streams import EffectId, StreamId
from betimes.engine import commit_queue
from betimes.engine.alarms import _wake
from betimes.engine.engine import Engine
from betimes.engine.jobs import Ended, Job, Submission
from betimes.engine.pass_queue import DuePass
from betimes.engine.reports import Written
from betimes.engine.settings import EngineSettings
from betimes.engine.transactions import DueRequest, longest_pass
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryStore
from betimes.testing.sample import SAMPLE, SECTIONS, Knock
from tests.patience import HANGS_S

BATCH = 16
GATES = [StreamId("acme", "gate", f"g{number:03}") for number in range(300)]


class Passes:
    """An engine with so many alarms due, and how many of them each commit rang."""

    def __init__(self, batch_max: int = BATCH) -> None:
        self.clock = VirtualClock()
        self.rung: list[int] = []
        settings = EngineSettings(batch_max=batch_max)
        store = MemoryStore(self.clock)
        self.engine = Engine(
            store, SAMPLE, name="one", sections=SECTIONS, settings=settings, observe=self._note, policy={"gates": {}}
        )

    def _note(self, written: Sequence[Written]) -> None:
        if wakes := sum(segment.command == '{"type":"Wake"}' for segment, _, _ in written):
            self.rung.append(wakes)

    async def knock(self, visitor: str, gates: Sequence[StreamId]) -> None:
        await self.engine.submit_many([Submission(stream=gate, command=Knock(visitor)) for gate in gates])

    async def make_due(self) -> None:
        for visitor in ("ann", "bob"):
            await self.knock(visitor, GATES)
        self.clock.advance(60)

    async def wait_until_rung(self) -> None:
        async with asyncio.timeout(HANGS_S):
            while sum(self.rung) < len(GATES):  # noqa: ASYNC110 — told by what the engine did
                await asyncio.sleep(0)


async def test_a_long_backlog_is_rung_in_longer_and_longer_passes() -> None:
    passes = Passes()
    async with passes.engine:
        await passes.make_due()
        passes.engine.start_workers()
        await passes.wait_until_rung()
    assert passes.rung == [16, 16, 16, 32, 32, 32, 64, 64, 28]


async def test_passes_stay_short_while_somebody_waits_for_commands() -> None:
    passes, names = Passes(), count()
    async with passes.engine:
        await passes.make_due()
        passes.engine.start_workers()
        async with asyncio.timeout(HANGS_S):
            while sum(passes.rung) < len(GATES):
                await passes.knock("cid", [StreamId("acme", "gate", f"other{next(names)}")])
    assert max(passes.rung) == BATCH


@pytest.mark.parametrize("ends_count", [1, 4, 10 * BATCH])
async def test_a_command_waits_for_no_more_than_a_batch_of_ends(ends_count: int) -> None:
    passes = Passes()
    async with passes.engine:
        queue = passes.engine._queue
        for number in range(ends_count):
            queue.put(Job(Submission(stream=GATES[number % 9], command=Knock("ann")), ended=_ended(number)))
        commands = [Job(Submission(stream=GATES[-1], command=Knock("ann"))) for _ in range(2 * BATCH)]
        for job in commands:
            queue.put(job)
        batch = queue._next_batch()
        ends = [job for job in batch if job.ended]
        assert (len(batch), len(ends)) == (BATCH, min(ends_count, BATCH // 4))
        assert [job for job in batch if not job.ended] == commands[: BATCH - len(ends)]
        assert queue.waiting.size == 2 * BATCH - (BATCH - len(ends)), "ends are not commands that wait"


async def test_ends_of_one_tenant_fill_the_batch_beside_those_of_another() -> None:
    passes = Passes()
    async with passes.engine:
        queue = passes.engine._queue
        for number in range(10 * BATCH):
            stream = StreamId("other", "gate", "g") if number == 0 else GATES[number % 9]
            queue.put(Job(Submission(stream=stream, command=Knock("ann")), ended=_ended(number)))
        batches = [queue._next_batch() for _ in range(10)]
        assert [len(batch) for batch in batches] == [BATCH] * 10
        assert any(job.tenant == "other" for job in batches[0])
        assert queue.count == 0


@pytest.mark.parametrize("waits", ["an alarm", "a call"])
async def test_ends_have_only_their_part_while_alarms_or_calls_wait(
    waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = Passes()
    async with passes.engine:
        queue = passes.engine._queue
        for number in range(3 * BATCH):
            queue.put(Job(Submission(stream=GATES[number % 9], command=Knock("ann")), ended=_ended(number)))
        if waits == "an alarm":
            queue._passes.append(DuePass(DueRequest(by="alarm", kinds=("gate",), limit=1, make=_wake)))
        else:
            queue.leaves_calls = True
        assert len(queue._next_batch()) == BATCH // 4
        monkeypatch.setattr(commit_queue, "ENDS_WAIT_MAX", queue.count)
        assert len(queue._next_batch()) == BATCH, "their leases must not run out"
        queue.leaves_calls = False
        queue._passes.clear()
        monkeypatch.undo()
        assert len(queue._next_batch()) == BATCH


async def test_neither_commands_nor_ends_wait_for_ever_in_the_smallest_batches() -> None:
    passes = Passes(batch_max=1)
    async with passes.engine:
        queue = passes.engine._queue
        for number in range(3):
            queue.put(Job(Submission(stream=GATES[0], command=Knock("ann")), ended=_ended(number)))
            queue.put(Job(Submission(stream=GATES[1], command=Knock("ann"))))
        assert [[job.ended is not None for job in queue._next_batch()] for _ in range(3)] == [[True, False]] * 3


async def test_the_pass_after_a_command_that_came_is_short_again() -> None:
    passes = Passes()
    async with passes.engine:
        await passes.make_due()
        queue, ring, limits = passes.engine._queue, passes.engine._alarms.ring, list[int]()

        async def knock_between(limit: int) -> Counter[str]:
            limits.append(limit)
            rung = await ring(limit)
            if limit == 2 * BATCH and not queue.has_callers:
                answer = asyncio.get_running_loop().create_future()
                queue.put(Job(Submission(stream=StreamId("acme", "gate", "late"), command=Knock("cid")), answer=answer))
            return rung

        passes.engine._alarms.ring = knock_between  # type: ignore[method-assign, assignment]
        passes.engine.start_workers()
        await passes.wait_until_rung()
    assert limits[:5] == [BATCH, BATCH, BATCH, 2 * BATCH, BATCH]


def test_a_pass_is_a_batch_or_has_a_thousand_streams_at_most() -> None:
    assert [longest_pass(batch_max) for batch_max in (1, 256, 500, 4_096)] == [4, 1_024, 1_024, 4_096]


def _ended(number: int) -> Ended:
    return Ended(EffectId(*GATES[0], 1, number), 1, "done")
