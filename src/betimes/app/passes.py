"""Bounded passes over everything that is due, and moving a virtual clock from one due instant to the next."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from betimes.core.errors import Fault
from betimes.core.instants import Instant, earliest, render
from betimes.engine.engine import Engine
from betimes.engine.tick_result import TickResult
from betimes.engine.virtual_clock import VirtualClock
from betimes.intents.worker import IntentWorker
from betimes.scores.hourly_sweep import HourlySweep
from betimes.scores.model import KIND

INTENTS_MAX = 200
"""Intents one pass works off."""
MIN_S = 0.1
"""Time every part of a pass has, whatever those before it took."""
PASS_S = 25.0
"""Seconds after which moving a clock looks whether it still gets anywhere."""
PASSES_AT_ONE_INSTANT_MAX = 100
"""Passes of `PASS_S` at one instant after which the clock counts as stuck."""


async def one_pass(
    engine: Engine,
    intents: IntentWorker | None,
    sweep: HourlySweep,
    limit: int,
    max_s: float,
    tenant: str | None,
    kinds: tuple[str, ...] | None = None,
) -> TickResult:
    """Work off intents and the sweep of the tenant, or all, then alarms and effects; say what is still due."""
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + max_s
    fired, due_at, complete = Counter[str](), None, True
    await engine.refresh_holds()
    intents = intents if kinds is None or "intent" in kinds else None
    if intents is not None:
        # Half of the time at most, so that alarms and effects have theirs.
        fired["intent"] = (await intents.once(min(limit, INTENTS_MAX), max(MIN_S, max_s / 2))).total()
    if kinds is None or KIND in kinds:
        swept = await sweep.once(limit, max(MIN_S, ends_s - loop.time()))
        fired[KIND], complete = swept.decayed + swept.skipped, swept.complete
        due_at = await sweep.next_at() if complete else await engine.store.now()
    done = await engine.tick(limit=limit, max_s=max(MIN_S, ends_s - loop.time()), tenant=tenant, kinds=kinds)
    if intents is not None:
        due_at = earliest(due_at, await intents.next_due_at())
    return msgspec.structs.replace(
        done,
        fired=dict(Counter(done.fired) + fired),
        next_due_at=earliest(done.next_due_at, due_at),
        complete=done.complete and complete and (due_at is None or due_at > done.now),
    )


Tick: TypeAlias = Callable[[float], Awaitable[TickResult]]


async def advance_fully(tick: Tick, clock: VirtualClock, to: Instant) -> TickResult:
    """Go from one due instant to the next until the clock is there and nothing is due, however long that takes.

    Raise `Fault` if something due cannot be done, or if more comes due at one instant again and again.
    """
    total: TickResult | None = None
    pass_count = 0
    while total is None or not total.complete:
        before = clock()
        done = await advance_some(tick, clock, to, PASS_S)
        total = done if total is None else _sum(total, done)
        pass_count = pass_count + 1 if clock() == before else 0
        stuck = pass_count > 0 and (not _did_anything(done) or pass_count >= PASSES_AT_ONE_INSTANT_MAX)
        if stuck and not done.complete:
            raise Fault(
                f"the clock stopped at {render(clock())}, before {render(to)}: something that is due cannot be done. "
                "See the log, and `next_due_at` of a tick"
            )
    return total


async def advance_some(tick: Tick, clock: VirtualClock, to: Instant, max_s: float) -> TickResult:
    """Go from one due instant to the next; stop early when it takes too long or something due stays due."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + max_s
    total: TickResult | None = None
    while True:
        done = await tick(max(MIN_S, until_s - loop.time()))
        total = done if total is None else _sum(total, done)
        if done.complete and clock() >= to:
            return total
        stuck = not done.complete and not _did_anything(done)
        if stuck or loop.time() >= until_s:
            return msgspec.structs.replace(total, complete=False)
        if done.complete:
            # What was due before now is due now: a clock does not go back.
            clock.advance_to(to if done.next_due_at is None else min(to, max(done.next_due_at, clock())))


def _did_anything(done: TickResult) -> bool:
    return bool(done.fired or done.effects or done.sends)


def _sum(before: TickResult, after: TickResult) -> TickResult:
    """Return what both did, and how the later one left things."""
    return msgspec.structs.replace(
        after,
        fired=dict(Counter(before.fired) + Counter(after.fired)),
        effects=dict(Counter(before.effects) + Counter(after.effects)),
        sends=before.sends + after.sends,
    )
