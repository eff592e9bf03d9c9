"""Timing: the same submitters through the engine and through the loop, and the few numbers taken from them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from statistics import median
from typing import NamedTuple

from benchmarks.loops import Loop
from benchmarks.places import TENANT, Place
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.settings import EngineSettings
from betimes.testing.sample import SAMPLE, SECTIONS, Knock

GATES = 10_000
STRIDE = 7_919
"""Prime, so that gates come in an order that no page of a database keeps together."""
OPEN_GATES = {"gates": {"cooldown_s": 0, "per_hour": 100_000}}
_names = count(1)


class Measured(NamedTuple):
    """Decisions a second, and how long single answers took."""

    per_s: float
    p50_ms: float
    p99_ms: float


def knocks(prefix: str, gates: int, name: str = "g", first: int = 0) -> Iterator[tuple[str, str]]:
    """Endless (gate, key) pairs over so many gates of this name from the first on, each key new."""
    return ((f"{name}{first + n * STRIDE % gates}", f"{prefix}-{n}") for n in count())


def engine_on(place: Place, batch_max: int = 256) -> Engine:
    name = f"bench{next(_names)}"
    settings = EngineSettings(batch_max=batch_max)
    return Engine(place.store(), SAMPLE, name=name, sections=SECTIONS, policy=OPEN_GATES, settings=settings)


async def through_engine(engine: Engine, source: Iterator[tuple[str, str]], submitters: int, total: int) -> Measured:
    """So many tasks, each submitting one command after the other."""

    async def submit(gate: str, key: str) -> None:
        await engine.submit(Submission(stream=StreamId(TENANT, "gate", gate), command=Knock("visitor"), key=key))

    return await submitting(submit, source, submitters, total)


async def through_loop(loop: Loop, source: Iterator[tuple[str, str]], submitters: int, total: int) -> Measured:
    """The same tasks, served by the least that can serve them: a list of what waits, one transaction for all of it."""
    waiting: list[tuple[str, str]] = []
    answers: list[asyncio.Future[None]] = []
    asked = asyncio.Event()

    async def submit(gate: str, key: str) -> None:
        waiting.append((gate, key))
        answers.append(asyncio.get_running_loop().create_future())
        asked.set()
        await answers[-1]

    async def serve() -> None:
        while True:
            await asked.wait()
            asked.clear()
            batch, told = waiting.copy(), answers.copy()
            waiting.clear()
            answers.clear()
            await loop.run(batch)
            for answer in told:
                answer.set_result(None)

    serving = asyncio.create_task(serve())
    try:
        return await submitting(submit, source, submitters, total)
    finally:
        serving.cancel()


async def submitting(
    submit: Callable[[str, str], Awaitable[None]], source: Iterator[tuple[str, str]], submitters: int, total: int
) -> Measured:
    waits: list[float] = []

    async def submitter(share: int) -> None:
        for _ in range(share):
            gate, key = next(source)
            started = time.perf_counter()
            await submit(gate, key)
            waits.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(submitter(total // submitters) for _ in range(submitters)))
    return measured(len(waits), time.perf_counter() - started, waits)


def measured(done: int, elapsed_s: float, waits: list[float]) -> Measured:
    ordered = sorted(waits)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return Measured(done / elapsed_s, median(ordered) * 1e3, p99 * 1e3)


def middle(runs: list[Measured]) -> Measured:
    """The run with the median rate."""
    return sorted(runs)[len(runs) // 2]


def paired_ratio(left: list[Measured], right: list[Measured], of: Callable[[Measured], float]) -> float:
    """The median of the ratios of runs that stood next to each other."""
    return median(of(a) / of(b) for a, b in zip(left, right, strict=True))
