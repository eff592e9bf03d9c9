"""Random kills for as long as asked: `python -m tests.crash.soak --minutes 10`, with a fresh seed each round."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path

from tests.crash.fleet import Fleet
from tests.crash.killing import RULES, kill_and_replace
from tests.crash.reconcile import Outcome, reconcile
from tests.crash.scene import Place
from tests.crash.servers import postgres_place

KILLS_A_ROUND = 100


def soak_crashes(minutes: float, first_seed: int = 1) -> int:
    """Rounds on SQLite and PostgreSQL by turns until time is up; how many. Raises with what was found."""
    until_s = time.monotonic() + minutes * 60
    rounds = 0
    for seed, store in zip(count(first_seed), cycle(("sqlite", "postgres")), strict=False):
        if time.monotonic() >= until_s:
            break
        outcome = _round(store, seed)
        rounds += 1
        print(
            f"seed {seed} on {store}: {KILLS_A_ROUND} kills, {outcome.answered} answered, "
            f"{outcome.unanswered} unanswered, {outcome.admissions} admitted, {outcome.abandoned} calls abandoned",
            flush=True,
        )
    return rounds


def _round(store: str, seed: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="betimes-soak-") as folder, _place(store, folder) as place:
        try:
            return asyncio.run(_killed(place, Path(folder), seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed} on {store}: {error}") from error


@contextmanager
def _place(store: str, folder: str) -> Iterator[Place]:
    if store == "sqlite":
        yield Place(path=f"{folder}/betimes.db")
    else:
        with postgres_place() as place:
            yield place


async def _killed(place: Place, folder: Path, seed: int) -> Outcome:
    async with Fleet(place, folder) as fleet:
        await kill_and_replace(fleet, seed, KILLS_A_ROUND)
    return await reconcile(place, folder, RULES)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.crash.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    options = parser.parse_args()
    soak_crashes(options.minutes, options.first)
