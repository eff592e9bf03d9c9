"""Callers, and the base of services: how requests are read, submitted to the engine, and their verdicts shown.

A request comes as the type of a service or as the mapping that would come over a wire. The trace of a verdict is shown
as the rules that were evaluated, in words.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Literal, TypeVar

import msgspec

from betimes.core.checks import Examined, Rule, examine
from betimes.core.deciders import Command
from betimes.core.errors import BetimesError, Invalid, KeyConflict, NotFound, Refused, VersionMismatch
from betimes.core.policies import Policy
from betimes.core.segments import Recorded
from betimes.core.streams import KeyId, StreamId, checked_stream
from betimes.core.verdicts import Verdict
from betimes.domain.deployment import Deployment
from betimes.domain.json_view import JsonView
from betimes.engine.codecs import Kinds
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.replay import replay

T = TypeVar("T")
Item = TypeVar("Item")
SLICE = 16
"""Items of a list that are looked at in one go,"""
SLICE_S = 0.01
"""or fewer if they took so long: one may hold 100 kB."""
INLINE_BYTES_MAX = 8 * 1024
INLINE_OBJECTS_MAX = 20
REFUSAL_ERRORS: Mapping[str, type[BetimesError]] = {
    "NOT_FOUND": NotFound,
    "VERSION_MISMATCH": VersionMismatch,
    "INVALID": Invalid,
    "POLICY_INVALID": Invalid,
}
"""Reasons for which deciders refuse a command, and which callers know as errors of their own."""


def is_public(name: str) -> bool:
    """Return whether an attribute is for callers, or the language's own."""
    return not name.startswith("_") or name.startswith("__")


class Caller(msgspec.Struct, frozen=True):
    """The tenant whose data is meant, and the actor that is recorded."""

    tenant: str = "default"
    actor: str = ""
    correlation: str = ""
    scopes: tuple[str, ...] | None = None
    """The scopes of their key; `None` is everything, for callers within the process."""
    request: str = ""
    """The fingerprint of what they sent, which a repeat of their key must match. By default that of the command."""
    note: str = ""
    """Why they ask, in their words: recorded with every command of theirs."""
    application: str = ""
    """The application that declares definitions in its code; empty for everybody else."""


