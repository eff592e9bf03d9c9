"""What conditions are evaluated against: sources by name, and the values they give.

    price(ticker)            a number
    portfolio(user_id)       {"total_value": a number, "any_holding_change": percent}, or, in place of the latter,
                             "holdings": {name: change in percent}, of which the largest either way counts
    last_interaction(user_id)  an aware datetime, ISO 8601 text, an instant in microseconds, or None

A source is a function or a coroutine function of one text. Without `last_interaction` the score of the user is asked,
if scores are kept here. Somebody who was never heard of has been silent since the intent was made.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from betimes.core.errors import BetimesError, Invalid
from betimes.core.instants import HOUR, Instant, parse
from betimes.core.streams import StreamId
from betimes.domains.intents.conditions import PRICE
from betimes.domains.intents.model import IntentState
from betimes.engine.engine import Engine
from betimes.services.moments import instant

Source: TypeAlias = Callable[[str], Any]
NAMES = ("price", "portfolio", "last_interaction")
NUMBER_MAX = Decimal(10) ** 18
_HOURS = Decimal(HOUR)


class SourceFailed(BetimesError):
    """A source is missing, raised, took too long, or gave something that is no number."""

    code = "INTERNAL"


class Sources:
    """The registered sources of one worker."""

    def __init__(self, engine: Engine, sources: Mapping[str, Source], timeout_s: float) -> None:
        unknown = sorted(sources.keys() - set(NAMES))
        if unknown:
            raise Invalid(f"no such source: {', '.join(unknown)}; known are {', '.join(NAMES)}")
        self._engine = engine
        self._sources = dict(sources)
        self._timeout_s = timeout_s

    async def values(
        self, needs: tuple[str, ...], tenant: str, intent: IntentState, now: Instant
    ) -> dict[str, Decimal]:
        """A value for each name a condition looks at; every source is asked once."""
        user_id = intent.definition.user_id
        found: dict[str, Decimal] = {}
        if {"total_value", "any_holding_change"} & set(needs):
            found |= _portfolio(await self._ask("portfolio", user_id), needs)
        if "inactive_hours" in needs:
            last_at = await self._last_interaction(tenant, user_id)
            found["inactive_hours"] = (now - (intent.created_at if last_at is None else last_at)) / _HOURS
        for name in needs:
            if name.startswith(PRICE):
                found[name] = _number(name, await self._ask("price", name.removeprefix(PRICE)))
        return found

    async def _last_interaction(self, tenant: str, user_id: str) -> Instant | None:
        if "last_interaction" in self._sources:
            return _instant(await self._ask("last_interaction", user_id))
        if "score" not in self._engine.kinds.names:
            raise SourceFailed("no source `last_interaction` is registered, and no scores are kept here; register one")
        stream = StreamId(tenant, "score", user_id)
        row = (await self._engine.store.load([stream])).get(stream)
        state = row and self._engine.kinds.of(stream).state(stream, row.schema, row.state)
        return getattr(state, "last_interaction_at", None)

    async def _ask(self, name: str, subject: str) -> Any:
        source = self._sources.get(name)
        if source is None:
            raise SourceFailed(f"no source `{name}` is registered; give the worker one")
        limit = asyncio.timeout(self._timeout_s)
        try:
            async with limit:
                return await called(source, subject)
        except Exception as error:
            if limit.expired():
                raise SourceFailed(f"{name}({subject!r}) took longer than {self._timeout_s:g} s") from error
            raise SourceFailed(f"{name}({subject!r}) failed: {error!r}") from error


async def called(function: Callable[..., Any], *args: Any) -> Any:
    """The result of a function, which may block, or of a coroutine function."""
    try:
        is_async = inspect.iscoroutinefunction(function)
        result = function(*args) if is_async else await asyncio.to_thread(_in_thread, function, *args)
        return await result if inspect.isawaitable(result) else result
    except SystemExit as error:
        raise RuntimeError(f"it exited with {error.code!r}") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError(f"it raised {error!r}") from error  # nobody has cancelled us, so it is its own affair


def _in_thread(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except (StopIteration, asyncio.CancelledError) as error:  # a future cannot carry the one, and means the other
        raise RuntimeError(f"it raised {error!r}") from error


def _portfolio(given: Any, needs: tuple[str, ...]) -> dict[str, Decimal]:
    if not isinstance(given, Mapping):
        raise SourceFailed(f"the source `portfolio` gave {type(given).__name__}, not a mapping")
    found: dict[str, Decimal] = {}
    if "total_value" in needs:
        found["total_value"] = _number("total_value", given.get("total_value"))
    if "any_holding_change" in needs:
        changes = given.get("holdings")
        if "any_holding_change" in given or not isinstance(changes, Mapping):
            found["any_holding_change"] = _number("any_holding_change", given.get("any_holding_change"))
        else:
            moves = [abs(_number(f"holdings.{name}", change)) for name, change in changes.items()]
            found["any_holding_change"] = max(moves, default=Decimal(0))
    return found


def _number(name: str, value: Any) -> Decimal:
    """Exact: a float is what it prints as."""
    try:
        number = None if isinstance(value, bool) or value is None else Decimal(str(value))
    except InvalidOperation:
        number = None
    if number is None or not number.is_finite():
        raise SourceFailed(f"the source of {name} gave {value!r:.80}, which is no number")
    if abs(number) >= NUMBER_MAX:
        raise SourceFailed(f"the source of {name} gave {value!r:.80}; numbers are below 10^18")
    return number


def _instant(value: Any) -> Instant | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, datetime) and value.tzinfo is not None:
        return instant(value)
    if isinstance(value, str):
        try:
            return parse(value)
        except Invalid as error:
            raise SourceFailed(f"the source `last_interaction`: {error}") from error
    raise SourceFailed(f"the source `last_interaction` gave {value!r:.80}, which is no instant with an offset")
