"""What watching costs: verdicts with twenty open pulses, and with the tally's projection, against without.

In alternating rounds: as fast as it goes, by the processor's time of each verdict; and at 100,000 verdicts a minute, by
how many were made. With workers, as a server has them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from itertools import count
from statistics import median
from typing import Any, NamedTuple

from benchmarks.places import PLACES
from betimes.app import Betimes
from betimes.catalogue import AREAS
from betimes.http.process import Streams
from betimes.ledger.live_routes import stream_frames
from betimes.ledger.pulse import PulseFeed, PulseTail
from betimes.ledger.verdict_feed import FeedFilters

Row = dict[str, Any]
READERS = 20
ROUNDS = 6
PER_S = 100_000 / 60
OFFERED_S = 6.0
SUBMITTERS = 64


class Spent(NamedTuple):
    """What a number of verdicts took."""

    verdicts: int
    wall_s: float
    cpu_s: float
    viewers_s: float = 0.0
    """Of the processor's time, what answered viewers, where that is measured."""


class Watched:
    """Readers that were open, and what became of them."""

    def __init__(self) -> None:
        self.ended = self.frames = 0

    @asynccontextmanager
    async def watching(self, bt: Betimes) -> AsyncIterator[None]:
        streams, tail = Streams(), PulseTail(bt.engine)
        readers = [asyncio.create_task(_watch(bt, tail, streams)) for _ in range(READERS)]
        await asyncio.sleep(0.1)
        yield
        self.ended += sum(reader.done() for reader in readers)
        streams.close()
        self.frames += sum([await reader for reader in readers])


async def live(kind: str, scale: float) -> list[Row]:
    """Verdicts with twenty open pulses against without, in alternating rounds."""
    watched = Watched()
    rows = await _compare(kind, scale, watched.watching)
    return [{**row, "readers": READERS, "readers_ended": watched.ended, "frames": watched.frames} for row in rows]


async def tally(kind: str, scale: float) -> list[Row]:
    """Verdicts with the tally's projection beside them against without, in alternating rounds."""

    @asynccontextmanager
    async def counting(bt: Betimes) -> AsyncIterator[None]:
        projection = bt.tally_projection()
        await projection.catch_up(10**9)
        task = asyncio.create_task(projection.run())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    return await _compare(kind, scale, counting, workers=False)


async def _compare(
    kind: str, scale: float, beside: Callable[[Betimes], AbstractAsyncContextManager[None]], *, workers: bool = True
) -> list[Row]:
    total, offered_s, numbers = int(3_000 * scale), OFFERED_S * scale, count(1)
    found: dict[tuple[str, bool], list[Spent]] = {}
    async with PLACES[kind](0) as place:
        bt = Betimes("memory://", workers=False)
        bt._store = place.store()
        async with bt:
            if workers:
                bt.start_workers()
            await decide_triggers(bt, numbers, 500)
            for number in range(ROUNDS):
                for is_beside in (number % 2 == 0, number % 2 == 1):
                    async with beside(bt) if is_beside else nullcontext():
                        found.setdefault(("flat out", is_beside), []).append(await decide_triggers(bt, numbers, total))
                        found.setdefault(("offered", is_beside), []).append(
                            await offer_triggers(bt, numbers, offered_s)
                        )
    return [_row(kind, load, found[load, False], found[load, True]) for load in ("flat out", "offered")]


def _row(kind: str, load: str, alone: list[Spent], beside: list[Spent]) -> Row:
    """Compare medians; ratios are of rounds that stood next to each other."""
    return {
        "store": kind,
        "load": load,
        "alone_per_s": median(one.verdicts / one.wall_s for one in alone),
        "beside_per_s": median(one.verdicts / one.wall_s for one in beside),
        "rate_ratio": median(
            (b.verdicts / b.wall_s) / (a.verdicts / a.wall_s) for a, b in zip(alone, beside, strict=True)
        ),
        "alone_cpu_us": median(one.cpu_s / one.verdicts * 1e6 for one in alone),
        "beside_cpu_us": median(one.cpu_s / one.verdicts * 1e6 for one in beside),
        "cpu_ratio": median(
            (a.cpu_s / a.verdicts) / (b.cpu_s / b.verdicts) for a, b in zip(alone, beside, strict=True)
        ),
    }


async def _watch(bt: Betimes, tail: PulseTail, streams: Streams) -> int:
    feed = PulseFeed(tail, "default", frozenset(AREAS), FeedFilters(), 20)
    await feed.start(None)
    frames = 0

    async def always() -> bool:
        return True

    with suppress(asyncio.CancelledError):
        async for raw in stream_frames(feed, bt.engine, streams, always):
            frames += raw.startswith(b"id:")
    return frames


async def decide_triggers(bt: Betimes, numbers: Any, total: int) -> Spent:
    """Trigger runs as fast as it goes, 64 at a time."""

    async def submit() -> None:
        for _ in range(total // SUBMITTERS + 1):
            await _trigger(bt, next(numbers))

    begun_s, started = time.process_time(), time.perf_counter()
    await asyncio.gather(*(submit() for _ in range(SUBMITTERS)))
    return Spent(SUBMITTERS * (total // SUBMITTERS + 1), time.perf_counter() - started, time.process_time() - begun_s)


async def offer_triggers(bt: Betimes, numbers: Any, lasts_s: float) -> Spent:
    """Trigger runs at 100,000 a minute for some seconds; who is late catches up at once, up to 512 under way."""
    room, tasks = asyncio.Semaphore(512), set[asyncio.Task[None]]()
    begun_s, started, sent = time.process_time(), time.perf_counter(), 0

    async def submit() -> None:
        async with room:
            await _trigger(bt, next(numbers))

    while (elapsed := time.perf_counter() - started) < lasts_s:
        while sent < elapsed * PER_S and len(tasks) < 1_024:
            tasks.add(task := asyncio.create_task(submit()))
            task.add_done_callback(tasks.discard)
            sent += 1
        await asyncio.sleep(0.01)
    await asyncio.gather(*tasks)
    return Spent(sent, time.perf_counter() - started, time.process_time() - begun_s)


async def _trigger(bt: Betimes, number: int) -> None:
    await bt.runs.trigger(
        {"account_id": f"a-{number}", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": f"k-{number}"}
    )


SUITES = {"live": live, "tally": tally}
