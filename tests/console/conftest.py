"""Tests of pages run in the thread of the browser, whose loop they share with the servers they visit."""

from __future__ import annotations

import inspect
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from betimes.app.routes import ROUTES
from betimes.http.process import Process
from tests.console.town import DATABASE, Served, record, reopened, unpopulated
from tests.console.visits import LoopThread, Visit, Windows, described_routes, entered, open_browser, visit
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
def recorded(loop: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of a town, recorded by the first worker that needs it."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "recorded"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not (folder / DATABASE).exists():
            loop.run(record(folder))
    return folder / DATABASE


@pytest.fixture(scope="session")
def town(loop: LoopThread, recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    copied = Path(shutil.copy(recorded, tmp_path_factory.mktemp("town")))
    with entered(loop, reopened(copied)) as found:
        yield found


@pytest.fixture(scope="session")
def nothing(loop: LoopThread) -> Iterator[Served]:
    with entered(loop, unpopulated()) as found:
        yield found


Visiting = Callable[..., AbstractAsyncContextManager[Visit]]


@pytest.fixture(scope="session")
def windows(chromium: Browser) -> Windows:
    return Windows(chromium)


@pytest.fixture
def visiting(windows: Windows, chromium: Browser, described: list[tuple[str, re.Pattern[str]]]) -> Visiting:
    """Open a visit to an address: `async with visiting(town.address) as visit: …`.

    With `own`, in a window that nobody has used and nobody will.
    """

    def open_visit(address: str, *, own: bool = False, **how: Any) -> AbstractAsyncContextManager[Visit]:
        return visit(chromium if own else windows, address, described, **how)

    return open_visit