class Service:
    """One domain for one caller. Made for each request, it also remembers how its last command went."""

    def __init__(self, engine: Engine, caller: Caller, *, deployment: Deployment | None = None) -> None:
        self.engine = engine
        self.caller = caller
        self.deployment = deployment or Deployment()
        self.last: Recorded | None = None
        """The result of the last command, now or when its key was first seen."""

    def __dir__(self) -> list[str]:
        """Return what callers use: neither what is private nor what services share to reach the engine."""
        shared = {*vars(Service), *vars(self)} - {"is_replay"}
        return [name for name in super().__dir__() if is_public(name) and (name.startswith("__") or name not in shared)]

    @property
    def is_replay(self) -> bool:
        return self.last is not None and self.last.replayed

    def stream(self, kind: str, id: str) -> StreamId:
        return checked_stream(self.caller.tenant, kind, id)

    def submission(
        self,
        stream: StreamId,
        command: Command,
        *,
        key: str | None = None,
        collection: str = "",
        request: str = "",
        correlation: str = "",
    ) -> Submission:
        """Return a command as the caller submits it."""
        return Submission(
            stream=stream,
            command=command,
            key=key,
            collection=collection,
            request=request or self.caller.request,
            actor=self.caller.actor,
            correlation=correlation or self.caller.correlation,
            note=self.caller.note,
        )

    async def submit(self, stream: StreamId, command: Command, **named: Any) -> Recorded:
        """Submit one command; see `submission` for what may be named.

        Raise refusals that mean the same in every domain as the errors they are: see `REFUSAL_ERRORS`.
        """
        try:
            self.last = await self.engine.submit(self.submission(stream, command, **named))
        except Refused as refused:
            if refused.reason not in REFUSAL_ERRORS:
                raise
            raise REFUSAL_ERRORS[refused.reason](str(refused)) from None
        return self.last

    async def find_recorded(self, key: str, collection: str, request: str) -> Recorded | None:
        """Return what was recorded under a key, if it was used; raise `KeyConflict` if that was for another request."""
        seen = await self.engine.store.seen(KeyId(self.caller.tenant, collection, key))
        if seen is None:
            return None
        if seen.request != request:
            raise KeyConflict(f"the key {key!r} was used for another request, recorded as {seen.segment.handle}")
        self.last = self.engine.kinds.of(seen.segment.stream).recorded(seen.segment)
        return self.last

    async def check_under_policy(self, request: Any, kind: type[T], rules: Callable[[Policy], Sequence[Rule[T]]]) -> T:
        """Return the request as its type; raise `Invalid` with all that is wrong, by the rules under the policy too."""
        found: Examined[T] = examine_request(request, kind)
        # The decider asks these rules of a sound request; here they only make a refusal complete.
        return found.whole(rules(await self.engine.policy_of(self.caller.tenant)) if found.found.total else ())

    async def state(self, stream: StreamId) -> Any:
        """Return the stream's state as of its last commit, or `None`."""
        [state] = await self.engine.load_states(demanded_stream(stream))
        return state

    async def require_state(self, stream: StreamId) -> Any:
        """Return the state; raise `NotFound` if there is none."""
        state = await self.state(stream)
        if state is None:
            raise NotFound(f"there is no {stream.kind} {stream.id!r}")
        return state

    async def require_history(self, stream: StreamId) -> None:
        """Raise `NotFound` if there never was such a stream; one that was deleted has a history."""
        if not await self.engine.store.load([demanded_stream(stream)]):
            raise NotFound(f"there is no {stream.kind} {stream.id!r}")

    async def state_after(self, recorded: Recorded) -> Any:
        """Return the stream's state as a command left it, also when it is answered from the record."""
        if not isinstance(recorded, Recorded):
            raise Invalid(f"{recorded!r} is not a Recorded; pass `last` of a service")
        row = (await self.engine.store.load([recorded.stream])).get(recorded.stream)
        # A repeat may be about a version that is long gone and that only the history has.
        if row is not None and (not recorded.replayed or row.version == recorded.version):
            return self.engine.kinds.state_in(recorded.stream, row)
        past = await replay(self.engine.store, self.engine.kinds, recorded.stream, version=recorded.version)
        return past.state


def demanded_stream(stream: StreamId) -> StreamId:
    """Return the stream; raise `Invalid` for anything else, such as the id of a user."""
    if not isinstance(stream, StreamId):
        raise Invalid(f"{stream!r} is not a StreamId; name a stream with stream(kind, id), or use get and list")
    return stream


# -- requests


def check_request(request: T | Mapping[str, Any] | Examined[T], kind: type[T], rules: Sequence[Rule[T]] = ()) -> T:
    """Convert the request to its type; raise `Invalid` with every problem.

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
    """Decode bytes that a caller sent: at once if they are few, in a thread if they are many."""
    if len(raw) <= INLINE_BYTES_MAX and raw.count(b"{") <= INLINE_OBJECTS_MAX:
        return read()
    return await asyncio.get_running_loop().run_in_executor(threads, read)


def require_list(items: Any, name: str) -> Sequence[Any]:
    """Return the items of a request for many; raise `Invalid` if they are one thing instead of a list."""
    if isinstance(items, Sequence) and not isinstance(items, str | bytes):
        return items
    told = f"expected a list, got {type(items).__name__}; put a single item in brackets: [...]"
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


# -- verdicts


class TraceStep(JsonView, frozen=True):
    """One rule that was looked at."""

    rule: str
    matched: bool
    reason: str | None
    mode: Literal["enforce", "shadow"]
    values: dict[str, Any]


def trace_of(kinds: Kinds, verdict: Verdict | None) -> list[TraceStep]:
    """Return every rule that was evaluated, in order, with the values it saw."""
    table = kinds.tables.get(verdict.table) if verdict else None
    if verdict is None or table is None:
        return []
    rules = table.by_name
    # In one expression, without the rules' sentences: every verdict that is answered over HTTP comes by here.
    return [
        TraceStep(
            rule.name if (rule := rules.get(step.rule)) else step.rule if isinstance(step.rule, str) else "?",
            step.reason is not None,
            step.reason,
            "shadow" if step.shadow else "enforce",
            dict(zip(rule.sees if rule else map(str, range(len(step.values))), step.values, strict=False)),
        )
        for step in verdict.trace
    ]
