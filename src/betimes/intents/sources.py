"""Sources: by their names, the functions that give conditions their values.

    price(ticker)            a number
    portfolio(user_id)       {"total_value": a number, "any_holding_change": percent}, or, in place of the latter,
                             "holdings": {name: change in percent}, of which the largest either way counts
    last_interaction(user_id)  an aware datetime, ISO 8601 text, an instant in microseconds, or None

A source is a function or a coroutine function of one text. One with a second parameter is given a `SourceContext` too:
the same user id may be two people of two tenants. Without `last_interaction` the score of the user is asked, if scores
are kept here. Somebody who was never heard of has been silent since the intent was made.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any, TypeAlias

import msgspec

from betimes.core.datetimes import instant
from betimes.core.errors import BetimesError, Invalid
from betimes.core.instants import HOUR, Instant, checked_instant, parse
from betimes.core.names import spell_name
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.intents.conditions import sources_of
from betimes.intents.expressions import PRICE
from betimes.intents.model import IntentState
from betimes.scores.model import KIND, ScoreState

Source: TypeAlias = Callable[..., Any]
NAMES = ("price", "portfolio", "last_interaction")
NUMBER_MAX = Decimal(10) ** 18
DECIMALS_MAX = 18
"""Of a source's number; what goes beyond is rounded."""
_SMALLEST = Decimal(1).scaleb(-DECIMALS_MAX)
_EXACT = Context(prec=2 * DECIMALS_MAX)
_HOURS = Decimal(HOUR)


class SourceContext(msgspec.Struct, frozen=True):
    """For whom a source is asked."""

    tenant: str
    user_id: str
    intent_id: str


class SourceFailed(BetimesError):
    """A source is missing, raised, took too long, or gave something that is no number. `source` is its name."""

    code = "INTERNAL"

    def __init__(self, source: str, message: str) -> None:
        super().__init__(message)
        self.source = source


class Sources:
    """The registered sources of one worker."""

    def __init__(self, engine: Engine, sources: Mapping[str, Source], timeout_s: float) -> None:
        for name in sources:
            check_source_name(name)
        self._engine = engine
        self._sources = {name: (source, takes_context(source)) for name, source in sources.items()}
        self._timeout_s = timeout_s

    @property
    def names(self) -> frozenset[str]:
        """Return the sources that can be asked here; scores stand in for `last_interaction`."""
        scored = {"last_interaction"} if KIND in self._engine.kinds.names else set()
        return frozenset(self._sources.keys() | scored)

    async def values(
        self, needs: tuple[str, ...], stream: StreamId, intent: IntentState, now: Instant
    ) -> dict[str, Decimal]:
        """Return a value for each name a condition looks at, asking every source once; raise `SourceFailed`."""
        user_id = intent.definition.user_id
        context = SourceContext(stream.tenant, user_id, stream.id)
        found: dict[str, Decimal] = {}
        if "portfolio" in sources_of(needs):
            found |= _portfolio(await self._ask("portfolio", user_id, context), needs)
        if "inactive_hours" in needs:
            last_at = await self._last_interaction(context)
            found["inactive_hours"] = (now - (intent.created_at if last_at is None else last_at)) / _HOURS
        for name in needs:
            if name.startswith(PRICE):
                found[name] = _number("price", name, await self._ask("price", name.removeprefix(PRICE), context))
        return found

    async def _last_interaction(self, context: SourceContext) -> Instant | None:
        if "last_interaction" in self._sources:
            return _instant(await self._ask("last_interaction", context.user_id, context))
        if KIND not in self._engine.kinds.names:
            raise SourceFailed(
                "last_interaction",
                "no source `last_interaction` is registered, and no scores are kept here; register one",
            )
        stream = StreamId(context.tenant, KIND, context.user_id)
        [state] = await self._engine.load_states(stream)
        return state.interacted_at if isinstance(state, ScoreState) else None

    async def _ask(self, name: str, subject: str, context: SourceContext) -> Any:
        if name not in self._sources:
            raise SourceFailed(name, f"no source `{name}` is registered; give the worker one")
        source, with_context = self._sources[name]
        limit = asyncio.timeout(self._timeout_s)
        try:
            async with limit:
                return await call_function(source, subject, *((context,) if with_context else ()))
        except Exception as error:
            if limit.expired():
                raise SourceFailed(name, f"{name}({subject!r}) took longer than {self._timeout_s:g} s") from error
            raise SourceFailed(name, f"{name}({subject!r}) failed: {error!r}") from error


def check_source_name(name: str) -> None:
    """Raise `Invalid` for a name that no trigger asks for."""
    if name not in NAMES:
        raise Invalid(f"no such source: {spell_name(name)}; known: {', '.join(NAMES)}")


def takes_context(source: Source) -> bool:
    """Return whether a source has a second parameter that it must be given or that is called `context`."""
    try:
        _, *more = inspect.signature(source).parameters.values()
    except (TypeError, ValueError):  # some built-in functions do not tell
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return bool(more) and more[0].kind in positional and (more[0].default is more[0].empty or more[0].name == "context")


async def call_function(function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a coroutine function, or of a function that may block, in a thread."""
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
        raise SourceFailed("portfolio", f"the source `portfolio` gave {type(given).__name__}, not a mapping")
    found: dict[str, Decimal] = {}
    if "total_value" in needs:
        found["total_value"] = _number("portfolio", "total_value", given.get("total_value"))
    if "any_holding_change" in needs:
        changes = given.get("holdings")
        if "any_holding_change" in given or not isinstance(changes, Mapping):
            found["any_holding_change"] = _number("portfolio", "any_holding_change", given.get("any_holding_change"))
        else:
            moves = [abs(_number("portfolio", f"holdings.{name}", change)) for name, change in changes.items()]
            found["any_holding_change"] = max(moves, default=Decimal(0))
    return found


def _number(source: str, name: str, value: Any) -> Decimal:
    """Exact: a float is what it prints as."""
    try:
        number = None if isinstance(value, bool) or value is None else Decimal(str(value))
    except (InvalidOperation, ValueError):  # the latter of a whole number too long to be printed
        number = None
    if number is None or not number.is_finite():
        raise SourceFailed(source, f"the source of {name} gave {_look(value)}, which is no number")
    if abs(number) >= NUMBER_MAX:
        raise SourceFailed(source, f"the source of {name} gave {_look(value)}; numbers are below 10^18")
    return _EXACT.quantize(number, _SMALLEST) if int(number.as_tuple().exponent) < -DECIMALS_MAX else number


def _instant(value: Any) -> Instant | None:
    try:
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool):
            return checked_instant(value)
        if isinstance(value, datetime) and value.tzinfo is not None:
            return instant(value)
        if isinstance(value, str):
            return parse(value)
    except Invalid as error:
        raise SourceFailed("last_interaction", f"the source `last_interaction`: {error}") from error
    raise SourceFailed(
        "last_interaction", f"the source `last_interaction` gave {_look(value)}, which is no instant with an offset"
    )


def _look(value: Any) -> str:
    try:
        return repr(value)[:80]
    except Exception:  # noqa: BLE001 — a user's class, or a number too long to be printed
        return f"a {type(value).__name__} that cannot be shown"
