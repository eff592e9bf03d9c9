"""Backtests: a month of recorded traffic under two other policies, next to how fast it was recorded in the same run.

The month is recorded through the engine with full durability: preferences of people in several zones, notifications to
them, a few with the same text, and triggers for accounts, in rounds of ten minutes with every alarm rung at their end.
A smaller scale records fewer rounds, each as full as those of the month: half-empty ones would make the live rate that
of an idle engine. `live_per_s` counts the commands of the recording. `backtest_per_s` counts the commands the backtest
goes through, each decided under three policies: the recorded one, which must reproduce every verdict, and two
candidates.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Awaitable, Iterator
from itertools import count, islice
from typing import Any

from benchmarks.domains.service import DATABASES
from betimes import VirtualClock
from betimes.app.betimes import Betimes
from betimes.backtest.plan import Candidate, Plan
from betimes.runs.views import TriggerRequest

NOTIFICATIONS, TRIGGERS, DAYS = 1_000_000, 100_000, 30
PEOPLE, ACCOUNTS = 10_000, 2_000
ROUND_S = 600
ROUNDS = DAYS * 86_400 // ROUND_S
START = "2026-03-01T00:00:00Z"
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Sydney")
KINDS = ("MESSAGE", "ALERT", "REMINDER", "UPDATE", "PROMO")
HINTS = ("HIGH", "MEDIUM", "LOW", None)
POLICY: dict[str, Any] = {"notifications": {"jitter_s": 60}, "runs": {"daily_run_budget": 50}}
FEWER = {"fatigue": {"hour": {"cap": 2, "span_s": 3600}}}
CANDIDATES = (
    Candidate("fewer per hour", {**POLICY, "notifications": {**POLICY["notifications"], **FEWER}}),
    Candidate("tight budget", {**POLICY, "runs": {"daily_run_budget": 5}}),
)


async def backtest(kind: str, scale: float) -> list[dict[str, Any]]:
    """A month under two other policies, next to the live rate."""
    async with DATABASES[kind]() as url:
        clock = VirtualClock(START)
        bt = Betimes(url, clock=clock, policy=POLICY, report=lambda report: None)
        async with bt:
            commands, live_s = await _recorded(bt, clock, scale)
            started = time.perf_counter()
            report = await bt.backtest(Plan(candidates=CANDIDATES), jobs=os.cpu_count())
            seconds = time.perf_counter() - started
    live, rate = commands / live_s, report.commands / seconds
    return [
        {
            "store": kind,
            "commands": report.commands,
            "segments": report.segments,
            "verdicts": report.control.verdicts,
            "reproduced": report.control.same,
            "live_per_s": live,
            "backtest_s": seconds,
            "backtest_per_s": rate,
            "decided_per_s": 3 * rate,
            "over_live": rate / live,
            "part_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        }
    ]


async def _recorded(bt: Betimes, clock: VirtualClock, scale: float) -> tuple[int, float]:
    """Record the month, or the part of it that the scale asks for; return how many commands, and in how long."""
    rounds = ROUNDS if scale >= 1 else max(1, int(ROUNDS * scale))
    notes, triggers = _notes(PEOPLE), _triggers(ACCOUNTS)
    started = time.perf_counter()
    await _set_preferences(bt)
    total = PEOPLE
    for number in range(rounds):
        share = [whole * (number + 1) // ROUNDS - whole * number // ROUNDS for whole in (NOTIFICATIONS, TRIGGERS)]
        asked: list[Awaitable[Any]] = [bt.runs.trigger(one) for one in islice(triggers, share[1])]
        asked += [bt.notifications.send(one, trace=False) for one in islice(notes, share[0])]
        await asyncio.gather(*asked)
        total += len(asked)
        clock.advance(ROUND_S)
        while not (await bt.tick(limit=10_000, max_s=60)).complete:
            pass
    return total, time.perf_counter() - started


async def _set_preferences(bt: Betimes) -> None:
    quiet = [{"start": "22:00", "end": "07:00"}]
    for first in range(0, PEOPLE, 500):
        await asyncio.gather(
            *(
                bt.notifications.set_preferences(
                    f"p{person}", {"timezone": ZONES[person % len(ZONES)], "quiet_hours": quiet}
                )
                for person in range(first, first + 500)
            )
        )


def _notes(people: int) -> Iterator[dict[str, Any]]:
    for number in count():
        hint = HINTS[number % len(HINTS)]
        yield {
            "event_id": f"e{number}",
            "user_id": f"p{number * 7_919 % people}",
            "source": "bench",
            "event_type": KINDS[number % len(KINDS)],
            "title": "News",
            "channels": ["in_app"],
            "message": f"Order {number // 3} has gone on to the next of its {number % 40} places",
            **({"priority_hint": hint} if hint else {}),
        }


def _triggers(accounts: int) -> Iterator[TriggerRequest]:
    for number in count():
        yield TriggerRequest(
            account_id=f"a{number * 31 % accounts}",
            trigger_type="SIGNAL_ARRIVED",
            idempotency_key=f"t{number}",
            payload={"number": number},
        )


SUITES = {"backtest": backtest}
