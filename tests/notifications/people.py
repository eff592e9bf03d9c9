"""A world to send notifications in: two engines on one store, channels that remember, and a service for one tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from betimes.core.instants import Instant
from betimes.domain.operations.model import OPERATION
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.engine.reports import Report
from betimes.engine.tick_result import TickResult
from betimes.engine.virtual_clock import VirtualClock
from betimes.notifications.decide import DECIDERS
from betimes.notifications.delivery import delivery_executors
from betimes.notifications.service import Notifications, Scorer
from betimes.outbound.channels import ChannelMessage
from betimes.outbound.handlers import HandlerContext
from tests.notifications.inboxes import SECTIONS
from tests.stores.backends import Backend

AT_ONCE = {"delivery_pauses_s": [0]}
"""Of a policy: what failed is tried again in the same pass."""


class Sent(msgspec.Struct, frozen=True):
    channel: str
    address: str | None
    title: str
    message: str
    id: str
    metadata: Mapping[str, Any]


class Outside:
    """What the channels were asked to send; those named in `broken` take nothing."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.tried: list[str] = []
        self.broken: set[str] = set()

    async def send(self, message: ChannelMessage, context: HandlerContext) -> None:
        self.tried.append(message.channel)
        if message.channel in self.broken:
            raise ConnectionError(f"{message.channel} is down")
        to = (message.channel, message.address, message.title, message.message)
        self.sent.append(Sent(*to, context.effect_id, message.metadata))


class People:
    def __init__(self, engine: Engine, other: Engine, clock: VirtualClock, outside: Outside, scorer: Scorer | None):
        self.engine = engine
        self.clock = clock
        self.outside = outside
        self.service = Notifications(engine, Caller("acme", "test"), scorer)
        self.elsewhere = Notifications(other, Caller("acme", "test"))
        """The same tenant, served by another process."""
        self.stranger = Notifications(engine, Caller("globex", "test"))

    async def tick(self, at: Instant | None = None) -> TickResult:
        if at is not None:
            self.clock.advance_to(at)
        while not (result := await self.engine.tick()).complete:
            pass
        return result


@asynccontextmanager
async def people(
    backend: Backend, folder: Path, *, scorer: Scorer | None = None, hooks: Any = (), **policy: Any
) -> AsyncIterator[People]:
    clock, outside = VirtualClock(), Outside()
    reports: list[Report] = []
    async with AsyncExitStack() as stack:
        pair = await stack.enter_async_context(backend.pair(clock, folder))
        engines: list[Engine] = []
        for place, store in enumerate((pair.one, pair.two)):
            engine = Engine(
                store,
                (*DECIDERS, OPERATION),
                name=("one", "two")[place],
                sections=SECTIONS,
                policy={"notifications": AT_ONCE | policy, "hooks": list(hooks)},
                executors=delivery_executors(partial(engines.__getitem__, place), outside),
                report=reports.append,
            )
            engines.append(engine)
            await stack.enter_async_context(engine)
        yield People(engines[0], engines[1], clock, outside, scorer)


def request(event_id: str = "e1", user_id: str = "ann", **fields: Any) -> dict[str, Any]:
    """A HIGH MESSAGE, which goes out when nothing stands against it."""
    return {
        "event_id": event_id,
        "user_id": user_id,
        "event_type": "MESSAGE",
        "priority_hint": "HIGH",
        "title": "Ana replied",
        "message": f"See you at nine? ({event_id})",
        "source": "chat",
        "channels": ["push", "email"],
    } | fields
