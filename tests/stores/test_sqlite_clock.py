"""A clock that is set ahead and back: nothing is stamped in the future unnoticed, and streams go on."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from betimes.catalogue import DECIDERS, SECTIONS
from betimes.core.instants import DAY, HOUR, MINUTE, SECOND, Instant, parse
from betimes.domain.service import Caller
from betimes.engine.clock_report import clock_problems
from betimes.engine.engine import Engine
from betimes.engine.virtual_clock import VirtualClock
from betimes.scores.service import Scores
from betimes.stores.sqlite import SqliteStore
from betimes.stores.sqlite.steady_clock import SteadyClock
from tests.http.damage import opened

START = parse("2026-01-05T09:00:00Z")


class Machine:
    """A machine whose clock somebody sets: time that passes, and by how much the wall is off."""

    def __init__(self) -> None:
        self.elapsed = 0
        self.offset = 0

    def wall(self) -> Instant:
        return START + self.elapsed + self.offset

    def clock(self, *, hold_s: float = 300) -> SteadyClock:
        return SteadyClock(self.wall, lambda: self.elapsed, step_max_s=60, hold_s=hold_s)


def engine_on(path: Path, clock: SteadyClock) -> Engine:
    return Engine(SqliteStore(path, clock=clock), DECIDERS, name="test", sections=SECTIONS)


async def test_a_day_ahead_and_back_leaves_no_stream_in_the_future(tmp_path: Path) -> None:
    machine = Machine()
    async with engine_on(tmp_path / "betimes.db", machine.clock()) as engine:
        scores = Scores(engine, Caller())
        await scores.create({"user_id": "u"})
        machine.offset, machine.elapsed = DAY, MINUTE
        assert (await scores.interact("u", {"type": "text"})).updated_at.timestamp() * SECOND == START + MINUTE
        report, told = await engine.clock_report()
        assert report is not None
        assert (report.held, report.steps, len(told)) == (DAY, 1, 1)
        machine.offset, machine.elapsed = 0, 2 * MINUTE
        assert (await scores.interact("u", {"type": "text"})).updated_at.timestamp() * SECOND == START + 2 * MINUTE
        report, told = await engine.clock_report()
        assert (report and report.held, report and report.ahead, told) == (0, 0, [])


async def test_a_clock_that_stays_ahead_is_believed_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.offset = HOUR
    with caplog.at_level(logging.WARNING, "betimes.clock"):
        for minute in range(7):
            machine.elapsed = minute * MINUTE
            assert clock() == (START + machine.elapsed if minute < 5 else machine.wall())
    assert [record.message.split(",")[0] for record in caplog.records] == [
        "the clock was stepped ahead by 3600 s",
        "the clock stays at 2026-01-05T10:05:00Z and is trusted now",
    ]


async def test_small_corrections_and_a_machine_that_slept_are_no_steps() -> None:
    machine = Machine()
    clock = machine.clock()
    for machine.offset in (0, 50 * SECOND, 100 * SECOND, 60 * SECOND):
        assert clock() == machine.wall()
    machine.elapsed = 3 * DAY
    assert (clock(), clock.steps) == (machine.wall(), 0)


async def test_a_step_back_is_believed_at_once_and_reported(tmp_path: Path) -> None:
    machine = Machine()
    async with engine_on(tmp_path / "betimes.db", machine.clock()) as engine:
        scores = Scores(engine, Caller())
        await scores.create({"user_id": "ahead"})
        machine.offset = -DAY
        await scores.create({"user_id": "other"})
        report, [told] = await engine.clock_report()
        assert report is not None
        assert (report.now, report.ahead, report.steps) == (START - DAY, DAY, 1)
        assert "86,400 s ahead of the clock" in told
        stands = await scores.interact("ahead", {"type": "text"})
        goes_on = await scores.interact("other", {"type": "text"})
        assert (stands.updated_at - goes_on.updated_at).days == 1
        machine.elapsed = DAY + MINUTE
        assert (await scores.interact("ahead", {"type": "text"})).updated_at.timestamp() * SECOND == START + MINUTE
        assert (await engine.clock_report())[1] == []


@pytest.mark.postgres
async def test_on_postgres_the_database_says_what_is_ahead_of_its_clock(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with opened("postgres", tmp_path, clock) as (bt, database):
        await bt.scores.create({"user_id": "u"})
        report, told = await bt.engine.clock_report()
        assert report is not None
        assert (report.ahead, told) == (0, [])
        await database.execute(f"UPDATE ledger SET at = at + {DAY}")
        report, told = await bt.engine.clock_report()
        assert report is not None
        assert (report.ahead, told) == (DAY, clock_problems(report, 60))
        assert len(told) == 1
