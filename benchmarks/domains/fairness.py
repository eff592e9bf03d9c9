"""Fairness: what one tenant at a hundred times its share costs another.

Quiet tenants do the same in three ways, in turns: alone; beside one that has as much as each of them (its share); and
beside one that has a hundred times as much. What they wait for: the answer to a command, the beginning of a call, a
wake after its alarm, their part of a sweep, a backtest of what they did, a verdict on a live stream. Each way's figure
is the median of the rounds' p99, because the ways of one round meet the same machine and one bad round says nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from statistics import median
from typing import Any

from benchmarks.domains.service import DATABASES
from benchmarks.places import PLACES, Place
from betimes.app.betimes import Betimes
from betimes.backtest.jobs import BacktestRequest, Backtests, BacktestView
from betimes.catalogue import DECIDERS
from betimes.catalogue import SECTIONS as ALL_SECTIONS
from betimes.core.deciders import EffectCall
from betimes.core.instants import SECOND
from betimes.core.streams import StreamId
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.reports import Observer, Written
from betimes.ledger.verdict_feed import FeedFilters, VerdictFeed, VerdictTail
from betimes.runs.service import Runs
from betimes.runs.views import TriggerRequest
from betimes.scores.service import NewScore, Scores
from betimes.testing.sample import SAMPLE, SECTIONS, Knock

Row = dict[str, Any]
Waits = list[float]
ROUNDS = 5
WAYS = {"alone": 0, "share": 1, "loud": 100}
"""How much the other tenant has, in shares."""
QUIET = ("quiet1", "quiet2", "quiet3", "quiet4")
CALL_S = 0.05
COOLDOWN_S = 6
LOUD_CANDIDATES = 19
"""With the policy in force ten times what the others try, who try one."""
READERS = 20
_names = count(1)


@asynccontextmanager
async def gates(
    place: Place, policy: Row, executors: Row | None = None, observe: Observer | None = None
) -> AsyncIterator[Engine]:
    name = f"fair{next(_names)}"
    async with Engine(
        place.store(),
        SAMPLE,
        name=name,
        sections=SECTIONS,
        policy={"gates": policy},
        executors=executors,
        observe=observe,
    ) as engine:
        yield engine


def knock(tenant: str, gate: object, visitor: str = "ann") -> Submission:
    return Submission(stream=StreamId(tenant, "gate", f"g{gate}"), command=Knock(visitor))


async def commits(place: Place, shares: int, scale: float) -> Waits:
    """From a command to its answer; each tenant has one submitter, the loud one as many as it has shares."""
    waits: Waits = []
    async with gates(place, {"cooldown_s": 0, "per_hour": 1_000_000}) as engine:

        async def submit_for_ever(number: int) -> None:
            for step in count():
                await engine.submit(knock("loud", f"{number}-{step % 50}"))

        async def submit(tenant: str) -> None:
            for number in range(int(150 * scale)):
                began_s = time.perf_counter()
                await engine.submit(knock(tenant, number % 50))
                waits.append(time.perf_counter() - began_s)

        async with together(submit_for_ever(number) for number in range(shares)):
            await asyncio.gather(*map(submit, QUIET))
    return waits


async def calls(place: Place, shares: int, scale: float) -> Waits:
    """From the command that asks for a call to its beginning; calls take 50 ms, and the loud tenant's wait already."""
    asked_s: dict[str, float] = {}
    waits: Waits = []
    wanted = int(100 * scale)
    done = asyncio.Event()

    async def greet(call: EffectCall) -> None:
        if asked := asked_s.get(f"{call.id.tenant}{call.id.id}"):
            waits.append(time.perf_counter() - asked)
            if len(waits) == wanted:
                done.set()
        await asyncio.sleep(CALL_S)

    async with gates(place, {"cooldown_s": 0, "greet": True}, {"handler:greet": greet}) as engine:
        await asyncio.gather(*(engine.submit(knock("loud", number)) for number in range(int(shares * 20 * scale))))
        engine.start_workers()
        await asyncio.sleep(CALL_S)
        for number in range(wanted):
            tenant = QUIET[number % len(QUIET)]
            asked_s[f"{tenant}g{number}"] = time.perf_counter()
            await engine.submit(knock(tenant, number))
            await asyncio.sleep(0.02)
        await done.wait()
    return waits


