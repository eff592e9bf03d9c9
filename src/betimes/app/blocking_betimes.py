"""`BlockingBetimes`: the same application for code that does not await.

    with BlockingBetimes("sqlite:///betimes.db") as bt:
        bt.runs.trigger(…)

It is made of the asynchronous methods themselves: whatever is asked for runs on an event loop in a thread of its own,
and the caller waits. Any number of threads may call. Handlers and the like are declared as on `Betimes`, before it is
opened.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from betimes.app.betimes import Betimes
from betimes.core.errors import Invalid
from betimes.domain.service import Service, is_public
from betimes.engine.engine import Engine
from betimes.tenancy import Tenancy

T = TypeVar("T")


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="betimes", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        if threading.current_thread() is self._thread:
            # A coroutine that is dropped without this makes Python warn that nobody awaited it.
            work.close()
            raise Invalid("this runs on betimes' own thread, which cannot wait for itself; make the handler async")
        return self.submit(work).result()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        # The thread is over, so the loop can run here once more for its last work.
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class Blocking:
    """Something asynchronous, seen from outside: its coroutine functions block, its services are `Blocking` too."""

    def __init__(self, inner: Any, wait_for: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._inner = inner
        self._wait_for = wait_for

    def __getattr__(self, name: str) -> Any:
        return _wrap_attribute(getattr(self._inner, name), self._wait_for)

    def __dir__(self) -> list[str]:
        return sorted({name for name in (*super().__dir__(), *dir(self._inner)) if is_public(name)})

    def __repr__(self) -> str:
        return f"Blocking({self._inner!r})"


def _wrap_attribute(found: Any, wait_for: Callable[[Coroutine[Any, Any, Any]], Any]) -> Any:
    if isinstance(found, Service | Tenancy | Engine):
        return Blocking(found, wait_for)
    if inspect.ismethod(found):
        return _blocking(found, wait_for)
    return found


def _blocking(method: Callable[..., Any], wait_for: Callable[[Coroutine[Any, Any, Any]], Any]) -> Callable[..., Any]:
    """Return the method so that its coroutine is waited for."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        return wait_for(result) if inspect.iscoroutine(result) else _wrap_attribute(result, wait_for)

    return call


class BlockingBetimes:
    """`Betimes`, waited for; takes the same arguments and has the same attributes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        try:
            # Asked here so that a wrong argument is blamed on the class that was called.
            inspect.signature(Betimes).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"BlockingBetimes(): {error}") from None
        self._bt = Betimes(*args, **kwargs)
        self._loop: _Loop | None = None

    def __getattr__(self, name: str) -> Any:
        if not (name in self._bt.__dict__ or hasattr(Betimes, name)):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return _wrap_attribute(getattr(self._bt, name), self._wait_for)

    def __dir__(self) -> list[str]:
        return sorted({name for name in (*super().__dir__(), *dir(self._bt)) if is_public(name)})

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise Invalid("betimes is not open; use `with BlockingBetimes(…) as bt`")
        return self._loop.wait_for(work)

    def open(self) -> None:
        if self._loop is not None:
            return
        self._loop = _Loop()
        try:
            self._wait_for(self._bt.open())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Finish what was accepted, stop, and let everything go, the thread too."""
        if self._loop is None:
            return
        try:
            self._wait_for(self._bt.close())
        finally:
            self._loop.stop()
            self._loop = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
