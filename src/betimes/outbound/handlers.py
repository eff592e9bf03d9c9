"""Python handlers by name: calls to `handler:<name>` run in this process, and so do channels that are functions.

An async handler is awaited. Any other runs in a thread of a bounded pool, so that it may block; it cannot be broken
off: when its lease is lost or the engine closes, nobody waits for it any more, and it ends by itself. A handler is
given the call's payload, and a `HandlerContext` if it needs two arguments. Its return value is the call's
result, its exception is the call's error; `betimes.GiveUp` says that trying again is no use.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from traceback import walk_tb
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

import msgspec

from betimes.core.deciders import EffectCall
from betimes.core.errors import Invalid
from betimes.engine.effects import Executor, GiveUp, RetryAfter
from betimes.intents.action import Action

Function = TypeVar("Function", bound=Callable[..., Any])

THREADS_MAX = 16
PREFIX = "handler:"
FAILURES_LOGGED_MAX = 1_000
"""Failures whose traceback is not logged again; past it every traceback is."""
_CALLERS = ("betimes", "asyncio", "concurrent")
_log = logging.getLogger("betimes.handlers")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class HandlerContext(msgspec.Struct, frozen=True):
    """The call that a handler works for."""

    effect_id: str
    """The same on every attempt: a key for whatever the handler does elsewhere."""
    tenant: str
    attempt: int


Invoke: TypeAlias = Callable[[Any, HandlerContext], Awaitable[Any]]


def context_of(call: EffectCall) -> HandlerContext:
    return HandlerContext(call.id.handle, call.id.tenant, call.attempt)


class Handlers:
    """A registry of handlers; close it to let its threads go."""

    def __init__(self, *, threads_max: int = THREADS_MAX) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}
        self._threads_max = threads_max
        self._threads = self._fresh_threads()
        self._failures_logged: set[tuple[Any, ...]] = set()

    def _fresh_threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads_max, thread_name_prefix="betimes-handler")

    def handler(self, name: str) -> Callable[[Function], Function]:
        """Register the decorated function under a name."""
        if not _NAME.fullmatch(name):
            raise Invalid(
                f"{name[:64]!r} is not a valid handler name: use at most 64 letters, digits and _.-, "
                "not starting with a dot"
            )
        if name in self._functions:
            raise Invalid(f"a handler named {name!r} exists already; choose another name")

        def register(function: Function) -> Function:
            # Once more: another may have taken the name since the decorator was made.
            if name in self._functions:
                raise Invalid(f"a handler named {name!r} exists already; choose another name")
            wants_context(function)
            self._functions[name] = function
            return function

        return register

    def executors(self) -> Mapping[str, Executor]:
        """Return an executor for each handler registered so far."""
        return {f"{PREFIX}{name}": self._executor(function) for name, function in self._functions.items()}

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """Return the handlers by name, as actions of intents call them: with the action alone."""
        return {
            name: partial(_given_context, function) if wants_context(function) else function
            for name, function in self._functions.items()
        }

    def close(self) -> None:
        """Drop what has not begun; handlers at work end by themselves. It can be used again afterwards."""
        threads, self._threads = self._threads, self._fresh_threads()
        threads.shutdown(wait=False, cancel_futures=True)

    def _executor(self, function: Callable[..., Any]) -> Executor:
        invoke = self.bind(function)

        async def execute(call: EffectCall) -> Any:
            return await invoke(call.payload, context_of(call))

        return execute

    def bind(self, function: Callable[..., Any]) -> Invoke:
        """Return what calls the function, awaited or in a thread, with the context if it takes one."""
        with_context = wants_context(function)
        # An object whose `__call__` is async is no coroutine function itself.
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)

        async def invoke(payload: Any, context: HandlerContext) -> Any:
            arguments = (payload, context) if with_context else (payload,)
            try:
                result = function(*arguments) if is_async else await self._in_thread(function, arguments)
                return await result if inspect.isawaitable(result) else result
            except SystemExit as error:
                raise RuntimeError(f"the handler exited with {error.code!r}") from error
            except (GiveUp, RetryAfter):
                raise  # said on purpose
            except Exception as error:
                self._log_failure(function, error, context)
                raise

        return invoke

    def _log_failure(self, function: Callable[..., Any], error: Exception, context: HandlerContext) -> None:
        """Log where a function failed, the first time it fails there; after that, in one line."""
        # What is recorded is one line; whoever wrote the function needs to see where it failed, but not every time.
        frames = _own_frames(error)
        place = (function, type(error), *(line for _, line in walk_tb(frames)))
        if place in self._failures_logged:
            _log.warning("%s failed again when called for %s: %r", _name_of(function), context.effect_id, error)
            return
        if len(self._failures_logged) < FAILURES_LOGGED_MAX:
            self._failures_logged.add(place)
        told = (type(error), error, frames)
        _log.warning("%s failed when called for %s", _name_of(function), context.effect_id, exc_info=told)

    async def _in_thread(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        # Threads of a pool do not inherit the context, in which the engine notes that a call is carried out.
        work = copy_context().run
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, work, _call, function, *arguments)


def _own_frames(error: Exception) -> TracebackType | None:
    """Return the traceback from the function's own first frame on, without those that called it."""
    frames = error.__traceback__
    while frames and frames.tb_frame.f_globals.get("__name__", "").partition(".")[0] in _CALLERS:
        frames = frames.tb_next
    return frames or error.__traceback__


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def wants_context(function: Callable[..., Any]) -> bool:
    """Return whether a handler takes a context too; raise `Invalid` if it takes neither one argument nor two."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions do not tell
        return False
    for arguments in (("payload",), ("payload", "context")):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return len(arguments) == 2
    message = (
        f"{_name_of(function)}{signature} must take one argument (the payload or message) or two (that and a context)"
    )
    raise Invalid(message)


def _given_context(function: Callable[..., Any], action: Action) -> Any:
    return function(action, HandlerContext(action.action_id, action.tenant, action.attempt))


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (StopIteration, asyncio.CancelledError) as error:  # a future cannot carry the one, and means the other
        raise RuntimeError(f"the handler raised {error!r}") from error
