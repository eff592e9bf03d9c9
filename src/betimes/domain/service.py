"""Callers, and the base of services: how one reaches the engine on behalf of the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from betimes.core.checks import Examined, Rule
from betimes.core.deciders import Command
from betimes.core.errors import BetimesError, Invalid, KeyConflict, NotFound, Refused, VersionMismatch
from betimes.core.policies import Policy
from betimes.core.segments import Recorded
from betimes.core.streams import KeyId, StreamId, checked_stream
from betimes.domain.deployment import Deployment
from betimes.domain.requests import examine_request
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.replay import replay

T = TypeVar("T")
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
    """What their key may do; `None` is everything, for callers within the process."""
    request: str = ""
    """What they sent, as a fingerprint: what a repeat of their key must agree in. By default that is the command."""
    application: str = ""
    """Whose code declares what is defined; empty for everybody else."""


class Service:
    """One domain for one caller. Made for each request, it also remembers how its last command went."""

    def __init__(self, engine: Engine, caller: Caller, *, deployment: Deployment | None = None) -> None:
        self.engine = engine
        self.caller = caller
        self.deployment = deployment or Deployment()
        self.last: Recorded | None = None
        """What the last command led to, now or when its key was first seen."""

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
            raise Invalid(f"{recorded!r} is not the record of a command; `last` of a service is one")
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
