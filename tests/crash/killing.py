"""Processes killed at random instants and replaced, their number kept: one round of it, for tests and for soaking."""

from __future__ import annotations

import asyncio
from random import Random

from betimes.testing.sample import GatePolicy
from tests.crash.fleet import Fleet
from tests.crash.scene import Rules
from tests.crash.workload import Workload

PROCESSES = 8
RULES = Rules(
    GatePolicy(cooldown_s=1, per_hour=6, tenant_per_hour=400, waiting_max=4, greet=True, tally=True), lease_s=1
)


async def kill_and_replace(fleet: Fleet, seed: int, kills: int) -> None:
    """Kill one process after the other, each after some more answers, and start another in its place."""
    dice = Random(seed)
    load = Workload(seed=seed, pause_s=0.02)
    alive = await fleet.start_ready(PROCESSES, rules=RULES, load=load)
    for _ in range(kills):
        await fleet.says_more("answered", dice.randint(5, 60))
        await asyncio.sleep(dice.random() * 0.01)  # so that it is not always the instant after an answer
        await alive.pop(dice.randrange(PROCESSES)).killed()
        alive.append(await fleet.start(rules=RULES, load=load))
    await asyncio.gather(*(child.says("answered", 5) for child in alive))
    await fleet.drain()
