"""Two processes on one database with scores, and a clock that stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from betimes.domain.service import Caller
from betimes.engine.effects import Executor
from betimes.engine.settings import EngineSettings
from betimes.scores.decide import DECIDERS
from betimes.scores.service import Scores
from tests.engine.worlds import World, world
from tests.scores.scene import SECTIONS
from tests.stores.backends import Backend

ACME = Caller("acme", actor="test")


@asynccontextmanager
async def scores_world(
    backend: Backend,
    folder: Path,
    *,
    body: Mapping[str, Any] | None = None,
    settings: EngineSettings | None = None,
    executors: Mapping[str, Executor] | None = None,
    deciders: Any = DECIDERS,
) -> AsyncIterator[tuple[World, Scores]]:
    async with world(
        backend, folder, deciders=deciders, sections=SECTIONS, body=body or {}, settings=settings, executors=executors
    ) as w:
        w.clock.advance_to("2026-02-01T00:00:00Z")
        yield w, Scores(w.engine, ACME)