async def wakes(place: Place, shares: int, scale: float) -> Waits:
    """From an alarm's instant to the commit that decides it; those of the loud tenant are due at the start."""
    waits: Waits = []
    wanted = int(100 * scale)
    done = asyncio.Event()

    def observe(written: Sequence[Written]) -> None:
        now = time.time()
        for segment, _, _ in written:
            if segment.stream.tenant != "loud" and segment.command == '{"type":"Wake"}':
                waits.append(now - due_s[segment.stream])
                if len(waits) == wanted:
                    done.set()

    due_s: dict[StreamId, float] = {}
    async with gates(place, {"cooldown_s": COOLDOWN_S}, observe=observe) as engine:

        async def postpone(tenant: str, number: int) -> None:
            await engine.submit(knock(tenant, number))
            answer = await engine.submit(knock(tenant, number, "bob"))
            assert answer.verdict
            assert answer.verdict.until
            due_s[answer.stream] = answer.verdict.until / SECOND

        await asyncio.gather(*(postpone("loud", number) for number in range(int(shares * 30 * scale))))
        for number in range(wanted):
            await postpone(QUIET[number % len(QUIET)], number)
            await asyncio.sleep(0.01)
        first_s = min(at for stream, at in due_s.items() if stream.tenant != "loud")
        await asyncio.sleep(max(0.0, first_s - time.time()))
        engine.start_workers()
        await done.wait()
    return waits


@asynccontextmanager
async def application(place: Place, observe: Observer) -> AsyncIterator[Engine]:
    registry = {
        "SIGNAL_ARRIVED": {
            "debounce_seconds": 0,
            "cooldown_seconds": 0,
            "max_per_account_per_hour": 100_000,
            "max_per_tenant_per_hour": 100_000,
        }
    }
    policy = {"runs": {"registry": registry, "tenant_daily_run_budget": 1_000_000_000}}
    name = f"fair{next(_names)}"
    async with Engine(
        place.store(), DECIDERS, name=name, sections=ALL_SECTIONS, policy=policy, observe=observe
    ) as engine:
        yield engine


async def sweeps(place: Place, shares: int, scale: float) -> Waits:
    """From the beginning of a sweep over everybody to the commit that takes a score; all of them are due."""
    waits: Waits = []
    began_s = float("inf")

    def observe(written: Sequence[Written]) -> None:
        now = time.perf_counter()
        if now > began_s:
            waits.extend(now - began_s for segment, _, _ in written if segment.stream.tenant != "loud")

    each = int(200 * scale)
    async with application(place, lambda written: None) as engine:
        since = datetime.now(UTC) - timedelta(hours=40)
        for tenant, number in (("loud", each * shares), *((tenant, each) for tenant in QUIET)):
            made = [NewScore(user_id=f"u{n}-{next(_names)}", created_at=since) for n in range(number)]
            if made:
                await Scores(engine, Caller(tenant)).create_many(made)
            since += timedelta(minutes=1)
    # Opened again, so that SQLite's log of making the scores is not cleared while they are swept.
    async with application(place, observe) as engine:
        began_s = time.perf_counter()
        await Scores(engine, Caller("*")).sweep(unbounded=True)
    return waits


async def backtests(place: Place, shares: int, scale: float) -> Waits:
    """From asking for a backtest to its report.

    Beside its share the other asks for the same when they do. Loud, it has ten times the history of each and tries
    ten times as many policies, it has begun before, and it asks again as soon as it has a report.
    """
    each, is_loud = int(400 * scale), shares > 1
    async with DATABASES[place.kind]() as url, Betimes(url, workers=False, report=lambda report: None) as bt:
        for tenant, number in (("loud", each * (10 if is_loud else shares)), *((tenant, each) for tenant in QUIET)):
            await trigger_many(bt, tenant, number)
        bt.start_workers()
        begun = asyncio.Event()

        async def backtest_for_ever() -> None:
            while True:
                await backtest(bt, "loud", range(1, 1 + LOUD_CANDIDATES), begun)

        async with together([backtest_for_ever()] if is_loud else [backtest(bt, "loud") for _ in range(shares)]):
            if is_loud:
                await begun.wait()
            return await asyncio.gather(*(backtest(bt, tenant) for tenant in QUIET))


