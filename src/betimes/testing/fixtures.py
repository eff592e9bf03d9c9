"""Fixtures for users' tests: betimes in memory, under virtual time.

    pytest_plugins = ["betimes.testing.fixtures"]      # in the conftest.py at the top

    def test_ann_hears_it_in_the_morning(blocking_betimes):
        blocking_betimes.notifications.send({…})
        blocking_betimes.advance(by_s=12 * 3600)

Time stands still until a test moves it; every alarm on the way rings in order, so a month of schedules takes a moment.
Nothing is shared between tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from betimes.app.betimes import Betimes
from betimes.app.blocking_betimes import BlockingBetimes
from betimes.engine.virtual_clock import VirtualClock

Make = Callable[..., BlockingBetimes]


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock that stands at 2026-01-05T09:00:00Z, a Monday, until it is moved."""
    return VirtualClock()


@pytest.fixture
def betimes_app(virtual_clock: VirtualClock) -> Betimes:
    """A `Betimes` in memory, not yet open: declare handlers on it, then `async with betimes_app as bt`."""
    return Betimes("memory://", clock=virtual_clock)


@pytest.fixture
def blocking_betimes(virtual_clock: VirtualClock) -> Iterator[BlockingBetimes]:
    """An open `BlockingBetimes` in memory, for tests that do not await."""
    with BlockingBetimes("memory://", clock=virtual_clock) as bt:
        yield bt


@pytest.fixture
def make_betimes(virtual_clock: VirtualClock) -> Iterator[Make]:
    """Makes open ones: `make_betimes(policy={…})`; functions given as `declare` are called with it before it opens."""
    with ExitStack() as stack:

        def make(*declare: Callable[[BlockingBetimes], Any], **settings: Any) -> BlockingBetimes:
            bt = BlockingBetimes("memory://", clock=virtual_clock, **settings)
            for function in declare:
                function(bt)
            return stack.enter_context(bt)

        yield make
