"""Schedules through the service, on every store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from betimes.core.deciders import EffectCall
from betimes.core.errors import Invalid, NotFound, Refused, VersionMismatch
from betimes.core.instants import parse
from betimes.core.zones import TZDATA_VERSION
from betimes.engine.effects import GiveUp
from betimes.engine.replay import verify
from betimes.schedules.views import BackfillRequest, PreviewRequest, Tick
from tests.automation.worlds import HANDLER, Automation, automation_world
from tests.definition_requests import schedule_request
from tests.stores.backends import Backend

NINE = datetime(2026, 1, 5, 9, tzinfo=UTC)
FIVE = timedelta(minutes=5)


async def all_ticks(world: Automation, **filters: Any) -> list[Tick]:
    found: list[Tick] = []
    cursor = None
    while True:
        page = await world.schedules.ticks("brief", cursor=cursor, **filters)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_a_tick_runs_its_target_and_its_history_says_what_became_of_it(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.schedule(payload={"x": 1}, asset_selection=["a"])
        await world.go(300.012)
        [tick] = (await world.schedules.ticks("brief")).items
        assert (tick.tick_id, tick.run_key) == ("brief:1767603900", "sched:brief:1767603900")
        assert (tick.status, tick.cause, tick.scheduled_for, tick.lag_ms) == ("fired", "cron", NINE + FIVE, 12)
        assert (tick.definition_version, tick.asset_selection) == (1, ("a",))
        assert tick.run
        assert (tick.run.status, tick.run.verdict) == ("done", None)
        assert [(body["run_key"], body["payload"]) for body in world.called] == [(tick.run_key, {"x": 1})]
        assert (await verify(world.engine.store, world.engine.kinds)).is_sound


async def test_runs_of_a_backfill_are_no_overlap_to_the_schedule(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.schedule(overlap="skip")
        await world.schedules.backfill("brief", BackfillRequest(NINE - 3 * FIVE, NINE))
        await world.settle()
        await world.go(300)
        [tick] = (await world.schedules.ticks("brief", limit=1)).items
        assert (tick.status, tick.cause, tick.scheduled_for) == ("fired", "cron", NINE + FIVE)


@pytest.mark.parametrize(
    ("kind", "command", "path"),
    [
        ("nothing", {"type": "Open"}, "target.stream.kind"),
        ("sensor", {"type": "Open"}, "target.command"),
        ("sensor", {}, "target.command"),
        ("sensor", {"type": "Wake"}, "target.command"),
        ("sensor", {"type": "ResetCursor"}, "target.command"),
    ],
)
async def test_a_command_nobody_could_read_is_refused_when_it_is_saved(
    backend: Backend, tmp_path: Path, kind: str, command: dict[str, Any], path: str
) -> None:
    target = {"kind": "command", "stream": {"kind": kind, "id": "x"}, "command": command}
    async with automation_world(backend, tmp_path) as world:
        for refused in (world.schedule(target=target), world.sensor(target=target)):
            with pytest.raises(Invalid) as found:
                await refused
            assert [name for name, _ in found.value.problems] == [path]
        await world.schedule(
            target=target | {"stream": {"kind": "sensor", "id": "x"}, "command": {"type": "DisableSensor"}}
        )


async def test_every_field_of_an_answer_is_there(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.schedule(max_catchup_ticks=1)
        assert msgspec.to_builtins((await world.schedules.get("brief")).dst) == {"gap": None, "overlap": None}
        await world.go(3_600)
        fired, skipped = (await world.schedules.ticks("brief")).items
        assert skipped.status == "skipped"
        assert skipped.tzdata_version == fired.tzdata_version == TZDATA_VERSION


async def test_a_trigger_target_shows_its_verdict(backend: Backend, tmp_path: Path) -> None:
    target = {"kind": "trigger", "account_id": "acct", "trigger_type": "SIGNAL_ARRIVED"}
    async with automation_world(backend, tmp_path) as world:
        await world.schedule(target=target)
        await world.go(300)
        [tick] = (await world.schedules.ticks("brief")).items
        assert tick.run
        assert tick.run.verdict
        assert (tick.run.verdict.result, tick.run.verdict.reason) == ("ALLOW", "WITHIN_LIMITS")


async def test_down_for_three_days_fires_ten_and_records_two_ranges(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.schedule(max_catchup_ticks=10)
        await world.go(3 * 86_400)
        ticks = await all_ticks(world)
        assert [tick.status for tick in ticks] == ["fired"] * 10 + ["skipped"] * 2
        assert [(t.reason, t.count, t.tick_id, t.run_id) for t in ticks[10:]] == [
            ("OVER_CATCHUP_LIMIT", 278, None, None),
            ("MISSED_OUTSIDE_WINDOW", 576, None, None),
        ]
        assert len({tick.segment_id for tick in ticks}) == 1
        fired_for = [datetime.fromtimestamp(int(body["run_key"].rsplit(":")[-1]), UTC) for body in world.called]
        assert sorted(fired_for) == [tick.scheduled_for for tick in reversed(ticks[:10])]


async def test_two_controllers_fire_each_tick_once(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        for number in range(30):
            await world.schedule(f"s{number}", "* * * * *")
        for _ in range(3):
            world.clock.advance(60)
            await asyncio.gather(world.settle(), world.settle(other=True))
        await world.settle()
        keys = [body["run_key"] for body in world.called]
        assert len(keys) == len(set(keys)) == 90


async def test_history_comes_in_pages_in_order(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.schedule(max_catchup_ticks=7)
        for pause in (300, 1_200, 300, 9_000):
            await world.go(pause)
        whole = await all_ticks(world)
        paged = await all_ticks(world, limit=2)
        assert whole == paged
        assert len(whole) == 1 + 4 + 1 + 7 + 1
        fired = [tick for tick in whole if tick.status == "fired"]
        assert fired == await all_ticks(world, status="fired", limit=3)
        assert [t.scheduled_for for t in fired] == sorted((t.scheduled_for for t in fired), reverse=True)
        with pytest.raises(NotFound):
            await world.schedules.ticks("nobody")


async def test_definitions_are_made_changed_listed_and_removed(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.schedule("a", "0 9 * * *", timezone="Europe/Berlin")
        await world.schedule("b", enabled=False)
        schedules = world.schedules
        a = await schedules.get("a")
        assert (a.version, a.status, a.next_tick_at) == (1, "active", datetime(2026, 1, 6, 8, tzinfo=UTC))
        patched = await schedules.patch("a", {"timezone": None, "payload": {"x": 1}})
        assert (patched.version, patched.timezone, patched.payload) == (2, "UTC", {"x": 1})
        with pytest.raises(VersionMismatch):
            await schedules.patch("a", {"cron": "0 1 * * *"}, if_match=1)
        with pytest.raises(Refused, match="already"):
            await world.schedule("a")
        with pytest.raises(VersionMismatch):
            await schedules.put("a", schedule_request({"cron": "* * * * *", "target": HANDLER}), only_create=True)
        assert [s.schedule_id for s in (await schedules.list()).items] == ["b", "a"]
        assert [s.schedule_id for s in (await schedules.list(status="paused")).items] == ["b"]
        first = await schedules.list(limit=1)
        assert [s.schedule_id for s in (await schedules.list(limit=1, cursor=first.next_cursor)).items] == ["a"]
        assert (await schedules.enable("b")).version == 2
        assert (await schedules.disable("b", if_match=2)).status == "paused"
        await schedules.delete("a")
        with pytest.raises(NotFound):
            await schedules.get("a")
        with pytest.raises(NotFound):
            await schedules.delete("a")
        again = await schedules.put("a", schedule_request({"cron": "* * * * *", "target": HANDLER}))
        assert again.version > 2


async def test_what_get_shows_can_be_put_back(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.schedule(starts_at="2026-02-01T00:00:00Z", dst={"gap": "skip"})
        shown = msgspec.to_builtins(await world.schedules.get("brief"))
        same = await world.schedules.put("brief", schedule_request(shown))
        assert same.version == 1


async def test_every_problem_of_a_definition_is_named(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        with pytest.raises(Invalid) as found:
            await world.schedule("a:b", "99 * * * *", timezone="Mars/Base")
        assert [path for path, _ in found.value.problems] == ["schedule_id", "cron", "timezone"]
    with pytest.raises(Invalid) as found:
        schedule_request({"target": {"kind": "handler"}, "jitter_seconds": -1, "surprise": 1})
    assert {path for path, _ in found.value.problems} == {"cron", "target.name", "jitter_seconds", "surprise"}


async def test_a_preview_saves_nothing(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        request = PreviewRequest("30 2 * * *", "Europe/Berlin", from_=datetime(2026, 3, 28, tzinfo=UTC), count=3)
        shown = await world.schedules.preview(request)
        assert shown.recurrence_text == "At 02:30 every day"
        assert [tick.local for tick in shown.items] == [
            "2026-03-28T02:30:00+01:00",
            "2026-03-29T03:00:00+02:00",
            "2026-03-30T02:30:00+02:00",
        ]
        with pytest.raises(Invalid):
            await world.schedules.preview(PreviewRequest("x"))
        assert (await world.schedules.list()).items == []


async def test_a_schedule_says_in_english_when_it_ticks_and_its_next_three_ticks(
    backend: Backend, tmp_path: Path
) -> None:
    async with automation_world(backend, tmp_path) as world:
        weekdays = {"cron": "0 8 * * *", "target": HANDLER, "exclude": {"weekdays": ["SAT", "SUN"]}}
        shown = await world.schedules.create(weekdays)
        assert shown.recurrence_text == "At 08:00 every day, except on Saturday, Sunday"
        assert [at.day for at in shown.next_ticks] == [6, 7, 8]
        ending = {"every": {"seconds": 5400}, "target": HANDLER, "ends_at": "2026-01-05T12:00:00Z"}
        shown = await world.schedules.create(ending)
        assert (shown.recurrence_text, shown.next_ticks) == (
            "Every 90 minutes",
            [datetime(2026, 1, 5, 10, 30, tzinfo=UTC)],
        )
        assert (await world.schedules.disable(shown.schedule_id)).next_ticks == []


async def test_a_manual_tick_is_answered_with_its_run(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.schedule(enabled=False)
        tick = await world.schedules.trigger("brief", {"y": 2})
        assert (tick.tick_id, tick.cause, tick.run and tick.run.status) == (
            "brief:manual:1767603600",
            "manual",
            "asked",
        )
        assert await world.elsewhere.trigger("brief", {"y": 2}) == tick
        with pytest.raises(Refused) as refused:
            await world.schedules.trigger("brief", {"y": 3})
        assert refused.value.reason == "RUN_KEY_CONFLICT"
        await world.settle()
        assert [body["payload"] for body in world.called] == [{"y": 2}]


async def test_overlaps_are_skipped_until_the_run_has_ended(backend: Backend, tmp_path: Path) -> None:
    failing = True

    async def slow(call: EffectCall) -> None:
        if failing:
            raise RuntimeError("not yet")

    async with automation_world(backend, tmp_path, executors={"handler:slow": slow}) as world:
        await world.schedule(cron="* * * * *", target={"kind": "handler", "name": "slow"}, overlap="skip")
        await world.go(60)
        await world.go(60)
        failing = False
        await world.go(600)
        await world.go(60)
        ticks = await all_ticks(world)
        reasons = [tick.reason for tick in reversed(ticks)]
        assert reasons[:2] == [None, "OVERLAP"]
        assert ticks[0].status == "fired"


async def test_a_dead_letter_ends_a_run_too(backend: Backend, tmp_path: Path) -> None:
    async def hopeless(call: EffectCall) -> None:
        raise GiveUp("no use")

    async with automation_world(backend, tmp_path, executors={"handler:hopeless": hopeless}) as world:
        await world.schedule(cron="* * * * *", target={"kind": "handler", "name": "hopeless"}, overlap="skip")
        await world.go(60)
        await world.go(60)
        ticks = await all_ticks(world)
        assert [(t.status, t.run and t.run.status) for t in ticks] == [("fired", "dead")] * 2


async def test_listing_and_pausing_do_not_wait_behind_firing(backend: Backend, tmp_path: Path) -> None:
    """A thousand owed ticks are not fired by a command that stops them, nor by one that only looks."""
    async with automation_world(backend, tmp_path) as world:
        await world.schedule(cron="* * * * *", max_catchup_ticks=1_000)
        world.clock.advance(1_000 * 60)
        assert [s.status for s in (await world.schedules.list()).items] == ["active"]
        assert (await world.schedules.disable("brief")).status == "paused"
        await world.settle()
        assert world.called == []
        await world.schedules.enable("brief")
        [skipped] = await all_ticks(world)
        assert (skipped.reason, skipped.count) == ("PAUSED", 1_000)


# -- backfills


async def test_a_backfill_fires_what_never_fired_and_counts_what_did(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.schedule(cron="0 * * * *")
        await world.go(3_600)
        await world.go(3 * 3_600)
        assert len(world.called) == 2
        request = BackfillRequest(NINE - timedelta(hours=2), NINE + timedelta(hours=4), 2)
        started = await world.schedules.backfill("brief", request, key="k")
        assert (started.status, started.total) == ("running", 6)
        await world.settle()
        ended = await world.schedules.get_backfill("brief", started.backfill_id)
        assert (ended.status, ended.done, ended.existing, ended.failed) == ("completed", 5, 1, 0)
        keys = [body["run_key"] for body in world.called]
        assert len(keys) == len(set(keys)) == 7
        causes = [tick.cause for tick in await all_ticks(world, status="fired")]
        assert sorted(causes) == ["backfill"] * 5 + ["cron"] * 2
        again = await world.schedules.backfill("brief", request)
        await world.settle()
        assert (await world.schedules.get_backfill("brief", again.backfill_id)).existing == 6
        assert len(world.called) == 7
        listed = (await world.schedules.backfills("brief")).items
        assert {item.backfill_id for item in listed} == {started.backfill_id, again.backfill_id}


async def test_a_backfill_is_paused_resumed_and_cancelled(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.schedule(cron="0 * * * *")
        request = BackfillRequest(NINE - timedelta(hours=9), NINE, 1)
        one = await world.schedules.backfill("brief", request)
        assert (await world.schedules.pause_backfill("brief", one.backfill_id)).status == "paused"
        await world.settle()
        assert len(world.called) <= 1
        await world.schedules.resume_backfill("brief", one.backfill_id)
        with pytest.raises(Refused) as refused:
            await world.schedules.resume_backfill("brief", one.backfill_id)
        assert refused.value.reason == "WRONG_STATE"
        await world.schedules.cancel_backfill("brief", one.backfill_id)
        await world.settle()
        assert (await world.schedules.get_backfill("brief", one.backfill_id)).status == "cancelled"
        assert len(world.called) < 9
        with pytest.raises(NotFound):
            await world.schedules.get_backfill("other", one.backfill_id)


async def test_a_range_that_is_too_long_or_in_the_future_is_refused(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.schedule(cron="* * * * * *")
        for start, end in ((NINE, NINE + FIVE), (NINE, NINE), (NINE - timedelta(days=3), NINE)):
            with pytest.raises(Invalid):
                await world.schedules.backfill("brief", BackfillRequest(start, end))


async def test_a_tick_backfilled_before_it_was_rung_is_not_fired_again(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.schedule(cron="0 * * * *")
        world.clock.advance_to(parse("2026-01-05T10:00:01Z"))
        request = BackfillRequest(NINE, datetime(2026, 1, 5, 10, 0, 1, tzinfo=UTC))
        await world.schedules.backfill("brief", request)
        await world.settle()
        keys = [body["run_key"] for body in world.called]
        assert len(keys) == len(set(keys)) == 2
        fired = await all_ticks(world, status="fired")
        assert len({tick.tick_id for tick in fired}) == len(fired) == 2


async def test_a_schedule_may_sweep_at_other_times(backend: Backend, tmp_path: Path) -> None:
    swept: list[EffectCall] = []

    async def sweep(call: EffectCall) -> None:
        swept.append(call)

    async with automation_world(backend, tmp_path, executors={"sweep": sweep}) as world:
        await world.schedules.create(
            schedule_request({"schedule_id": "sweep", "cron": "0 * * * *", "target": {"kind": "sweep"}})
        )
        await world.go(3_600)
        assert len(swept) == 1
