"""Requests from Python: as the types of a service, or as the mappings that would come over a wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar

import msgspec

from betimes.core.checks import Examined, Rule, examine
from betimes.core.errors import Invalid

T = TypeVar("T")
Item = TypeVar("Item")
SLICE = 16
"""Items of a list that are looked at in one go,"""
SLICE_S = 0.01
"""or fewer if they took so long: one may hold 100 kB."""
INLINE_BYTES_MAX = 8 * 1024
INLINE_OBJECTS_MAX = 20


def check_request(request: T | Mapping[str, Any] | Examined[T], kind: type[T], rules: Sequence[Rule[T]] = ()) -> T:
    """Return the request as its type, whatever it came as; raise `Invalid` with everything that is wrong with it.

    The rules judge what is sound of a request whose shape is wrong, so that all of it is said at once.
    """
    return examine_request(request, kind).whole(rules)


def examine_request(request: T | Mapping[str, Any] | Examined[T], kind: type[T]) -> Examined[T]:
    """Return the request as far as it is sound, and what is wrong with its shape."""
    if isinstance(request, Examined):
        return request
    return examine(dict(request) if isinstance(request, Mapping) else json_of(request), kind)


async def in_slices(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield the items of a long list, letting others have the event loop every few of them."""
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    for number, item in enumerate(items, start=1):
        yield item
        if number % SLICE == 0 or loop.time() - begun_s > SLICE_S:
            await asyncio.sleep(0)
            begun_s = loop.time()


async def read_off_loop(raw: bytes, read: Callable[[], T], threads: Executor | None = None) -> T:
    """Return what is read from bytes that somebody sent: at once from a few, in a thread from more."""
    if len(raw) <= INLINE_BYTES_MAX and raw.count(b"{") <= INLINE_OBJECTS_MAX:
        return read()
    return await asyncio.get_running_loop().run_in_executor(threads, read)


def require_list(items: Any, name: str) -> Sequence[Any]:
    """Return the items of a request for many; raise `Invalid` if they are one thing instead of a list."""
    if isinstance(items, Sequence) and not isinstance(items, str | bytes):
        return items
    told = f"a list is expected, not {type(items).__name__}; put one in brackets: [...]"
    raise Invalid(f"{name}: {told}", ((name, told),))


def require_batch(items: Any, name: str, most: int) -> None:
    """Raise `Invalid` unless the items are a list of one to so many."""
    count = len(require_list(items, name))
    if not 1 <= count <= most:
        raise Invalid(f"{name}: 1 to {most}, not {count:,}", ((name, f"1 to {most}"),))


def json_of(request: Any) -> Any:
    """Return a struct as it would come over a wire: Python does not hold anybody to its types."""
    try:
        return msgspec.to_builtins(request)
    except (TypeError, ValueError) as error:
        raise Invalid(f"the request is not JSON: {error}", (("", f"not JSON: {error}"),)) from None
