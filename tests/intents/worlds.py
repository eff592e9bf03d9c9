"""A world with intents: a store, a clock that stands still, two engines, and services on both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from betimes.domain.service import Caller
from betimes.engine.settings import EngineSettings
from betimes.intents.decide import DECIDERS, SECTIONS
from betimes.intents.service import Intents
from tests.engine.worlds import World, world
from tests.stores.backends import Backend

CALLER = Caller("acme", "test")


class IntentWorld:
    """What a test of the service needs at hand."""

    def __init__(self, inner: World) -> None:
        self.inner = inner
        self.clock = inner.clock
        self.intents = Intents(inner.engine, CALLER)
        self.others = Intents(inner.other, Caller("acme", "other"))
        """The same, in a second process."""

    def hours_pass(self, hours: float) -> None:
        self.clock.advance(hours * 3_600)


@asynccontextmanager
async def intent_world(
    backend: Backend,
    folder: Path,
    *,
    deciders: Any = DECIDERS,
    sections: Mapping[str, Any] = SECTIONS,
    settings: EngineSettings | None = None,
    **policy: Any,
) -> AsyncIterator[IntentWorld]:
    body = {"intents": policy}
    async with world(backend, folder, deciders=deciders, sections=sections, body=body, settings=settings) as inner:
        yield IntentWorld(inner)
