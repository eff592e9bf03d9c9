"""The nominal time goes all the way: to handlers, webhooks and triggers, however late a tick fires."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from betimes import Betimes
from betimes.core.instants import parse
from betimes.core.streams import StreamId
from betimes.engine.virtual_clock import VirtualClock
from betimes.runs.model import RequestRun

FIELDS = ("run_key", "scheduled_for", "data_interval_start", "data_interval_end", "partition_key")


def named(body: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(body[name] for name in FIELDS[1:])


async def test_after_three_days_down_every_partition_is_written_once(tmp_path: Path) -> None:
    """A nightly job was down from Saturday to Tuesday, over the end of summer time."""
    clock = VirtualClock("2026-10-24T12:00:00Z")
    written: dict[str, list[str]] = {}

    def application() -> Betimes:
        bt = Betimes(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock)

        @bt.schedule(
            "30 2 * * *", tz="Europe/Berlin", partition="daily", max_catchup_ticks=10, catchup_window_minutes=10_000
        )
        async def nightly(body: dict[str, Any]) -> None:
            written.setdefault(body["partition_key"], []).append(
                f"{body['data_interval_start']}/{body['data_interval_end']}"
            )

        return bt

    async with application():
        pass
    clock.advance_to("2026-10-27T12:00:00Z")
    async with application() as bt:
        await bt.tick()
        ticks = (await bt.schedules.ticks("nightly")).items
    assert [tick.cause for tick in ticks] == ["cron", "catchup", "catchup"]
    assert written == {
        "2026-10-24": ["2026-10-24T00:30:00Z/2026-10-25T00:30:00Z"],
        "2026-10-25": ["2026-10-25T00:30:00Z/2026-10-26T01:30:00Z"],
        "2026-10-26": ["2026-10-26T01:30:00Z/2026-10-27T01:30:00Z"],
    }


async def test_five_catch_up_ticks_carry_five_times() -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    bt = Betimes("memory://", clock=clock)
    bodies: list[dict[str, Any]] = []
    bt.handler("brief")(bodies.append)
    async with bt:
        target = {"kind": "handler", "name": "brief"}
        await bt.schedules.create(
            {
                "schedule_id": "s",
                "every": {"seconds": 3_600},
                "target": target,
                "max_catchup_ticks": 5,
                "partition": "hourly",
                "payload": {"style": "short"},
            }
        )
        clock.advance_to("2026-01-05T14:10:00Z")
        await bt.tick()
    assert sorted(map(named, bodies)) == [
        (
            f"2026-01-05T{hour}:00:00Z",
            f"2026-01-05T{hour - 1:02}:00:00Z",
            f"2026-01-05T{hour}:00:00Z",
            f"2026-01-05T{hour - 1:02}Z",
        )
        for hour in range(10, 15)
    ]
    assert {body["run_key"] for body in bodies} == {
        f"sched:s:{parse(f'2026-01-05T{hour}:00:00Z') // 1_000_000}" for hour in range(10, 15)
    }
    assert bodies[0]["payload"] == {"style": "short"}


async def test_a_triggers_scheduled_at_is_the_nominal_time_and_its_run_is_given_it() -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    bt = Betimes("memory://", clock=clock)
    details: list[dict[str, Any]] = []
    bt.run("BRIEF", debounce_seconds=0, cooldown_seconds=0)(details.append)
    async with bt:
        target = {"kind": "trigger", "account_id": "ann", "trigger_type": "BRIEF"}
        await bt.schedules.create({"schedule_id": "s", "cron": "0 * * * *", "target": target, "partition": "daily"})
        clock.advance_to("2026-01-05T10:40:00Z")
        await bt.tick()
        _, segments = await bt.engine.store.history(StreamId("default", "account", "ann"), 0, 10)
        asked = [bt.engine.kinds.of(it.stream).command(it.command or "", "test") for it in segments]
        await bt.runs.trigger({"account_id": "bob", "trigger_type": "BRIEF", "idempotency_key": "by-hand"})
        await bt.tick()
    assert [it.scheduled_at for it in asked if isinstance(it, RequestRun)] == [parse("2026-01-05T10:00:00Z")]
    [scheduled, by_hand] = details
    assert scheduled["scheduled_at"] == "2026-01-05T10:00:00Z"
    assert scheduled["run_key"] == f"sched:s:{parse('2026-01-05T10:00:00Z') // 1_000_000}"
    assert named(scheduled) == ("2026-01-05T10:00:00Z", "2026-01-05T09:00:00Z", "2026-01-05T10:00:00Z", "2026-01-05")
    assert not set(FIELDS) & set(by_hand)


async def test_a_worker_that_claims_runs_learns_which_time_each_is_for(tmp_path: Path) -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    registry = {"BRIEF": {"debounce_seconds": 0, "cooldown_seconds": 0}}
    bt = Betimes(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock, policy={"runs": {"registry": registry}})
    async with bt:
        target = {"kind": "trigger", "account_id": "ann", "trigger_type": "BRIEF"}
        await bt.schedules.create(
            {"schedule_id": "s", "cron": "0 * * * *", "target": target, "max_catchup_ticks": 5, "partition": "hourly"}
        )
        clock.advance_to("2026-01-05T14:10:00Z")
        await bt.tick()
        claims = await bt.runs.claim_many({"worker": "outside"})
        await bt.runs.trigger({"account_id": "bob", "trigger_type": "BRIEF", "idempotency_key": "by-hand"})
        [by_hand] = await bt.runs.claim_many({"worker": "outside"})
        shown = await bt.runs.run(claims[0].run.run_id)
    runs = [claim.run.to_dict() for claim in claims]
    assert sorted(map(named, runs)) == [
        (f"2026-01-05T{hour}:00:00Z", f"2026-01-05T{hour - 1:02}:00:00Z", f"2026-01-05T{hour}:00:00Z",
         f"2026-01-05T{hour - 1:02}Z")
        for hour in range(10, 15)
    ]  # fmt: skip
    assert named(shown.to_dict()) == named(runs[0])
    assert named(by_hand.run.to_dict()) == (None, None, None, None)


async def test_a_tick_by_hand_reaches_back_to_the_last_occurrence() -> None:
    clock = VirtualClock("2026-01-05T09:20:05.5Z")
    bt = Betimes("memory://", clock=clock)
    bodies: list[dict[str, Any]] = []
    bt.handler("brief")(bodies.append)
    async with bt:
        target = {"kind": "handler", "name": "brief"}
        await bt.schedules.create({"schedule_id": "s", "cron": "0 8 * * *", "target": target, "enabled": False})
        await bt.schedules.trigger("s")
        await bt.tick()
    assert [named(body) for body in bodies] == [
        ("2026-01-05T09:20:05Z", "2026-01-05T08:00:00Z", "2026-01-05T09:20:05Z", None)
    ]


async def test_a_backfill_has_the_times_of_its_ticks() -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    bt = Betimes("memory://", clock=clock)
    bodies: list[dict[str, Any]] = []
    bt.handler("brief")(bodies.append)
    async with bt:
        target = {"kind": "handler", "name": "brief"}
        await bt.schedules.create({"schedule_id": "s", "cron": "@daily", "target": target, "partition": "daily"})
        await bt.schedules.backfill("s", {"from": "2026-01-01T00:00:00Z", "to": "2026-01-04T00:00:00Z"})
        await bt.advance(by_s=60)
    assert sorted(body["partition_key"] for body in bodies) == ["2025-12-31", "2026-01-01", "2026-01-02"]


async def test_a_definition_is_shown_patched_and_previewed_with_all_its_fields() -> None:
    bt = Betimes("memory://", clock=VirtualClock("2026-01-05T09:00:00Z"))
    async with bt:
        target = {"kind": "sweep"}
        view = await bt.schedules.create(
            {
                "schedule_id": "s",
                "cron": ["0 8 * * *", "@weekly"],
                "target": target,
                "exclude": {"dates": ["2026-01-06"]},
                "partition": "weekly",
            }
        )
        shown = view.to_dict()
        assert shown["cron"] == ["0 8 * * *", "@weekly"]
        assert (shown["every"], shown["partition"]) == (None, "weekly")
        assert shown["exclude"] == {"dates": ["2026-01-06"], "weekdays": []}
        assert shown["next_tick_at"] == "2026-01-07T08:00:00Z"
        patched = await bt.schedules.patch(
            "s", {"cron": None, "every": {"seconds": 7_200}, "exclude": None, "partition": None}
        )
        shown = patched.to_dict()
        assert (shown["cron"], shown["every"]) == (None, {"seconds": 7_200, "anchor": None})
        assert (shown["exclude"], shown["partition"]) == (None, None)
        assert shown["next_tick_at"] == "2026-01-05T10:00:00Z"
        preview = await bt.schedules.preview(
            {"cron": ["0 8 * * *", "0 9 * * *"], "exclude": {"weekdays": ["TUE"]}, "count": 3}
        )
        assert [tick.local[:16] for tick in preview.items] == [
            "2026-01-05T09:00",
            "2026-01-07T08:00",
            "2026-01-07T09:00",
        ]


async def test_a_tick_whose_run_failed_says_why() -> None:
    bt = Betimes("memory://", clock=VirtualClock("2026-01-05T09:00:00Z"))

    @bt.handler("brief")
    def brief(body: dict[str, Any]) -> None:
        raise ValueError("there is no paper left")

    async with bt:
        target = {"kind": "handler", "name": "brief"}
        await bt.schedules.create({"schedule_id": "daily", "cron": "0 10 * * *", "target": target})
        await bt.advance(by_s=20 * 3_600)
        [tick] = (await bt.schedules.ticks("daily")).items
    assert tick.run
    assert tick.run.status == "dead"
    assert "there is no paper left" in (tick.run.error or "")
