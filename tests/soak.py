"""`make soak`: the simulator over fresh seeds for as long as asked, on every core, until something is found.

python -m tests.soak --minutes 60 --first 100000
python -m tests.soak --minutes 60 --crashes         real processes, killed at random, instead
python -m tests.soak --minutes 60 --storm           a million messages at one sensor, three in ten again, on SQLite
python -m tests.soak --extremes                     100,000 requests with extreme values, then every list
python -m tests.soak --suspended                    a controller suspended for a minute
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count

from betimes.testing.simulator.running import Outcome, simulate
from tests.api.extremes import soak_extremes
from tests.automation.storm import soak_storm
from tests.automation.suspending import soak_suspended
from tests.crash.soak import soak_crashes

CHUNK = 50
FINDINGS_MAX = 10


def unsound_among(first: int) -> list[Outcome]:
    return [outcome for seed in range(first, first + CHUNK) if not (outcome := simulate(seed)).is_sound]


def chunks(pool: ProcessPoolExecutor, first: int, until_s: float) -> Iterator[list[Outcome]]:
    """The findings of one chunk after the other, a few of them under way at a time."""
    firsts = count(first, CHUNK)
    waiting = [pool.submit(unsound_among, next(firsts)) for _ in range(2 * (os.cpu_count() or 1))]
    while waiting:
        yield waiting.pop(0).result()
        if time.monotonic() < until_s:
            waiting.append(pool.submit(unsound_among, next(firsts)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--first", type=int, default=10_000, help="the first seed")
    parser.add_argument("--crashes", action="store_true", help="kill real processes instead")
    parser.add_argument("--storm", action="store_true", help="a storm of messages instead, for at most so long")
    parser.add_argument("--messages", type=int, default=1_000_000, help="of the storm")
    parser.add_argument("--suspended", action="store_true", help="suspend a controller for a minute instead")
    parser.add_argument("--extremes", action="store_true", help="send extreme values to every route instead")
    parser.add_argument("--requests", type=int, default=100_000, help="with extreme values")
    options = parser.parse_args()
    if options.extremes:
        return min(soak_extremes(options.requests, options.first), 1)
    if options.storm:
        return min(soak_storm(options.messages, options.minutes), 1)
    if options.suspended:
        return min(soak_suspended(), 1)
    if options.crashes:
        soak_crashes(options.minutes, options.first)
        return 0
    started_s, seeds, findings = time.monotonic(), 0, 0
    with ProcessPoolExecutor() as pool:
        for unsound in chunks(pool, options.first, started_s + options.minutes * 60):
            seeds += CHUNK
            findings += len(unsound)
            for outcome in unsound:
                print(f"\n{outcome}")
            print(f"\r{seeds} seeds, {findings} unsound, {time.monotonic() - started_s:.0f} s", end="", flush=True)
            if findings >= FINDINGS_MAX:
                pool.shutdown(cancel_futures=True)
                break
    print()
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
