"""A process that exports a SQLite file and kills itself at a named point: `python -m tests.automation.exporter …`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from betimes.engine.codecs import Kinds
from betimes.engine.tenants.decide import tenant_decider
from betimes.ledger.lake.export import export
from betimes.ledger.lake.places import LakeBatch, LocalPlace
from betimes.stores.sqlite import SqliteStore
from tests.automation.worlds import BOOK, DECIDERS

POINTS = ("written", "aside", "published", "advanced")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DeadlyPlace(LocalPlace):
    """A folder whose second batch is the last thing this process does."""

    def __init__(self, path: Path, point: str) -> None:
        super().__init__(path)
        self._point = point
        self._batches_seen = 0

    def publish(self, folder: Path, batch: LakeBatch) -> bool:
        self._batches_seen += 1
        if self._batches_seen < 2:
            return super().publish(folder, batch)
        if self._point == "written":
            die()
        if self._point == "aside":
            os.rename = lambda *_, **__: die()
        done = super().publish(folder, batch)
        if self._point == "published":
            die()
        return done

    def advance(self, position: int) -> None:
        super().advance(position)
        if self._batches_seen == 2 and self._point == "advanced":
            die()


async def main(database: str, lake: str, point: str) -> None:
    store = SqliteStore(database)
    await store.open()
    await export(store, Kinds([*DECIDERS, tenant_decider(BOOK)]), DeadlyPlace(Path(lake), point), batch_max=7)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
