"""Backtests and alternatives over times of a hold: the recorded policy decides what was recorded, to the byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from betimes.app.betimes import Betimes
from betimes.app.settings import Settings
from betimes.backtest.plan import Candidate, Plan
from betimes.backtest.report import BacktestReport
from betimes.core.instants import MINUTE, parse, render
from betimes.core.streams import StreamId
from betimes.engine.jobs import Job, Submission
from betimes.engine.queries import StreamQuery
from betimes.engine.rehearsal import Rehearsal, RehearsedStep
from betimes.engine.settings import EngineSettings
from betimes.engine.tenants.model import tenant_stream
from betimes.engine.virtual_clock import VirtualClock
from betimes.ledger.alternatives import find_alternatives
from betimes.schedules.model import TriggerSchedule
from tests.backtest.recordings import TRAFFIC, TickingClock, holds, recorded
from tests.domains.recorded_town import verdicts_of
from tests.http.stores import STORES, StoreName, application_on

START = "2026-03-20T09:00:00Z"
"""Nine days before clocks go forward in Berlin."""
BERLIN = "Europe/Berlin"
BRIEFING = {
    "kind": "notification",
    "user_id": "ann",
    "event_type": "MESSAGE",
    "priority_hint": "HIGH",
    "title": "Good morning",
    "message": "Your day",
    "source": "cron",
    "channels": ["in_app"],
}
stores = pytest.mark.parametrize("store", STORES)


class Diary:
    """An application in which a hold comes and goes."""

    def __init__(self, bt: Betimes, clock: VirtualClock) -> None:
        self.bt = bt
        self.clock = clock

    async def brief_every_morning(self) -> None:
        await self.bt.notifications.set_preferences(
            "ann", {"timezone": BERLIN, "quiet_hours": [{"start": "22:00", "end": "08:00"}]}
        )
        schedule = {"schedule_id": "briefing", "cron": "30 8 * * *", "timezone": BERLIN, "target": BRIEFING}
        await self.bt.schedules.create({**schedule, "max_catchup_ticks": 3})

    async def wish_every_evening(self) -> None:
        await self.bt.intents.create(
            {
                "intent_id": "review",
                "user_id": "ann",
                "trigger_type": "cron",
                "schedule": {"cron": "30 2 * * *", "timezone": BERLIN},
                "action_type": "notify",
                "action_context": "Look back at the day.",
            }
        )

    async def tell_ann(self, title: str) -> None:
        note = {**BRIEFING, "event_id": title.replace(" ", "-"), "title": title, "message": title}
        del note["kind"]
        await self.bt.notifications.send(note)

    async def advance(self, to: str) -> None:
        assert (await self.bt.advance(to=to)).complete

    async def hold(self, *domains: str, until: str) -> None:
        named = {"domains": list(domains)} if domains else {}
        assert (await self.bt.mine.tenants.set_hold({**named, "until": until, "reason": "a drill"})).held

    async def heard(self) -> list[str]:
        items = (await self.bt.notifications.inbox("ann", limit=100)).items
        return [f"{item.delivered_at:%m-%dT%H:%M}" for item in reversed(items)]

    async def backtest(self, since: str | None = None, **policy: Any) -> BacktestReport:
        since_at = parse(since) if since else None
        return await self.bt.backtest(
            Plan(candidates=(Candidate("other", policy, "default"),), since_at=since_at), jobs=1
        )

    async def assert_reproduced(self, *sinces: str) -> None:
        """Rehearse from the beginning and from inside the hold, and decide every verdict again by itself."""
        for since in (None, *sinces):
            report = await self.backtest(since)
            control, (same,) = report.control, report.candidates
            assert control.reproduced, control.differences
            assert control.identical == control.segments > 0
            assert (same.flip_count, same.refused, same.gone) == (0, {}, 0)
        for segment in await verdicts_of(self.bt.engine):
            view = await find_alternatives(self.bt.engine, segment)
            assert view.reproduced, (segment.handle, view.why_not)


@asynccontextmanager
async def open_diary(store: StoreName, folder: Path) -> AsyncIterator[Diary]:
    clock = VirtualClock(START)
    async with application_on(store, folder, clock) as bt:
        yield Diary(bt, clock)


@stores
async def test_a_month_of_briefings_held_over_a_change_of_clocks(store: StoreName, tmp_path: Path) -> None:
    async with open_diary(store, tmp_path) as diary:
        await diary.brief_every_morning()
        await diary.advance("2026-03-25T12:00:00Z")
        await diary.hold("automation", until="2026-04-02T10:00:00Z")
        await diary.advance("2026-04-20T12:00:00Z")
        heard = await diary.heard()
        assert "03-25T07:30" in heard, "half past eight is 07:30 UTC in winter"
        assert not [at for at in heard if "03-25T12" < at < "04-02T10"]
        assert "04-02T10:00" in heard, "eight were missed"
        assert "04-03T06:30" in heard, "and 06:30 in summer"
        await diary.assert_reproduced("2026-03-29T00:30:00Z", "2026-04-02T10:00:00Z")


@stores
async def test_a_hold_that_is_ended_early_and_followed_by_another(store: StoreName, tmp_path: Path) -> None:
    async with open_diary(store, tmp_path) as diary:
        await diary.brief_every_morning()
        await diary.wish_every_evening()
        await diary.hold(until="2026-04-10T00:00:00Z")
        await diary.advance("2026-03-22T06:00:00Z")
        await diary.bt.schedules.trigger("briefing")
        await diary.tell_ann("asked for")
        await diary.advance("2026-03-22T12:00:00Z")
        await diary.bt.mine.tenants.end_hold(note="the drill is over")
        await diary.hold("intents", "automation", until="2026-03-31T01:30:00Z")
        await diary.advance("2026-03-23T12:00:00Z")
        assert await diary.heard() == ["03-22T12:00"], "what was asked for by hand; the schedule is held again"
        await diary.hold("notifications", until="2026-03-24T12:00:00Z")
        await diary.advance("2026-03-26T00:00:00Z")
        await diary.assert_reproduced("2026-03-22T08:00:00Z", "2026-03-23T18:00:00Z")


@stores
async def test_intents_held_in_the_night_in_which_an_hour_is_missing(store: StoreName, tmp_path: Path) -> None:
    async with open_diary(store, tmp_path) as diary:
        await diary.wish_every_evening()
        await diary.advance("2026-03-27T12:00:00Z")
        await diary.hold("intents", until="2026-03-29T12:00:00Z")
        await diary.advance("2026-04-01T12:00:00Z")
        assert next(at for at in await diary.heard() if at > "03-28").startswith("03-29T12:0")
        await diary.assert_reproduced("2026-03-28T12:00:00Z")


@stores
async def test_a_person_asleep_hears_after_the_hold_and_not_in_the_night(store: StoreName, tmp_path: Path) -> None:
    async with open_diary(store, tmp_path) as diary:
        await diary.brief_every_morning()
        await diary.advance("2026-03-28T22:00:00Z")
        await diary.tell_ann("late")
        await diary.hold("notifications", until="2026-03-29T21:30:00Z")
        await diary.advance("2026-03-29T12:00:00Z")
        await diary.tell_ann("meanwhile")
        await diary.advance("2026-03-30T12:00:00Z")
        heard = await diary.heard()
        assert "03-29T12:00" in heard, "as old as its verdict"
        assert not [at for at in heard if "03-29T20" < at < "03-30T06"], "it is quiet from 20:00 to 06:00 UTC"
        await diary.assert_reproduced("2026-03-29T01:00:00Z", "2026-03-29T12:00:00Z")


async def test_under_another_policy_nothing_held_fires_before_the_end(tmp_path: Path) -> None:
    """Postponed by an hour instead of six, it would come inside the hold; so it comes when that ends."""
    async with open_diary("sqlite", tmp_path) as diary:
        await diary.bt.apply_policy(
            {
                "notifications": {
                    "score_defer_s": 21_600,
                    "jitter_s": 0,
                    "max_deferrals": 1,
                    "after_deferrals": "deliver",
                }
            }
        )
        note = {**BRIEFING, "event_id": "low", "event_type": "UPDATE", "priority_hint": "LOW"}
        del note["kind"]
        assert (await diary.bt.notifications.send(note)).outcome == "LATER"
        await diary.hold("notifications", until="2026-03-20T13:00:00Z")
        await diary.advance("2026-03-21T12:00:00Z")
        report = await diary.backtest(notifications={"score_defer_s": 3_600})
        assert report.control.reproduced
        (other,) = report.candidates
        assert [hour for hour, told in enumerate(other.hours_before) if told] == [15]
        assert [hour for hour, told in enumerate(other.hours_after) if told] == [13]


async def test_a_send_that_a_hold_overtakes_waits_for_its_end(tmp_path: Path) -> None:
    clock, settings = TickingClock(START), Settings(engine=EngineSettings(batch_max=1))
    async with Betimes(f"sqlite:///{tmp_path}/betimes.db", clock=clock, workers=False, settings=settings) as bt:
        diary = Diary(bt, clock)
        await diary.brief_every_morning()
        await diary.advance("2026-03-22T07:10:00Z")
        clock.ticks = True
        until = "2026-03-23T12:00:00Z"
        await asyncio.gather(bt.schedules.trigger("briefing"), diary.hold("automation", until=until))
        clock.ticks = False
        await diary.advance("2026-03-25T12:00:00Z")
        assert (await diary.heard())[:3] == ["03-21T07:30", "03-23T12:00", "03-23T12:00"], "by hand, and the missed one"
        await diary.assert_reproduced("2026-03-22T08:00:00Z")


@stores
async def test_what_waited_goes_on_before_the_end_of_the_hold_is_rung(store: StoreName, tmp_path: Path) -> None:
    async with open_diary(store, tmp_path) as diary:
        await diary.brief_every_morning()
        await diary.advance("2026-03-22T07:00:00Z")
        await diary.hold("automation", until="2026-03-22T07:20:00Z")
        await diary.bt.schedules.trigger("briefing")
        diary.clock.advance_to("2026-03-22T07:20:05Z")
        done = await diary.bt.tick(kinds=("inbox",))
        assert done.fired == {}, "the end of the hold is not rung"
        # By this pass, or by the engine's own look at sends that wait, which may come first.
        assert (await diary.heard())[-1] == "03-22T07:20"
        await diary.advance("2026-03-25T12:00:00Z")
        await diary.assert_reproduced("2026-03-22T07:00:00Z", "2026-03-22T08:00:00Z")


async def test_under_another_policy_the_earliest_of_what_waited_comes_at_the_end_of_a_hold(tmp_path: Path) -> None:
    """Nobody is there until 20:00. Postponed by three hours instead of one, it comes before the evening's digest."""
    async with open_diary("sqlite", tmp_path) as diary:
        rules = {"score_defer_s": 3_600, "jitter_s": 0, "max_deferrals": 1, "after_deferrals": "deliver"}
        await diary.bt.apply_policy({"notifications": rules})
        note = {name: value for name, value in BRIEFING.items() if name != "kind"}
        gathered = {**note, "event_id": "gathered", "event_type": "DIGEST", "priority_hint": "MEDIUM"}
        low = {**note, "event_id": "low", "event_type": "UPDATE", "priority_hint": "LOW", "message": "Less"}
        assert (await diary.bt.notifications.send(gathered)).outcome == "LATER"
        assert (await diary.bt.notifications.send(low)).outcome == "LATER"
        await diary.hold("notifications", until="2026-03-20T13:00:00Z")
        diary.clock.advance_to("2026-03-20T20:00:00Z")
        await diary.advance("2026-03-20T21:00:00Z")
        report = await diary.backtest(notifications={"score_defer_s": 3 * 3_600})
        assert report.control.reproduced
        (other,) = report.candidates
        assert [hour for hour, told in enumerate(other.hours_before) if told] == [20]
        assert [hour for hour, told in enumerate(other.hours_after) if told] == [13, 18]


