"""Sensors and schedules: a storm of messages from several processes, and a controller suspended for a minute."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.automation.storm import Storm, rage
from tests.automation.suspending import suspend
from tests.soak.rounds import Order, Round

SUSPENDED_S = 60


def send_storm(order: Order) -> Round:
    """Send messages to one sensor, three in ten again; each is evaluated once and asks for one run."""
    with order.place() as place:
        storm = Storm(place=place, messages=order.count, seed=order.seed)
        outcome = asyncio.run(rage(storm, verified=True))
    notes = {"distinct": outcome.distinct, "runs": outcome.runs, "repetitions answered": outcome.replayed}
    return Round(outcome.sent, outcome.wrong, notes)


def suspend_controllers(order: Order) -> Round:
    """Suspend a controller whose schedule ticks every second; every second is fired or skipped with a reason, once."""
    result = Round(order.count, [])
    with order.place() as place:
        found = asyncio.run(suspend(place, Path(order.folder), SUSPENDED_S))
    result.findings += found.wrong
    return result
