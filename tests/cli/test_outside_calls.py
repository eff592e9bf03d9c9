"""Questions about calls that fail, are held, or have nobody to make them: no command says that all is well."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from betimes import BlockingBetimes, ChannelMessage, GiveUp, VirtualClock
from betimes.engine.read_model import ProcessRow
from betimes.ledger.fleet import read_wall_clock
from betimes.sensors.model import Evaluation, RunRequest
from betimes.stores.sqlite import SqliteStore
from tests.cli.running_inside import command as betimes

NOTE: dict[str, Any] = {
    "event_id": "hello",
    "user_id": "ana",
    "event_type": "MESSAGE",
    "priority_hint": "HIGH",
    "message": "See you at nine?",
    "title": "Tom replied",
    "source": "chat",
    "channels": ["push"],
}
START = "2026-11-17T06:00:00Z"


def first_line(*words: str, folder: Path) -> str:
    said = betimes(*words, folder=folder)
    assert said.code == 0, said.err
    return said.out.splitlines()[0]


@contextmanager
def printing(folder: Path) -> Iterator[BlockingBetimes]:
    """Open an application with a schedule whose printer is on fire, and one that has no ink."""
    bt = BlockingBetimes(f"sqlite:///{folder}/betimes.db", clock=VirtualClock(START))

    @bt.schedule("5 6 * * *")
    def morning(tick: Any) -> None:
        raise ValueError("printer on fire")

    @bt.schedule("6 6 * * *")
    def noon(tick: Any) -> None:
        raise GiveUp("no ink")

    with bt:
        yield bt


def note_process(folder: Path, *executors: str) -> None:
    """Note that a process lives that has these executors."""

    async def beat() -> None:
        now = read_wall_clock()
        store = SqliteStore(folder / "betimes.db")
        await store.open()
        await store.beat(ProcessRow("server-1", "server", "1.0.0", executors, now, now), forget_before=0)
        await store.close()

    asyncio.run(beat())


def test_why_says_that_the_handler_of_a_schedule_fails_and_what_it_waits_for(tmp_path: Path) -> None:
    with printing(tmp_path) as bt:
        bt.advance(to="2026-11-17T06:05:10Z")
    failed = ", but its handler schedule.morning has failed 2 times, last with ValueError('printer on fire'); "
    said = first_line("why", "morning", folder=tmp_path)
    assert said.startswith("On Tuesday 17 November 2026 at 06:05 UTC, ")
    assert ", the schedule morning fired, but its handler" in said
    assert (
        f"{failed}it waits for a process that has handler:schedule.morning (`betimes serve --app module:name`). "
        in said
    )
    [result] = betimes("why", "morning", "--json", folder=tmp_path).json["results"]
    assert (result["key"], result["status"], result["attempts"]) == ("schedule:morning:2:0", "pending", 2)
    assert result["waits_for"] == "handler:schedule.morning"
    note_process(tmp_path, "handler:schedule.morning")
    assert f"{failed}the next attempt is at 06:05:" in first_line("why", "morning", folder=tmp_path)


def test_why_says_that_the_call_of_a_schedule_is_a_dead_letter(tmp_path: Path) -> None:
    with printing(tmp_path) as bt:
        bt.advance(to="2026-11-17T06:06:10Z")
    assert (
        ", but its handler schedule.noon failed once and is a dead letter: no ink; "
        "`betimes effects retry schedule:noon:2:0` tries again. " in first_line("why", "noon", folder=tmp_path)
    )


def test_explain_says_how_often_an_effect_was_tried_and_why_it_failed(tmp_path: Path) -> None:
    with printing(tmp_path) as bt:
        bt.advance(to="2026-11-17T06:05:10Z")
    assert (
        "  effect schedule:morning:2:0: handler schedule.morning, pending, 2 attempts, last error: "
        "ValueError('printer on fire'), next attempt at 2026-11-17T06:05:"
        in betimes("explain", "schedule:morning:2", folder=tmp_path).out
    )


def test_the_ticks_of_a_schedule_say_how_their_calls_go(tmp_path: Path) -> None:
    with printing(tmp_path) as bt:
        bt.advance(to="2026-11-17T06:06:10Z")
    [tick] = betimes("schedule", "ticks", "morning", "--json", folder=tmp_path).json["items"]
    assert (tick["status"], tick["run"]["attempts"], tick["run"]["error"]) == (
        "fired",
        3,
        "ValueError('printer on fire')",
    )
    said = betimes("schedule", "ticks", "morning", folder=tmp_path, COLUMNS="200").out
    assert said.split("\n")[0].split() == [
        *("scheduled_for", "status", "cause", "run_id", "run", "attempts", "next_attempt_at", "error")
    ]
    assert f"{tick['run']['next_attempt_at']}  ValueError('printer on fire')" in said
    assert "  dead  no ink" in betimes("schedule", "ticks", "noon", folder=tmp_path, COLUMNS="200").out


def test_a_run_that_never_met_the_gate_is_explained_by_who_asked_for_it(tmp_path: Path) -> None:
    with printing(tmp_path) as bt:
        bt.advance(to="2026-11-17T06:05:10Z")
    [tick] = betimes("schedule", "ticks", "morning", "--json", folder=tmp_path).json["items"]
    said = betimes("run", "show", tick["run_id"], folder=tmp_path)
    assert said.code != 0
    assert "started a handler, which the gate does not judge; see betimes why morning" in said.err


def test_status_counts_calls_that_fail_and_names_the_process_that_is_missing(tmp_path: Path) -> None:
    with printing(tmp_path) as bt:
        bt.advance(to="2026-11-17T06:06:10Z")
    said = betimes("status", folder=tmp_path).out
    assert "  effects   1 pending, 1 of them failing, 1 dead letter\n" in said
    assert "  ! 1 call failed and is retried: see last_error in `betimes effects list --status pending`\n" in said
    assert (
        "  ! no process has handler:schedule.morning: 1 call waits for one that does; "
        "start `betimes serve --app module:name`\n" in said
    )


def test_why_says_that_the_handlers_of_a_sensor_and_an_intent_fail(tmp_path: Path) -> None:
    bt = BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=VirtualClock(START))

    @bt.handler("briefing")
    def briefing(call: Any) -> None:
        raise ValueError("no news")

    @bt.sensor("60s", target={"kind": "handler", "name": "briefing"})
    async def orders(cursor: Any, context: Any) -> Evaluation:
        return Evaluation((RunRequest("o-1"),), cursor=1)

    hourly = {"trigger_type": "interval", "schedule": {"interval_minutes": 60}}
    with bt:
        bt.intents.put("news", {"user_id": "ana", **hourly, "action_type": "briefing", "action_context": "News."})
        bt.advance(by_s=61)
        said = first_line("why", "orders", folder=tmp_path)
        assert ", but its handler briefing has failed 3 times, last with ValueError('no news'); " in said
        bt.advance(by_s=3600)
    assert "Its check failed: ValueError('no news'); the next check is at 07:15. [failed" in first_line(
        "why", "news", folder=tmp_path
    )


def test_a_cooling_intent_says_when_it_is_taken_next(tmp_path: Path) -> None:
    # Long after any day on which the tests run: the command line asks the real clock what is still to come.
    price: dict[str, Any] = {
        "user_id": "ana",
        "trigger_type": "price",
        "condition": {"expression": "NVDA < 130", "cooldown_hours": 168},
        "action_type": "notify",
        "action_context": "NVDA is under 130.",
    }
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=VirtualClock("2096-11-17T06:00:00Z")) as bt:
        bt.intents.put("nvda", price)
        bt.intents.fire("nvda", {"status": "success"})
    shown = betimes("intent", "show", "nvda", "--json", folder=tmp_path).json
    assert (shown["next_check"], shown["due_at"]) == ("2096-11-17T06:05:00Z", "2096-11-24T06:00:00Z")
    assert "2096-11-24T06:00:00Z" in betimes("intent", "list", folder=tmp_path, COLUMNS="200").out
    said = betimes("why", "nvda", folder=tmp_path).out
    assert "Its action was carried out; the next check is at 06:00 on Saturday 24 November 2096. [success" in said
    assert "It will be judged again at 06:00 on Saturday 24 November 2096." in said
    day = betimes("day", "ana", "--date", "2096-11-17", folder=tmp_path, COLUMNS="200").out
    assert "the next check is at 06:00 on Saturday 24 November 2096." in day
    assert "06:05" not in said + day


def test_why_of_a_schedule_explains_a_newer_tick_that_was_asked_for_by_hand(tmp_path: Path) -> None:
    with printing(tmp_path) as bt:
        bt.advance(to="2026-11-17T06:05:10Z")
        bt.schedules.trigger("morning")
        bt.advance(by_s=1)
    said = first_line("why", "morning", folder=tmp_path)
    assert said.startswith("On Tuesday 17 November 2026 at 06:05:10 UTC, ")
    failed = "but its handler schedule.morning has failed once, with ValueError('printer on fire'); "
    assert f", the schedule morning fired, {failed}" in said
    assert said.endswith("The tick of 06:05:10 fired (manual). [fired, schedule:morning:3]")


def test_why_of_a_segment_without_a_decision_says_what_happened_in_it(tmp_path: Path) -> None:
    with printing(tmp_path):
        pass
    assert first_line("why", "schedule:morning:1", folder=tmp_path) == (
        "Nothing was decided about morning on Tuesday 17 November 2026 at 06:00 UTC; "
        "what happened: schedule defined, schedule declared (DefineSchedule from app). [schedule:morning:1]"
    )


def test_why_says_that_nobody_has_the_function_of_a_channel(tmp_path: Path) -> None:
    bt = BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=VirtualClock(START), workers=False)

    @bt.channel("push")
    def push(message: ChannelMessage) -> None: ...

    with bt:
        bt.notifications.send(NOTE)
    said = first_line("why", "hello", folder=tmp_path)
    assert (
        ", but it is not delivered yet: push waits for a process that has deliver:function:push "
        "(`betimes serve --app module:name`). " in said
    )


def test_why_says_that_a_delivery_is_held_and_until_when(tmp_path: Path) -> None:
    until = (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0)
    bt = BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db")

    @bt.channel("push")
    def push(message: ChannelMessage) -> None:
        raise ConnectionError("busy")

    with bt:
        bt.mine.tenants.set_hold({"domains": ["notifications"], "until": until, "reason": "the move"})
        bt.notifications.send(NOTE)
        said = first_line("why", "hello", folder=tmp_path)
    assert f", but it is not delivered yet: push is held until {f'{until:%H:%M:%S}'.removesuffix(':00')}" in said
    assert " (the move). " in said
