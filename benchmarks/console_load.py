"""A server under load, for whoever measures its console: `python -m benchmarks.console_load URL`.

It serves without keys, says where, and then does what it reads, a line at a time: `offer 2.5` triggers runs at 100,000
a minute for so many seconds, `flat 3000` so many as fast as it goes, `frame 3000` so many and then the frame of a pulse
that tells of them. It answers each line with what that took, `frame` with what the frame alone took.
"""

from __future__ import annotations

import asyncio
import sys
import time
from itertools import count

import msgspec

from benchmarks.domains.live import Spent, decide_triggers, offer_triggers
from betimes.app import Betimes
from betimes.catalogue import AREAS
from betimes.ledger.pulse import PulseFeed, PulseTail
from betimes.ledger.verdict_feed import FeedFilters
from tests.console.town import served


async def main(url: str) -> None:
    loop, numbers = asyncio.get_running_loop(), count(1)
    async with Betimes(url) as bt, served(bt) as found:
        await decide_triggers(bt, numbers, 500)
        print(found.address, flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(msgspec.json.encode(await _obey(bt, numbers, line)).decode(), flush=True)


async def _obey(bt: Betimes, numbers: count[int], line: str) -> Spent:
    verb, amount = line.split()
    if verb == "offer":
        return await offer_triggers(bt, numbers, float(amount))
    if verb == "frame":
        return await _make_frame(bt, numbers, int(amount))
    return await decide_triggers(bt, numbers, int(amount))


async def _make_frame(bt: Betimes, numbers: count[int], total: int) -> Spent:
    """Count what was decided and make its frame, as the first reader of a process has it done every second."""
    # A tail of its own, which begins now: one that nobody read meanwhile would count what came before, too.
    feed = PulseFeed(PulseTail(bt.engine), "default", frozenset(AREAS), FeedFilters(), 20)
    await feed.start(None)
    decided = await decide_triggers(bt, numbers, total)
    # Until the beat is due nothing else is done, so the processor's time after it is the frame's.
    await asyncio.sleep(feed.rests_s)
    begun_s, started = time.process_time(), time.perf_counter()
    assert await feed.read() is not None
    return Spent(decided.verdicts, time.perf_counter() - started, time.process_time() - begun_s)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
