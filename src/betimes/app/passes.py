"""Bounded passes over everything that is due, and moving a virtual clock from one due instant to the next."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec

from betimes.core.instants import Instant, earliest
from betimes.engine.engine import Engine, TickResult
from betimes.services.intent_worker import IntentWorker
from betimes.testing.clock import VirtualClock

INTENTS_MAX = 200
"""Intents one pass works off."""


async def one_pass(
    engine: Engine,
    intents: IntentWorker,
    limit: int,
    max_s: float,
    tenant: str | None,
    kinds: tuple[str, ...] | None = None,
) -> TickResult:
    """Due intents, then alarms (of these kinds, if given) and effects; says what is still due of all of them.

    `intents` works for the same tenant, or for all.
    """
    if kinds is not None and "intent" not in kinds:
        return await engine.tick(limit=limit, max_s=max_s, tenant=tenant, kinds=kinds)
    ends = await intents.once(min(limit, INTENTS_MAX))
    done = await engine.tick(limit=limit, max_s=max_s, tenant=tenant, kinds=kinds)
    fired = Counter(done.fired) + Counter({"intent": ends.total()})
    due_at = await engine.store.next_due("due", ["intent"], tenant=tenant)
    return msgspec.structs.replace(
        done, fired=dict(fired), next_due_at=earliest(done.next_due_at, due_at),
        complete=done.complete and (due_at is None or due_at > done.now),
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
        done = await tick(max(0.1, until_s - loop.time()))
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
