"""The sweep that nobody has to ask for: on the full hour, in virtual time, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path

import pytest

from betimes.app import Betimes
from betimes.app.configuration import parse_configuration
from betimes.app.passes import advance_some, one_pass
from betimes.app.settings import Settings
from betimes.core.errors import Invalid
from betimes.core.instants import parse, render
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.replay import verify
from betimes.engine.store import LedgerQuery
from betimes.engine.tenants.model import DEPLOYMENT, SetPolicy
from betimes.engine.tick_result import TickResult
from betimes.engine.virtual_clock import VirtualClock
from betimes.intents.worker import IntentWorker
from betimes.scores.hourly_sweep import HourlySweep, SweepSettings
from betimes.scores.model import Decayed
from betimes.scores.service import Interaction, NewScore, Scores
from tests.engine.worlds import World
from tests.patience import HANGS_S
from tests.scores.worlds import scores_world
from tests.stores.backends import Backend

HOURLY = SweepSettings()
NOON = "2026-02-01T12:15:00Z"
"""When the scores of these tests are made: grace ends a day later, at a quarter past noon."""


async def passed(engine: Engine, sweep: HourlySweep, left_s: float = 25.0) -> TickResult:
    return await one_pass(engine, IntentWorker(engine, name="test"), sweep, 1_000, left_s, None, ("score",))


async def go(w: World, to: str, settings: SweepSettings = HOURLY) -> TickResult:
    """Move the clock as the application does, from one instant at which something is due to the next."""
    sweep = HourlySweep(w.engine, settings)
    return await advance_some(lambda left_s: passed(w.engine, sweep, left_s), w.clock, parse(to), 25.0)


async def made(w: World, *users: str, tenant: str = "acme") -> Scores:
    w.clock.advance_to(NOON)
    scores = Scores(w.engine, Caller(tenant))
    for user in users:
        await scores.create(NewScore(user_id=user, score=Decimal(60)))
    return scores


async def periods(w: World, user: str) -> list[tuple[str, str]]:
    """What was applied to a score, oldest first: from when to when."""
    segments = await w.store.ledger(LedgerQuery(kind="score", id=user, limit=1_000))
    events = [event for segment in segments for event in w.engine.kinds.of(segment.stream).events(segment)]
    return [(_clock(event.from_at), _clock(event.to_at)) for event in events if isinstance(event, Decayed)]


def _clock(at: int) -> str:
    return render(at)[11:16]


async def test_a_neglected_score_is_swept_on_every_full_hour(backend: Backend, tmp_path: Path) -> None:
    """AC-FR004-001"""
    async with scores_world(backend, tmp_path) as (w, _):
        scores = await made(w, "ann")
        done = await go(w, "2026-02-02T15:10:00Z")
        assert await periods(w, "ann") == [("12:15", "13:00"), ("13:00", "14:00"), ("14:00", "15:00")]
        assert (await scores.get("ann")).score == Decimal("57.8")
        assert (done.complete, done.fired) == (True, {"score": 3})
        assert done.next_due_at == parse("2026-02-02T16:00:00Z")
        assert (await verify(w.store, w.engine.kinds)).is_sound


async def test_while_nothing_is_due_nothing_happens(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, _):
        await made(w, "ann")
        done = await go(w, "2026-02-02T12:14:00Z")
        assert (done.complete, done.fired, done.next_due_at) == (True, {}, parse("2026-02-02T13:00:00Z"))
        assert await periods(w, "ann") == []


async def test_any_number_of_processes_do_one_hour_together(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, _):
        await made(w, *(f"u{n}" for n in range(20)))
        await made(w, *(f"u{n}" for n in range(20)), tenant="globex")
        w.clock.advance_to("2026-02-02T13:30:00Z")
        both = [HourlySweep(engine, HOURLY) for engine in (w.engine, w.other)]
        swept = await asyncio.gather(*(sweep.once() for sweep in both))
        swept += await asyncio.gather(*(sweep.once() for sweep in both))
        assert sum(result.decayed for result in swept) == 40
        for user in ("u0", "u19"):
            assert await periods(w, user) == [("12:15", "13:00")] * 2


async def test_after_days_without_anybody_there_is_one_sweep_up_to_the_last_full_hour(
    backend: Backend, tmp_path: Path
) -> None:
    async with scores_world(backend, tmp_path) as (w, _):
        scores = await made(w, "ann")
        w.clock.advance_to("2026-02-05T08:42:00Z")
        assert (await passed(w.engine, HourlySweep(w.engine, HOURLY))).fired == {"score": 1}
        assert await periods(w, "ann") == [("12:15", "08:00")]
        assert (await scores.get("ann")).score == 40  # the cap per cycle


async def test_a_pass_of_one_tenant_sweeps_that_tenant(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, _):
        await made(w, "ann")
        others = await made(w, "bob", tenant="globex")
        w.clock.advance_to("2026-02-02T13:30:00Z")
        sweep = HourlySweep(w.engine, HOURLY, tenant="acme")
        assert (await sweep.once()).decayed == 1
        assert (await others.get("bob")).score == 60
        assert await sweep.next_at() == parse("2026-02-02T14:00:00Z")


async def test_it_can_be_timed_otherwise_or_turned_off(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, _):
        await made(w, "ann")
        done = await go(w, "2026-02-02T13:10:00Z", SweepSettings(every_s=900))
        assert await periods(w, "ann") == [("12:15", "12:30"), ("12:30", "12:45"), ("12:45", "13:00")]
        assert done.next_due_at == parse("2026-02-02T13:15:00Z")
        done = await go(w, "2026-02-02T18:00:00Z", SweepSettings(enabled=False))
        assert (done.fired, done.next_due_at) == ({}, None)
        assert len(await periods(w, "ann")) == 3


async def test_a_bounded_pass_says_that_there_is_more(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, _):
        await made(w, *(f"u{n}" for n in range(3)))
        w.clock.advance_to("2026-02-02T13:30:00Z")
        sweep, intents = HourlySweep(w.engine, HOURLY), IntentWorker(w.engine, name="test")
        done = await one_pass(w.engine, intents, sweep, 2, 25.0, None, ("score",))
        assert (done.fired, done.complete, done.next_due_at) == ({"score": 2}, False, w.clock())
        done = await one_pass(w.engine, intents, sweep, 2, 25.0, None, ("score",))
        assert (done.fired, done.complete) == ({"score": 1}, True)


async def test_a_score_that_cannot_be_decided_stands_in_nobodys_way(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, _):
        scores = await made(w, "ann")
        await scores.create(NewScore(user_id="lost", chapter=2))
        first = {"name": 1, "grace_hours": 24, "rate": "0.8", "daily_cap": 15}
        await w.engine.submit(Submission(stream=DEPLOYMENT, command=SetPolicy({"scores": {"stages": [first]}})))
        done = await go(w, "2026-02-03T15:10:00Z")
        assert (done.complete, done.next_due_at) == (True, parse("2026-02-03T16:00:00Z"))
        assert (await periods(w, "ann"))[-1] == ("14:00", "15:00")
        assert await periods(w, "lost") == []


# -- in a process that runs


def running(clock: VirtualClock, settings: SweepSettings = HOURLY) -> Betimes:
    """An application whose workers run, by a clock that stands still."""
    return Betimes("memory://", tenant="acme", clock=lambda: clock(), settings=Settings(sweep=settings))


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(HANGS_S):
        while not await holds():  # noqa: ASYNC110 — a worker of another task is waited for, which signals nobody
            await asyncio.sleep(0)


async def test_a_process_that_runs_sweeps_without_being_asked() -> None:
    clock = VirtualClock(NOON)
    bt = running(clock)
    bt.configure(workers=False)
    async with bt:
        await bt.scores.create(NewScore(user_id="ann", score=Decimal(60)))
        clock.advance_to("2026-02-02T13:30:00Z")
        bt.start_workers()

        async def is_swept() -> bool:
            return (await bt.scores.get("ann")).score < 60

        await until(is_swept)
        assert (await bt.scores.get("ann")).score == Decimal("59.4")


async def test_a_tick_sweeps_and_so_does_a_virtual_clock_that_is_moved() -> None:
    clock = VirtualClock(NOON)
    async with Betimes("memory://", tenant="acme", clock=clock) as bt:
        await bt.scores.create(NewScore(user_id="ann", score=Decimal(60)))
        clock.advance_to("2026-02-02T13:30:00Z")
        assert (await bt.tick(kinds=("inbox",))).fired == {}
        assert (await bt.tick()).fired == {"score": 1}
        assert (await bt.advance(by_s=3 * 3600)).fired == {"score": 3}


async def test_with_the_sweep_turned_off_scores_wait_to_be_swept() -> None:
    clock = VirtualClock(NOON)
    settings = Settings(sweep=SweepSettings(enabled=False))
    async with Betimes("memory://", tenant="acme", clock=clock, settings=settings) as bt:
        await bt.scores.create(NewScore(user_id="ann"))
        assert (await bt.advance(by_s=40 * 3600)).fired == {}
        assert (await bt.scores.sweep()).decayed == 1


def test_it_is_timed_in_the_configuration() -> None:
    assert parse_configuration({"sweep": {"every_s": 900}}).settings.sweep == SweepSettings(every_s=900)
    assert not parse_configuration({"sweep": {"enabled": False}}).settings.sweep.enabled
    with pytest.raises(Invalid, match=r"sweep\.every_s"):
        parse_configuration({"sweep": {"every_s": 1}})


async def test_a_pass_whose_time_is_nearly_up_sweeps_all_the_same(backend: Backend, tmp_path: Path) -> None:
    """A slow machine is no fault of whoever asked for the tick."""
    async with scores_world(backend, tmp_path) as (w, _):
        await made(w, "ana")
        w.clock.advance_to("2026-02-02T13:00:00Z")
        assert (await passed(w.engine, HourlySweep(w.engine, HOURLY), 0.2)).complete
        assert await periods(w, "ana")


async def test_tenants_whose_scores_come_due_later_are_in_nobody_s_way(backend: Backend, tmp_path: Path) -> None:
    """They have something due now, but not by the full hour; passes that give each tenant its share go to them too."""
    async with scores_world(backend, tmp_path) as (w, _):
        await made(w, "early", tenant="zoe")
        w.clock.advance_to("2026-02-01T13:15:00Z")
        for number in range(40):
            await Scores(w.engine, Caller(f"t{number:02}")).create(NewScore(user_id="late", score=Decimal(60)))
        w.clock.advance_to("2026-02-02T13:45:00Z")
        swept = await HourlySweep(w.engine, HOURLY).once(limit=10)
        assert (swept.processed, swept.complete) == (1, True)


async def test_a_sweep_leaves_nothing_outdated_in_the_cache(backend: Backend, tmp_path: Path) -> None:
    """Whoever acts on a score after it was swept would be decided by what was, and meet a conflict."""
    async with scores_world(backend, tmp_path) as (w, _):
        scores = await made(w, "ann")
        w.clock.advance_to("2026-02-02T13:45:00Z")
        assert (await HourlySweep(w.engine, HOURLY).once()).decayed == 1
        await scores.interact("ann", Interaction(type="text"))
        assert w.engine._queue._transactions._asks_first == 0
