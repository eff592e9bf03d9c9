"""Bounded passes over everything that is due, and moving a virtual clock from one due instant to the next."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec

from betimes.core.instants import Instant, earliest
from betimes.domains.scores.model import KIND
from betimes.engine.engine import Engine, TickResult
from betimes.services.hourly_sweep import HourlySweep
from betimes.services.intent_worker import IntentWorker
from betimes.testing.clock import VirtualClock

INTENTS_MAX = 200
"""Intents one pass works off."""
MIN_S = 0.1
"""Time every part of a pass has, whatever those before it took."""


async def one_pass(
    engine: Engine,
    intents: IntentWorker,
    sweep: HourlySweep,
    limit: int,
    max_s: float,
    tenant: str | None,
    kinds: tuple[str, ...] | None = None,
) -> TickResult:
    """Due intents, the hour's sweep, then alarms and effects, of these kinds if given; says what is still due.

    `intents` and `sweep` work for the same tenant, or for all.
    """
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + max_s
    fired: Counter[str] = Counter()
    due_at: Instant | None = None
    complete = True
    if kinds is None or "intent" in kinds:
        fired["intent"] = (await intents.once(min(limit, INTENTS_MAX))).total()
    if kinds is None or KIND in kinds:
        swept = await sweep.once(limit, max_s)
        fired[KIND], complete = swept.decayed + swept.skipped, swept.complete
        due_at = await sweep.next_at() if complete else await engine.store.now()
    done = await engine.tick(limit=limit, max_s=max(MIN_S, ends_s - loop.time()), tenant=tenant, kinds=kinds)
    if kinds is None or "intent" in kinds:
        due_at = earliest(due_at, await engine.store.next_due("due", ["intent"], tenant=tenant))
    return msgspec.structs.replace(
        done, fired=dict(Counter(done.fired) + fired), next_due_at=earliest(done.next_due_at, due_at),
        complete=done.complete and complete and (due_at is None or due_at > done.now),
    )  # fmt: skip


async def advanced(
    tick: Callable[[float], Awaitable[TickResult]], clock: VirtualClock, to: Instant, max_s: float
) -> TickResult:
    """Go from one due instant to the next; stops early when it takes too long or something due stays due."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + max_s
    fired: Counter[str] = Counter()
    effects: Counter[str] = Counter()
    sends = 0
    while True:
        done = await tick(max(MIN_S, until_s - loop.time()))
        fired.update(done.fired)
        effects.update(done.effects)
        sends += done.sends
        stuck = not done.complete and not (done.fired or done.effects or done.sends)
        if stuck or loop.time() >= until_s or (done.complete and clock() >= to):
            complete = done.complete and clock() >= to
            return msgspec.structs.replace(
                done, fired=dict(fired), effects=dict(effects), sends=sends, complete=complete
            )
        if done.complete:
            clock.advance_to(to if done.next_due_at is None else min(to, max(done.next_due_at, clock())))
