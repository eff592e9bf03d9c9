"""Starting and idling: what an import, a command line and a server that nobody asks cost, and a stream in the cache.

Processor time is that of a child, user and system together, and the median of ten children; the time of an empty
Python is in it. Memory is what the system counts as resident.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import subprocess
import sys
import tracemalloc
from asyncio.subprocess import PIPE
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from benchmarks.domains.service import notifications, notified
from benchmarks.places import TENANT
from betimes.app.betimes import Betimes
from betimes.domain.service import Caller

Row = dict[str, Any]
CHILDREN = 10
PROGRAMS: dict[str, tuple[tuple[str, ...], float | None]] = {
    "python (for comparison)": (("-c", "pass"), None),
    "import betimes": (("-c", "import betimes"), 150),
    "from betimes import Betimes": (("-c", "from betimes import Betimes"), None),
    "betimes --version": (("-m", "betimes", "--version"), 250),
    "betimes --help": (("-m", "betimes", "--help"), 250),
    "betimes serve --help": (("-m", "betimes", "serve", "--help"), None),
}
IDLE_S = 3.0
PEOPLE, BATCH = 2_560, 256
IDLE_MB_MAX, STREAM_KB_MAX = 60, 2


async def startup(kind: str, scale: float) -> list[Row]:
    """CPU of a start in ms, memory of an idle server in MB and of a cached stream in kB, each with its goal."""
    if kind != "sqlite":
        return []
    rows = [_row(name, "ms", _start_ms(words), most) for name, (words, most) in PROGRAMS.items()]
    rows.append(_row("idle `betimes serve`", "MB", await _idle_mb(), IDLE_MB_MAX))
    return [*rows, _row("a cached inbox", "kB", await _stream_kb(), STREAM_KB_MAX)]


def _row(what: str, unit: str, value: float, most: float | None) -> Row:
    return {"what": what, "unit": unit, "value": value, "goal": "" if most is None else f"≤ {most:g}"}


def _start_ms(words: tuple[str, ...]) -> float:
    """The processor time of a child that runs these words."""
    taken: list[float] = []
    for _ in range(CHILDREN):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return median(taken) * 1_000


async def _idle_mb() -> float:
    """The resident memory of a server that has started and was asked nothing."""
    with TemporaryDirectory(prefix="betimes-bench-") as folder:
        words = ("serve", "--port", "0", "--json", "--db", f"sqlite:///{folder}/betimes.db")
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "betimes", *words, stdout=PIPE)
        assert process.stdout is not None
        try:
            msgspec.json.decode(await process.stdout.readline())
            await asyncio.sleep(IDLE_S)
            resident_mb = _resident_mb(process.pid)
        finally:
            process.terminate()
            await process.wait()
    return resident_mb


def _resident_mb(pid: int) -> float:
    memory = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(memory.partition("\nRss:")[2].split()[0]) / 1_024


async def _stream_kb() -> float:
    """What the state of somebody who was told something takes in the cache: by what emptying it gives back."""
    with TemporaryDirectory(prefix="betimes-bench-") as folder:
        async with Betimes(f"sqlite:///{folder}/betimes.db", tenant=TENANT, workers=False) as bt:
            services, source = bt.for_caller(Caller(TENANT, "bench")), notifications()
            tracemalloc.start()
            for _ in range(PEOPLE // BATCH):
                await notified(services, list(islice(source, BATCH)))
            cache = bt.engine._queue._transactions._cache
            streams, before = len(cache), _allocated()
            cache.clear()
            given_back = before - _allocated()
            tracemalloc.stop()
    return given_back / streams / 1_024


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


SUITES = {"startup": startup}
