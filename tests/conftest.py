"""What every test may rely on: `async def` tests run in an event loop of their own.

Property tests (`@given`) may be `async def` too; each example gets its own loop.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

if TYPE_CHECKING:
    from tests.http.browser import Browser

# A loaded machine must not fail a test that is merely slow.
settings.register_profile("betimes", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", settings.get_profile("betimes"), max_examples=5)
settings.load_profile("betimes")


def run_in_own_loop(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(function(*args, **kwargs))

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest, so that no core waits for one of them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test; return None to let pytest call any other."""
    test = pyfuncitem.obj
    if is_hypothesis_test(test):
        inner = test.hypothesis.inner_test
        if inspect.iscoroutinefunction(inner):
            test.hypothesis.inner_test = run_in_own_loop(inner)
        return None
    if not inspect.iscoroutinefunction(test):
        return None
    wanted = inspect.signature(test).parameters
    run_in_own_loop(test)(**{name: pyfuncitem.funcargs[name] for name in wanted})
    return True


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """The Chromium that all tests of pages of this process share; without one they are skipped."""
    from tests.http.browser import CHROMIUM, WHY_SKIPPED, chromium  # it needs much that few tests do

    if CHROMIUM is None:
        pytest.skip(WHY_SKIPPED)
    with chromium() as found:
        yield found
