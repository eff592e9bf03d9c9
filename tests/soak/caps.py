"""Eight processes that trigger runs at the same instant, over and over, where a limit allows a few: never one more.

Each trial has a tenant of its own and one kind of limit. All processes shoot together, and the answers they were given
and the runs on the ledger must both be exactly as many as the limit allows.
"""

from __future__ import annotations

import asyncio
import time
from multiprocessing.synchronize import Barrier
from random import Random
from typing import Any

import msgspec

from betimes.core.errors import Overloaded, StoreError
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.runs.decide import DECIDERS
from betimes.runs.service import Runs
from betimes.runs.views import TriggerRequest
from tests.crash.scene import Place
from tests.patience import HANGS_S
from tests.runs.scenes import SECTIONS
from tests.soak.rounds import FORK, Order, Round

PROCESSES = 8
SHOTS = 3
"""Triggers of each process and trial."""
LIMITS = ("max_per_account_per_hour", "max_per_tenant_per_hour", "daily_run_budget", "tenant_daily_run_budget")
CAP_MAX = 5
POLICY = {
    "runs": {
        "tier_from": "request",
        "tiers": {f"{name}-{cap}": {name: cap} for name in LIMITS for cap in range(1, CAP_MAX + 1)},
        "registry": {"SHOT": {"debounce_seconds": 0, "cooldown_seconds": 0}},
    }
}


class Trial(msgspec.Struct, frozen=True):
    tenant: str
    limit: str
    cap: int

    def request(self, key: str) -> TriggerRequest:
        account = key if "tenant" in self.limit else "one"
        return TriggerRequest(
            account_id=account, trigger_type="SHOT", idempotency_key=key, tenant_tier=f"{self.limit}-{self.cap}"
        )


def trials_of(order: Order) -> list[Trial]:
    dice = Random(order.seed)
    return [Trial(f"t{number}", dice.choice(LIMITS), dice.randint(1, CAP_MAX)) for number in range(order.count)]


def overshoot_caps(order: Order) -> Round:
    """Let all processes shoot in every trial; compare the limit with the answers and the ledger."""
    trials, day = trials_of(order), time.gmtime().tm_yday
    with order.place() as place:
        allowed = FORK.RawArray("i", PROCESSES * order.count)
        start = FORK.Barrier(PROCESSES)
        members = [
            FORK.Process(target=_shoot_all, args=(place, trials, number, start, allowed)) for number in range(PROCESSES)
        ]
        for member in members:
            member.start()
        for member in members:
            member.join(HANGS_S)
        codes = [member.exitcode for member in members]
        if any(code != 0 for code in codes):
            return Round(0, [f"processes ended with {codes}"])
        if time.gmtime().tm_yday != day:  # a new day has a new budget
            return Round(0)
        runs = asyncio.run(_count_runs(place, trials))
    answered = [
        sum(allowed[number * order.count + place] for number in range(PROCESSES)) for place in range(len(trials))
    ]
    wrong = [
        f"{trial}: {told} were allowed, {count} runs are on the ledger"
        for trial, told, count in zip(trials, answered, runs, strict=True)
        if (told, count) != (trial.cap, trial.cap)
    ]
    return Round(order.count, wrong, {"triggers": order.count * PROCESSES * SHOTS, "runs allowed": sum(answered)})


def _engine(place: Place, name: str) -> Engine:
    return Engine(place.store(), DECIDERS, name=name, sections=SECTIONS, policy=POLICY)


def _shoot_all(place: Place, trials: list[Trial], number: int, start: Barrier, allowed: Any) -> None:
    async def shoot() -> None:
        async with _engine(place, f"p{number}") as engine:
            for index, trial in enumerate(trials):
                start.wait(HANGS_S)
                shots = (_shot(engine, trial, f"{trial.tenant}-{number}-{shot}") for shot in range(SHOTS))
                allowed[number * len(trials) + index] = sum(await asyncio.gather(*shots))

    asyncio.run(shoot())


async def _shot(engine: Engine, trial: Trial, key: str) -> bool:
    """Trigger until there is an answer; whether a run was allowed."""
    while True:
        try:
            return (await Runs(engine, Caller(trial.tenant)).trigger(trial.request(key), trace=False)).result == "ALLOW"
        except (StoreError, Overloaded):
            await asyncio.sleep(0.01)


async def _count_runs(place: Place, trials: list[Trial]) -> list[int]:
    async with _engine(place, "observer") as engine:
        return [len((await Runs(engine, Caller(trial.tenant)).runs()).items) for trial in trials]
