"""Who asks, and how a service reaches the engine on their behalf."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.core.deciders import Command
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId, checked_stream
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission


class Caller(msgspec.Struct, frozen=True):
    """Whose data is meant, and who is recorded as having asked."""

    tenant: str = "default"
    actor: str = ""
    correlation: str = ""


class Service:
    """One domain for one caller."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self.engine = engine
        self.caller = caller

    def stream(self, kind: str, id: str) -> StreamId:
        return checked_stream(self.caller.tenant, kind, id)

    async def submit(
        self, stream: StreamId, command: Command, *, key: str | None = None, collection: str = "", request: str = ""
    ) -> Recorded:
        return await self.engine.submit(
            Submission(
                stream=stream, command=command, key=key, collection=collection, request=request,
                actor=self.caller.actor, correlation=self.caller.correlation,
            )
        )  # fmt: skip

    async def state(self, stream: StreamId) -> Any:
        """The stream's state as of its last commit, or `None`."""
        row = (await self.engine.store.load([stream])).get(stream)
        return row and self.engine.kinds.of(stream).state(stream, row.schema, row.state)
