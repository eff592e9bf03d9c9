"""Tests of pages run in the thread of the browser, whose loop they share with the servers they visit."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from betimes.app.routes import ROUTES
from betimes.http.process import Process
from tests.console.town import Served, populated, unpopulated
from tests.console.visits import LoopThread, Visit, described_routes, entered, open_browser, visit
from tests.http.browser import CHROMIUM, WHY_SKIPPED


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test of a page in the browser's loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or "loop" not in pyfuncitem.funcargs:
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    loop = pyfuncitem.funcargs["loop"]
    assert isinstance(loop, LoopThread)
    loop.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


@pytest.fixture(scope="session")
def loop() -> Iterator[LoopThread]:
    found = LoopThread()
    yield found
    found.stop()


@pytest.fixture(scope="session")
def chromium(loop: LoopThread) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(WHY_SKIPPED)
    with entered(loop, open_browser()) as found:
        yield found


@pytest.fixture(scope="session")
def described() -> list[tuple[str, re.Pattern[str]]]:
    import msgspec

    return described_routes(msgspec.json.decode(Process(ROUTES).description))


@pytest.fixture(scope="session")
def town(loop: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("town")
    with entered(loop, populated(folder)) as found:
        yield found


@pytest.fixture(scope="session")
def nothing(loop: LoopThread) -> Iterator[Served]:
    with entered(loop, unpopulated()) as found:
        yield found


Visiting = Callable[..., AbstractAsyncContextManager[Visit]]


@pytest.fixture
def visiting(chromium: Browser, described: list[tuple[str, re.Pattern[str]]]) -> Visiting:
    """Open a visit to an address: `async with visiting(town.address) as visit: …`."""
    return partial(_visit, chromium, described)


def _visit(browser: Browser, described: Any, address: str, **how: Any) -> AbstractAsyncContextManager[Visit]:
    return visit(browser, address, described, **how)