async def trigger_many(bt: Betimes, tenant: str, number: int) -> None:
    runs = bt.for_caller(Caller(tenant)).runs
    for start in range(0, number, 500):
        requests = (
            TriggerRequest(account_id=f"a{n % 50}", trigger_type="SIGNAL_ARRIVED", idempotency_key=f"k{n}")
            for n in range(start, min(start + 500, number))
        )
        await asyncio.gather(*(runs.trigger(request, trace=False) for request in requests))


async def backtest(
    bt: Betimes, tenant: str, budgets: Iterable[int] = (5,), begun: asyncio.Event | None = None
) -> float:
    """Have the tenant's traffic rehearsed under other budgets; return how long it took to have the report."""
    asked = Backtests(bt.engine, Caller(tenant))
    started_s = time.perf_counter()
    view: BacktestView = await asked.ask(BacktestRequest(sweep={"runs.daily_run_budget": [*budgets]}))
    while view.status not in ("done", "failed"):
        await asyncio.sleep(0.02)
        view = await asked.get(view.backtest_id)
        if begun and view.status == "running":
            begun.set()
    assert view.status == "done", view.error
    return time.perf_counter() - started_s


async def live(place: Place, shares: int, scale: float) -> Waits:
    """From a verdict's answer to its event on a stream that looks every 10 ms.

    One submitter of the other tenant never rests; beside its share it has one stream, and else as many as it may have.
    """
    answered_s: dict[str, float] = {}
    waits: Waits = []
    async with application(place, lambda written: None) as engine:
        tail = VerdictTail(engine, fresh_s=0.005)

        async def read(tenant: str) -> None:
            feed = await VerdictFeed.from_now(tail, tenant, frozenset({"runs"}), FeedFilters())
            while True:
                for _, event in await feed.read():
                    if tenant != "loud" and (answered := answered_s.get(getattr(event, "id", ""))):
                        waits.append(time.perf_counter() - answered)
                await asyncio.sleep(0.01)

        async def trigger(tenant: str, account: str) -> None:
            request = TriggerRequest(
                account_id=account, trigger_type="SIGNAL_ARRIVED", idempotency_key=f"{account}-{next(_names)}"
            )
            await Runs(engine, Caller(tenant)).trigger(request, trace=False)

        async def trigger_for_ever(number: int) -> None:
            while True:
                await trigger("loud", f"a{number}")

        readers = [read("loud") for _ in range(min(shares, READERS))]
        async with together([read("quiet1"), *readers, *map(trigger_for_ever, range(min(shares, 1)))]):
            for number in range(int(100 * scale)):
                account = f"q{number}-{next(_names)}"
                await trigger("quiet1", account)
                answered_s[account] = time.perf_counter()
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.5)
    return waits


@asynccontextmanager
async def together(work: Any) -> AsyncIterator[None]:
    """Do work beside what is measured, until that has ended."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


MEASURED: dict[str, Callable[[Place, int, float], Awaitable[Waits]]] = {
    "commits": commits,
    "calls": calls,
    "wakes": wakes,
    "sweeps": sweeps,
    "backtests": backtests,
    "live streams": live,
}


async def fairness(kind: str, scale: float) -> list[Row]:
    """Another tenant's p99 in ms: alone, beside one with its share, and beside one at 100 times its share."""
    rows: list[Row] = []
    for what, measure in MEASURED.items():
        found: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way, shares in WAYS.items():
                async with PLACES[kind](0) as place:
                    found[way].append(p99_ms(await measure(place, shares, scale)))
        alone, share, loud = (median(found[way]) for way in WAYS)
        rows.append(
            {
                "store": kind,
                "what": what,
                "alone_ms": alone,
                "share_ms": share,
                "loud_ms": loud,
                "loud_over_share": loud / share,
                "loud_over_alone": loud / alone,
            }
        )
    return rows


def p99_ms(waits: Waits) -> float:
    ordered = sorted(waits)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1e3


SUITES = {"fairness": fairness}
