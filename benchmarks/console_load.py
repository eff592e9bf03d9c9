"""A server under load, for whoever measures its console: `python -m benchmarks.console_load URL`.

It serves without keys, says where, and then does what it reads, a line at a time: `offer 2.5` triggers runs at 100,000
a minute for so many seconds, `flat 3000` so many as fast as it goes, `frame 3000` so many and then the frame of a pulse
that tells of them. It answers each line with what that took, `frame` with what the frame alone took.

What a viewer costs is a hundredth of what deciding costs beside it, and is lost in how much that differs from second to
second. So the loop counts it: a request has a context of its own, and what runs in one is timed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any, TypeVarTuple

import msgspec
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from benchmarks.domains.live import Spent, decide_triggers, offer_triggers
from betimes.app import Betimes
from betimes.catalogue import AREAS
from betimes.ledger.pulse import PulseFeed, PulseTail
from betimes.ledger.verdict_feed import FeedFilters
from tests.console.town import served

Given = TypeVarTuple("Given")
RUN_REQUEST = RequestResponseCycle.run_asgi.__qualname__
IS_REQUEST: ContextVar[bool] = ContextVar("IS_REQUEST", default=False)


class RequestClock(asyncio.SelectorEventLoop):
    """A loop that counts the processor's time of its thread in requests, and in whatever they start or schedule."""

    def __init__(self) -> None:
        super().__init__()
        self.requests_s = 0.0
        self.set_task_factory(self._make_task)

    def call_soon(
        self, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> asyncio.Handle:
        is_request = IS_REQUEST.get() if context is None else context.get(IS_REQUEST, False)
        if is_request:
            return super().call_soon(self._time, callback, *args, context=context)
        return super().call_soon(callback, *args, context=context)

    def _time(self, callback: Callable[[*Given], object], *args: *Given) -> None:
        begun_s = time.thread_time()
        callback(*args)
        self.requests_s += time.thread_time() - begun_s

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **how: Any) -> asyncio.Task[Any]:
        if getattr(coro, "__qualname__", "") == RUN_REQUEST:
            context = how.setdefault("context", copy_context())
            context.run(IS_REQUEST.set, True)
        return asyncio.Task(coro, loop=loop, **how)


async def main(url: str) -> None:
    loop, numbers = asyncio.get_running_loop(), count(1)
    async with Betimes(url) as bt, served(bt) as found:
        await decide_triggers(bt, numbers, 500)
        print(found.address, flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(msgspec.json.encode(await _obey(bt, numbers, line)).decode(), flush=True)


async def _obey(bt: Betimes, numbers: count[int], line: str) -> Spent:
    clock = asyncio.get_running_loop()
    assert isinstance(clock, RequestClock)
    before_s = clock.requests_s
    spent = await _carry_out(bt, numbers, *line.split())
    return spent._replace(viewers_s=clock.requests_s - before_s)


async def _carry_out(bt: Betimes, numbers: count[int], verb: str, amount: str) -> Spent:
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
    with asyncio.Runner(loop_factory=RequestClock) as runner:
        runner.run(main(sys.argv[1]))
