"""Cost: the processor's time of one verdict, asked through the services in batches of 256.

Wall time on a shared machine says little; the processor's time of this process, threads of the store included, says
what a verdict costs. On PostgreSQL the server's own time comes on top.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from statistics import median
from typing import Any

from benchmarks.domains.service import DATABASES, notifications, triggers
from benchmarks.places import TENANT
from betimes.app.betimes import Betimes
from betimes.app.server import set_heap_aside
from betimes.core.errors import BetimesError
from betimes.domain.service import Caller
from betimes.tenancy import Tenancy

BATCH = 256
ROUNDS = 7
Ask = Callable[[Tenancy, Sequence[Any]], Awaitable[Sequence[Any]]]
ASKED: dict[str, tuple[Callable[[], Iterator[Any]], Ask]] = {
    "notifications": (notifications, lambda services, items: services.notifications.send_many(items, trace=False)),
    "triggers": (triggers, lambda services, items: services.runs.trigger_many(items, trace=False)),
}


async def cost(kind: str, scale: float) -> list[dict[str, Any]]:
    """The processor's time of a verdict with its durable reason, and verdicts a second, in batches of 256."""
    rows = []
    for name in ASKED:
        async with DATABASES[kind]() as url, Betimes(url, tenant=TENANT, workers=False) as bt:
            rows.append({"store": kind, "asked": name, **await _measure(bt, name, max(1, int(20 * scale)))})
    return rows


async def _measure(bt: Betimes, name: str, batches: int) -> dict[str, float]:
    make, ask = ASKED[name]
    services, source = bt.for_caller(Caller(TENANT, "bench")), make()
    set_heap_aside()  # as `betimes serve` does
    costs, rates = [], []
    for _ in range(ROUNDS + 1):
        asked = [list(islice(source, BATCH)) for _ in range(batches)]
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        for items in asked:
            _check_answers(await ask(services, items))
        costs.append((time.process_time() - cpu_s) * 1e6 / (batches * BATCH))
        rates.append(batches * BATCH / (time.perf_counter() - wall_s))
    return {"cpu_us": median(costs[1:]), "per_s": median(rates[1:])}  # the first round warms up


def _check_answers(answers: Sequence[Any]) -> None:
    for answer in answers:
        if isinstance(answer, BetimesError):
            raise answer


SUITES = {"cost": cost}