async def test_what_was_held_and_is_recorded_nowhere_waits_for_a_minute(tmp_path: Path) -> None:
    async with open_diary("sqlite", tmp_path) as diary:
        await diary.brief_every_morning()
        await diary.hold("automation", until="2026-03-20T12:00:00Z")
        engine, steps = diary.bt.engine, list[RehearsedStep]()
        world = Rehearsal(
            engine.kinds,
            engine.book,
            engine.settings,
            told=steps.append,
            call=lambda id, call, at: (),
            is_recorded=lambda id, waited: waited < MINUTE,
        )
        world.begin_at(diary.clock())
        tenant, schedule = tenant_stream("default"), StreamId("default", "schedule", "briefing")
        for row in await engine.store.streams(StreamQuery()):
            state = engine.kinds.of(row.stream).state(row.stream, row.schema, row.state)
            world.put(row.stream, row.version, state, row.at)
        world.decide(Job(Submission(stream=schedule, command=TriggerSchedule())))
        world.settle_down()
        for _ in range(9):
            world.put(tenant, world.version(tenant), world.state(tenant), diary.clock())
        assert len(world.held._looks) == 1, "nothing changed for what waits"
        world.advance_to(parse("2026-03-20T12:00:59Z"))
        assert [step.stream.kind for step in steps] == ["schedule", "tenant"]
        world.advance_to(parse("2026-03-20T12:02:00Z"))
        delivered = [step for step in steps if step.stream.kind == "inbox"]
        assert [render(step.recorded.at) for step in delivered] == ["2026-03-20T12:01:00Z"]


@pytest.mark.parametrize("seed", range(3))
async def test_alternatives_reproduce_verdicts_of_times_with_holds(seed: int) -> None:
    async with recorded(*TRAFFIC.values(), holds, holds, seed=seed, steps=50) as live:
        segments = await verdicts_of(live.bt.engine)
        for segment in segments[:: max(1, len(segments) // 100)]:
            view = await find_alternatives(live.bt.engine, segment)
            assert view.reproduced, (segment.handle, view.why_not)
