"""One sweeping process: `python -m tests.scores.process NAME BATCH PLACE`.

It says `ready`, then `batch` after every commit of its sweep, then `done`.
"""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec

from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.scores.decide import DECIDERS
from betimes.scores.service import Scores
from tests.crash.scene import Place
from tests.scores.scene import SECTIONS


def engine_on(place: Place, name: str) -> Engine:
    return Engine(place.store(), DECIDERS, name=name, sections=SECTIONS)


def say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


async def main(name: str, batch: str, place: str) -> None:
    async with engine_on(msgspec.json.decode(place, type=Place), name) as engine:
        say("ready")
        sys.stdin.readline()
        await Scores(engine, Caller("acme", actor=name)).sweep(batch=int(batch), progress=lambda _: say("batch"))
        say("done")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
