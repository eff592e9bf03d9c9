"""Passes over due streams that wait for their turn, and which of them share a transaction.

Whoever claims asks for some of what is due. Those who ask at the same time for the same kinds of one tenant are served
by one transaction: it picks as many streams as they want together and gives each its part in the order in which they
asked, the longest due first, as claims that come one after the other get them. Where many claim by themselves, a commit
so serves many of them instead of one.

A pass never shares with one that picks otherwise, and together they are no longer than a batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import chain, repeat

from msgspec.structs import replace

from betimes.core.errors import BetimesError
from betimes.engine.jobs import Job
from betimes.engine.transactions import DueRequest, Result


class DuePass:
    """A request to work off streams that are due."""

    __slots__ = ("answer", "due")

    def __init__(self, due: DueRequest) -> None:
        self.due = due
        self.answer: asyncio.Future[list[tuple[Job, Result]]] = asyncio.get_running_loop().create_future()

    def fail(self, error: BetimesError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class SharedPass:
    """One pass or several that pick from the same streams, done in one transaction."""

    def __init__(self, passes: Sequence[DuePass]) -> None:
        self._passes = passes
        self.due = passes[0].due if len(passes) == 1 else _join([each.due for each in passes])

    def apart(self) -> list[SharedPass]:
        """Return the passes one by one, if there are several."""
        return [SharedPass([each]) for each in self._passes] if len(self._passes) > 1 else []

    def answer(self, done: Sequence[tuple[Job, Result]]) -> None:
        """Give each pass its share of the streams that were picked."""
        start = 0
        for each in self._passes:
            if not each.answer.done():
                each.answer.set_result(list(done[start : start + each.due.limit]))
            start += each.due.limit

    def fail(self, error: BetimesError) -> None:
        for each in self._passes:
            each.fail(error)


class PassQueue(deque[DuePass]):
    """Passes in the order in which they were requested."""

    def take(self, batch_max: int) -> SharedPass:
        """Take the first pass, and those right behind it that can share its transaction."""
        first = self.popleft()
        together, count = [first], first.due.limit
        while self and _can_share(first.due, self[0].due):
            count += self[0].due.limit
            if count > batch_max:
                break
            together.append(self.popleft())
        return SharedPass(together)


def _can_share(one: DueRequest, other: DueRequest) -> bool:
    """Return whether two requests pick from the same streams, and neither minds where the other leaves off."""
    if one.by != "due" or one.position or other.position:
        return False
    return _choice(one) == _choice(other)


def _choice(due: DueRequest) -> tuple[object, ...]:
    return due.by, tuple(due.kinds), due.tenant, due.until_at


def _join(requests: Sequence[DueRequest]) -> DueRequest:
    """Return one request for as much as all of them want; each makes the jobs of its part."""
    makers = chain.from_iterable(repeat(request.make, request.limit) for request in requests)
    limit = sum(request.limit for request in requests)
    return replace(requests[0], limit=limit, make=lambda stream: next(makers)(stream))
