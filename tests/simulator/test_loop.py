"""The seeded loop: virtual time, order from the seed, processes that stop, and nothing left behind."""

import asyncio
from random import Random

import pytest

from betimes.testing.simulator.loop import Deadlock, Endless, Process, SeededLoop


def loop(seed: int = 1, **bounds: int) -> SeededLoop:
    return SeededLoop(Random(seed), **bounds)


def order(seed: int) -> list[int]:
    seen: list[int] = []

    async def one(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            seen.append(number)

    async def main() -> None:
        await asyncio.gather(*(one(number) for number in range(5)))

    loop(seed).run(main())
    return seen


def test_the_order_comes_from_the_seed() -> None:
    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(10)}) > 5


def test_time_passes_only_when_nothing_is_ready() -> None:
    async def main() -> list[float]:
        times = asyncio.get_running_loop().time
        await asyncio.sleep(3600)
        hour = times()
        for _ in range(100):
            await asyncio.sleep(0)
        return [hour, times()]

    assert loop().run(main()) == [3600, 3600]


def test_timers_fire_in_the_order_of_their_times() -> None:
    async def main() -> list[int]:
        rung: list[int] = []

        async def ring(after_s: int) -> None:
            await asyncio.sleep(after_s)
            rung.append(after_s)

        await asyncio.gather(*(ring(after_s) for after_s in (5, 1, 4, 2, 3)))
        return rung

    assert loop().run(main()) == [1, 2, 3, 4, 5]


def test_a_timeout_ends_what_takes_too_long() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert loop().run(main()) == 5


def test_waiting_for_ever_is_a_deadlock() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match="nothing is ready, no timer is set"):
        loop().run(main())


def test_going_round_in_circles_is_found_out() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110 — going round in circles is the point
            await asyncio.sleep(0)

    with pytest.raises(Endless, match="1000 callbacks"):
        loop(steps_max=1000).run(main())


def test_a_stopped_process_does_nothing_until_it_goes_on() -> None:
    seeded, process, beats = loop(), Process("one"), []

    async def beat() -> None:
        while True:
            await asyncio.sleep(1)
            beats.append(seeded.time())

    async def main() -> None:
        seeded.spawn(process, beat())
        await asyncio.sleep(2.5)
        seeded.stop_process(process)
        await asyncio.sleep(5)
        seeded.continue_process(process)
        await asyncio.sleep(2)

    seeded.run(main())
    assert beats == [1, 2, 7.5, 8.5]


def test_tasks_started_by_a_process_are_stopped_with_it() -> None:
    seeded, process, beats = loop(), Process("one"), []

    async def child() -> None:
        await asyncio.sleep(1)
        beats.append("child")

    async def parent() -> None:
        await asyncio.gather(asyncio.create_task(child()), child())

    async def main() -> None:
        seeded.spawn(process, parent())
        await asyncio.sleep(0.5)
        seeded.stop_process(process)
        await asyncio.sleep(5)
        assert beats == []

    seeded.run(main())


def test_what_a_killed_process_left_is_unwound_at_the_end() -> None:
    seeded, process, ended = loop(), Process("one"), []

    async def worker(event: asyncio.Event) -> None:
        try:
            await event.wait()
        finally:
            ended.append(seeded.time())

    async def main() -> None:
        event = asyncio.Event()
        seeded.spawn(process, worker(event))
        await asyncio.sleep(1)
        seeded.stop_process(process)
        event.set()
        await asyncio.sleep(1)
        assert ended == []

    seeded.run(main())
    assert ended == [2]


def test_there_are_no_threads() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="no threads"):
            await asyncio.to_thread(print)

    loop().run(main())
