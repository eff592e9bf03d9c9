"""Going from page to page for a long time: nothing listens, ticks or is kept that a page before has begun."""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any, NamedTuple

import pytest
from playwright.async_api import CDPSession

from tests.console.conftest import Visiting
from tests.console.town import Served
from tests.console.visits import Visit

pytestmark = pytest.mark.browser

PATHS = ("", "/next", "/ledger", "/schedules", "/runs", "/effects", "/lab", "/try", "/health", "/admin")
COUNT_TIMERS = """
window.ticking = new Set();
const [begin, end] = [window.setInterval, window.clearInterval];
window.setInterval = (...asked) => { const timer = begin(...asked); ticking.add(timer); return timer; };
window.clearInterval = (timer) => { ticking.delete(timer); end(timer); };
"""
COUNT_LISTENERS = """async () => {
  const live = document.querySelector("script[type=module]").src.replace("main.js", "live.js");
  return (await import(live)).listenerCount();
}"""


class Kept(NamedTuple):
    """What a browser holds on to."""

    pulse_listeners: int
    timers: int
    nodes: int
    listeners: int


async def count_kept(visit: Visit, devtools: CDPSession) -> Kept:
    await devtools.send("HeapProfiler.collectGarbage")
    found: Any = await devtools.send("Memory.getDOMCounters")
    timers = await visit.page.evaluate("ticking.size")
    return Kept(await visit.page.evaluate(COUNT_LISTENERS), timers, found["nodes"], found["jsEventListeners"])


async def test_fifty_pages_later_nothing_more_is_kept(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address, own=True) as visit:
        await visit.page.add_init_script(COUNT_TIMERS)
        page = await visit.open("/console")
        devtools = await page.context.new_cdp_session(page)

        async def walk(pages: int) -> Kept:
            for path in (*islice(cycle(PATHS), pages), "/ledger"):
                await visit.follow(f"/console{path}")
            return await count_kept(visit, devtools)

        first, last = await walk(len(PATHS)), await walk(50)
        assert (last.pulse_listeners, last.timers) == (first.pulse_listeners, first.timers)
        assert last.nodes <= 1.5 * first.nodes
        assert last.listeners <= 1.5 * first.listeners
