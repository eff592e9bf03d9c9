"""One of several processes on one database: `python -m benchmarks.child KIND PATH SCHEMA NUMBER TOTAL`."""

from __future__ import annotations

import asyncio
import sys

from benchmarks.measuring import GATES, engine_on, knocks, through_engine
from benchmarks.places import Place
from betimes.stores.postgres import PostgresStore
from betimes.stores.sqlite import SqliteStore


async def main(kind: str, path: str, schema: str, number: str, total: str) -> None:
    place = Place(
        kind, lambda: SqliteStore(path) if kind == "sqlite" else PostgresStore(path, schema=schema), path, schema
    )
    engine = engine_on(place)
    async with engine:
        source = knocks(f"p{number}", GATES)
        for _ in range(int(number) * 1_000):
            next(source)
        await through_engine(engine, source, 64, 640)
        print("ready", flush=True)
        sys.stdin.readline()
        run = await through_engine(engine, source, 64, int(total))
    print(run.per_s)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
