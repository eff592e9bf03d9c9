"""Processes that count outcomes are killed while others decide: in the end the tally is what a count of the ledger is.

One process triggers runs without a pause, two count what it decides, three segments at a time and with a short lease.
Each of the two is killed at random instants and another takes its place.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from contextlib import suppress
from multiprocessing.process import BaseProcess
from random import Random

from betimes.core.errors import BetimesError
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.engine.read_model import LEVELS, TallyQuery
from betimes.engine.store import LedgerQuery
from betimes.ledger import tally
from betimes.ledger.outcomes import outcomes_of
from betimes.ledger.tally import TallyProjection
from betimes.runs.decide import DECIDERS
from betimes.runs.service import Runs
from betimes.runs.views import TriggerRequest
from tests.crash.scene import Place
from tests.runs.scenes import SECTIONS
from tests.soak.rounds import FORK, Order, Round

COUNTERS = 2
PAGE = 3
LEASE_S = 0.05
LIFE_S = 0.25
"""A process that counts is killed within so long."""
TENANTS = ("acme", "beta")
FOREVER = 2**61
POLICY = {"runs": {"registry": {"SHOT": {"debounce_seconds": 0, "cooldown_seconds": 1}}}}


def kill_counters(order: Order) -> Round:
    """Kill one of those who count, over and over, and compare in the end."""
    dice = Random(order.seed)
    with order.place() as place:
        asyncio.run(_prepare(place))
        writer = _fork(_write, place, order.seed)
        counters = [_fork(_count, place, number) for number in range(COUNTERS)]
        for kill in range(order.count):
            time.sleep(dice.random() * LIFE_S)
            _kill(counters.pop(0))
            counters.append(_fork(_count, place, COUNTERS + kill))
        for process in (writer, *counters):
            _kill(process)
        findings, segments = asyncio.run(_compare(place))
    return Round(order.count, findings, {"segments": segments})


def _fork(target: object, *arguments: object) -> BaseProcess:
    process = FORK.Process(target=target, args=arguments)  # type: ignore[arg-type]
    process.start()
    return process


def _kill(process: BaseProcess) -> None:
    assert process.pid is not None
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.join()


def _engine(place: Place, name: str) -> Engine:
    return Engine(place.store(), DECIDERS, name=name, sections=SECTIONS, policy=POLICY)


async def _prepare(place: Place) -> None:
    async with _engine(place, "maker"):
        pass


def _write(place: Place, seed: int) -> None:
    async def work() -> None:
        dice = Random(seed)
        async with _engine(place, f"writer-{os.getpid()}") as engine:
            while True:
                runs, key = Runs(engine, Caller(dice.choice(TENANTS), "soak")), f"{dice.random()}"
                shot = TriggerRequest(account_id=f"a-{dice.randrange(9)}", trigger_type="SHOT", idempotency_key=key)
                with suppress(BetimesError):
                    await runs.trigger(shot)
                await asyncio.sleep(0.001)

    asyncio.run(work())


def _count(place: Place, number: int) -> None:
    tally.PAGE, tally.LEASE_S = PAGE, LEASE_S

    async def work() -> None:
        async with _engine(place, f"counter-{os.getpid()}-{number}") as engine:
            projection = TallyProjection(engine, f"counter-{number}")
            while True:
                with suppress(BetimesError):
                    await projection.count_page()

    asyncio.run(work())


async def _compare(place: Place) -> tuple[list[str], int]:
    async with _engine(place, "judge") as engine:
        await asyncio.sleep(2 * LEASE_S)
        while await TallyProjection(engine, "judge").count_page():
            pass
        expected: Counter[tuple[str, str, str, str]] = Counter()
        after = segments = 0
        while page := await engine.store.ledger(LedgerQuery(after=after, limit=1_000)):
            for segment in page:
                for outcome in outcomes_of(engine.kinds, segment):
                    stream = segment.stream
                    expected[stream.tenant, stream.kind, outcome.outcome, ",".join(outcome.reasons)] += 1
            after, segments = page[-1].seq, segments + len(page)
        if not expected:
            return ["nothing was decided"], segments
        return [
            f"by {level // 1_000_000} s: {found - expected or expected - found}"
            for level in LEVELS
            if (found := await _counted(engine, level)) != expected
        ], segments


async def _counted(engine: Engine, level: int) -> Counter[tuple[str, str, str, str]]:
    found: Counter[tuple[str, str, str, str]] = Counter()
    for tenant in TENANTS:
        query = TallyQuery(tenant, level, 0, FOREVER)
        for cell in await engine.store.tally_counts(query, FOREVER, 10_000):
            found[tenant, cell.kind, cell.outcome, cell.reasons] += cell.total
    return found
