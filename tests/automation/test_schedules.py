"""Schedules as scenarios: given a definition, when time passes or somebody acts, then …"""

from __future__ import annotations

from typing import Any

from betimes.core.deciders import Call, Send
from betimes.core.instants import DAY, HOUR, MINUTE, SECOND, parse
from betimes.core.streams import StreamId
from betimes.core.zones import TZDATA_VERSION
from betimes.domain.completions import RunFinished
from betimes.domain.run_requests import RunRequested
from betimes.domain.targets import CommandTarget, StreamName, TriggerTarget, WebhookTarget
from betimes.runs.model import RequestRun, RunAsked, RunConflicted, RunState, run_id_of, run_stream
from betimes.schedules.decide import SCHEDULE
from betimes.schedules.model import DefineSchedule, DisableSchedule, ScheduleTicked, SnapshotTaken, TriggerSchedule
from betimes.testing.scenarios import given
from tests.automation.scenes import NINE, STREAM, definition, fired, of, run_of, schedule, skipped

# -- ticks


def test_a_schedule_waits_for_its_next_tick() -> None:
    schedule().then_alarm("2026-01-05T09:05:00Z")


def test_a_tick_and_its_run_are_one_segment() -> None:
    scenario = schedule(asset_selection=("b", "a")).wakes()
    epoch = NINE // SECOND + 300
    key = f"sched:subject:{epoch}"
    [tick], [requested], [snapshot] = (
        of(scenario, ScheduleTicked),
        of(scenario, RunRequested),
        of(scenario, SnapshotTaken),
    )
    assert (tick.scheduled_for, tick.fired_at, tick.cause, tick.lag_ms) == (epoch * SECOND, epoch * SECOND, "cron", 0)
    assert (requested.run_key, requested.run_id, requested.outcome) == (key, run_id_of("tenant", key), "requested")
    assert (snapshot.definition_version, snapshot.asset_selection) == (1, ("b", "a"))
    assert snapshot.tzdata_version == TZDATA_VERSION
    asked = RunAsked(key, requested.fingerprint, "handler", STREAM, epoch * SECOND)
    scenario.then_also(run_of(key), asked).then_verdict("NOW", "DUE").then_alarm("2026-01-05T09:10:00Z")
    body = {
        "run_id": requested.run_id,
        "run_key": key,
        "asset_selection": ("b", "a"),
        "scheduled_for": "2026-01-05T09:05:00Z",
        "data_interval_start": "2026-01-05T09:00:00Z",
        "data_interval_end": "2026-01-05T09:05:00Z",
        "partition_key": None,
        "partition_selection": None,
        "payload": {},
    }
    scenario.then_effects(Call("handler:brief", body, report_to=run_of(key)))


def test_a_late_tick_keeps_its_nominal_time_and_its_lag() -> None:
    scenario = schedule("0 10 * * *").at("2026-01-05T10:00:07Z").wakes()
    [tick] = of(scenario, ScheduleTicked)
    assert (tick.scheduled_for, tick.fired_at, tick.lag_ms) == (NINE + HOUR, NINE + HOUR + 7 * SECOND, 7_000)


def test_six_fields_mean_seconds_first() -> None:
    schedule("*/10 * * * * *").then_alarm("2026-01-05T09:00:10Z")


def test_restricted_days_of_month_and_week_are_either_or() -> None:
    """2026-01-05 is a Monday; the 7th a Wednesday; the 9th a Friday."""
    scenario = schedule("0 0 7 * FRI").wakes()
    assert fired(scenario) == [parse("2026-01-07T00:00:00Z")]
    assert fired(scenario.wakes()) == [parse("2026-01-09T00:00:00Z")]


def test_a_trigger_target_asks_the_account_under_the_run_key() -> None:
    scenario = schedule(target=TriggerTarget("DAILY", "acct-7"), payload={"x": 1}).wakes()
    [send] = scenario.decision.effects
    assert isinstance(send, Send)
    assert (send.to, send.key, send.collection) == (
        StreamId("tenant", "account", "acct-7"),
        f"sched:subject:{NINE // SECOND + 300}",
        "triggers",
    )
    assert isinstance(send.command, RequestRun)
    assert send.command.payload == {"x": 1}


def test_a_schedule_starts_and_ends_when_it_says() -> None:
    scenario = schedule("0 * * * *", starts_at=NINE + 3 * HOUR, ends_at=NINE + 5 * HOUR)
    scenario.then_alarm(NINE + 3 * HOUR)
    assert fired(scenario.wakes()) == [NINE + 3 * HOUR]
    assert fired(scenario.wakes()) == [NINE + 4 * HOUR]
    scenario.then_alarm(None)
    assert scenario.state
    assert scenario.state.status == "ended"


# -- catch-up


def test_down_for_three_days_fires_the_ten_newest_and_records_two_ranges() -> None:
    scenario = schedule(max_catchup_ticks=10).at(NINE + 3 * DAY).wakes()
    now = NINE + 3 * DAY
    assert fired(scenario) == [now - n * 5 * MINUTE for n in range(9, -1, -1)]
    assert skipped(scenario) == [
        ("MISSED_OUTSIDE_WINDOW", 576, NINE + 5 * MINUTE, now - DAY),
        ("OVER_CATCHUP_LIMIT", 278, now - DAY + 5 * MINUTE, now - 50 * MINUTE),
    ]
    assert [tick.cause for tick in of(scenario, ScheduleTicked)] == ["catchup"] * 9 + ["cron"]
    scenario.then_alarm(now + 5 * MINUTE)


def test_keep_oldest_fires_the_oldest_of_the_window() -> None:
    scenario = schedule(max_catchup_ticks=2, catchup_keep="oldest").at(NINE + HOUR).wakes()
    assert fired(scenario) == [NINE + 5 * MINUTE, NINE + 10 * MINUTE]
    assert skipped(scenario) == [("OVER_CATCHUP_LIMIT", 10, NINE + 15 * MINUTE, NINE + HOUR)]
    assert {tick.cause for tick in of(scenario, ScheduleTicked)} == {"catchup"}


def test_by_default_only_the_newest_missed_tick_fires() -> None:
    scenario = schedule().at(NINE + HOUR).wakes()
    assert fired(scenario) == [NINE + HOUR]
    assert skipped(scenario) == [("OVER_CATCHUP_LIMIT", 11, NINE + 5 * MINUTE, NINE + 55 * MINUTE)]


def test_a_tick_at_the_edge_of_the_window_is_outside_it() -> None:
    scenario = schedule("0 * * * *", catchup_window_minutes=60, max_catchup_ticks=10).at(NINE + 2 * HOUR).wakes()
    assert fired(scenario) == [NINE + 2 * HOUR]
    assert skipped(scenario) == [("MISSED_OUTSIDE_WINDOW", 1, NINE + HOUR, NINE + HOUR)]


def test_everything_outside_the_window_fires_nothing() -> None:
    scenario = schedule("0 10 * * *", catchup_window_minutes=5).at(NINE + 2 * HOUR).wakes()
    assert fired(scenario) == []
    scenario.then_verdict("NEVER", "MISSED_OUTSIDE_WINDOW").then_alarm(NINE + DAY + HOUR)


def test_past_ten_thousand_a_range_is_not_counted() -> None:
    scenario = schedule("* * * * * *").at(NINE + 3 * DAY).wakes()
    assert fired(scenario) == [NINE + 3 * DAY]
    assert skipped(scenario) == [
        ("MISSED_OUTSIDE_WINDOW", None, NINE + SECOND, NINE + 2 * DAY),
        ("OVER_CATCHUP_LIMIT", None, NINE + 2 * DAY + SECOND, NINE + 3 * DAY - SECOND),
    ]


def test_a_thousand_ticks_fit_one_segment() -> None:
    scenario = schedule("* * * * *", max_catchup_ticks=1_000).at(NINE + 23 * HOUR).wakes()
    assert len(fired(scenario)) == 1_000
    assert len(scenario.decision.effects) == 1_000


# -- jitter


def test_jitter_is_a_hash_and_ends_before_the_next_tick() -> None:
    one, again = schedule(jitter_seconds=3_600), schedule(jitter_seconds=3_600)
    assert one.state
    assert one.state == again.state
    assert one.state.next
    assert 0 <= one.state.next.due_at - one.state.next.tick_at < 5 * MINUTE
    others = {
        given(SCHEDULE, stream=StreamId("tenant", "schedule", f"s{n}"))
        .when(DefineSchedule(definition(jitter_seconds=3_600)))
        .alarm_at
        for n in range(20)
    }
    assert len(others) == 20


def test_a_jittered_tick_keeps_its_nominal_time() -> None:
    scenario = schedule("0 10 * * *", jitter_seconds=600).wakes()
    [tick] = of(scenario, ScheduleTicked)
    assert tick.scheduled_for == NINE + HOUR < tick.fired_at


def test_a_missed_tick_does_not_wait_for_its_jitter_but_the_latest_does() -> None:
    scenario = schedule("0 * * * *", jitter_seconds=3_599, max_catchup_ticks=10)
    assert scenario.state
    assert scenario.state.next
    first_at = scenario.state.next.tick_at
    scenario.at(first_at + 2 * HOUR).wakes()
    late = fired(scenario)
    assert late[:2] == [first_at, first_at + HOUR]
    assert scenario.state.next.due_at > scenario.now


def test_a_change_fires_a_tick_that_only_waits_for_its_jitter() -> None:
    scenario = schedule("0 10 * * *", jitter_seconds=600).at(NINE + HOUR)
    assert scenario.alarm_at
    assert scenario.alarm_at > scenario.now
    scenario.when(DefineSchedule(definition("0 12 * * *")))
    assert fired(scenario) == [NINE + HOUR]
    scenario.then_alarm(NINE + 3 * HOUR)


def test_the_window_counts_from_when_a_tick_is_due() -> None:
    scenario = schedule("0 * * * *", jitter_seconds=3_600, catchup_window_minutes=1)
    for hour in range(1, 5):
        assert fired(scenario.wakes()) == [NINE + hour * HOUR]
    assert scenario.state
    assert scenario.state.next
    assert fired(scenario.at(scenario.state.next.due_at + MINUTE - 1).wakes()) == [NINE + 5 * HOUR]
    assert scenario.state.next
    scenario.at(scenario.state.next.due_at + MINUTE).wakes()
    assert skipped(scenario) == [("MISSED_OUTSIDE_WINDOW", 1, NINE + 6 * HOUR, NINE + 6 * HOUR)]


# -- overlap


def test_a_change_fires_no_tick_while_a_run_is_unfinished() -> None:
    fields = {"jitter_seconds": 3_600, "overlap": "skip"}
    scenario = schedule("0 * * * *", **fields).wakes().at(NINE + 2 * HOUR)
    scenario.when(DefineSchedule(definition("0 12 * * *", **fields)))
    assert fired(scenario) == []
    assert skipped(scenario) == [("OVERLAP", 1, NINE + 2 * HOUR, NINE + 2 * HOUR)]


def test_no_run_while_the_previous_one_is_unfinished() -> None:
    scenario = schedule(overlap="skip").wakes()
    run_id = of(scenario, RunRequested)[0].run_id
    assert scenario.decision.also[run_stream("tenant", run_id)][0].tell  # type: ignore[attr-defined]
    scenario.wakes()
    assert skipped(scenario) == [("OVERLAP", 1, NINE + 10 * MINUTE, NINE + 10 * MINUTE)]
    scenario.then_verdict("NEVER", "OVERLAP").then_effects()
    scenario.when(RunFinished(run_id, "k", "succeeded"))
    assert fired(scenario.wakes()) == [NINE + 15 * MINUTE]


def test_of_several_missed_ticks_one_fires_when_overlaps_are_skipped() -> None:
    scenario = schedule(overlap="skip", max_catchup_ticks=3).at(NINE + 15 * MINUTE).wakes()
    assert fired(scenario) == [NINE + 5 * MINUTE]
    assert skipped(scenario) == [("OVERLAP", 2, NINE + 10 * MINUTE, NINE + 15 * MINUTE)]


def test_a_command_is_finished_as_soon_as_it_is_sent() -> None:
    target = CommandTarget(StreamName("gate", "front"), {"type": "Open"})
    scenario = schedule(overlap="skip", target=target).wakes().wakes()
    assert fired(scenario) == [NINE + 10 * MINUTE]


def test_the_end_of_an_unknown_run_changes_nothing() -> None:
    schedule(overlap="skip").when(RunFinished("run_x", "k", "succeeded")).then_nothing()


# -- by hand


def test_a_manual_tick_fires_now_in_any_status() -> None:
    scenario = schedule().when(DisableSchedule()).at(NINE + 90 * SECOND + 1).when(TriggerSchedule())
    epoch = NINE // SECOND + 90
    [tick], [requested] = of(scenario, ScheduleTicked), of(scenario, RunRequested)
    assert (tick.cause, tick.scheduled_for) == ("manual", epoch * SECOND)
    assert tick.lag_ms is None
    assert requested.run_key == f"sched:subject:manual:{epoch}"
    scenario.then_alarm(None)


def test_again_in_the_same_second_it_is_the_same_tick() -> None:
    scenario = schedule().when(TriggerSchedule({"x": 1})).at(NINE + SECOND - 1)
    version = scenario.version
    scenario.when(TriggerSchedule({"x": 1})).then_nothing()
    assert scenario.decision.reply.segment == version
    scenario.when(TriggerSchedule({"x": 2})).then_refused("RUN_KEY_CONFLICT")
    scenario.at(NINE + SECOND).when(TriggerSchedule({"x": 2}))
    assert len(of(scenario, ScheduleTicked)) == 1


def test_a_manual_tick_does_not_move_the_schedule() -> None:
    scenario = schedule().at(NINE + MINUTE).when(TriggerSchedule()).then_alarm(NINE + 5 * MINUTE)
    assert fired(scenario.wakes()) == [NINE + 5 * MINUTE]


# -- runs that exist


def tick_key(minutes: int = 5) -> str:
    return f"sched:subject:{NINE // SECOND + minutes * 60}"


def test_a_run_key_that_means_something_else_is_a_conflict_and_the_first_stays() -> None:
    other = RunState("succeeded", run_key=tick_key(), fingerprint="other")
    scenario = schedule().with_others({run_of(tick_key()): other}).wakes()
    [tick], [requested] = of(scenario, ScheduleTicked), of(scenario, RunRequested)
    assert (requested.outcome, tick.error[:16]) == ("conflict", "RUN_KEY_CONFLICT")
    scenario.then_effects()
    scenario.then_also(run_of(tick_key()), RunConflicted(requested.fingerprint, STREAM, NINE + 5 * MINUTE))


def test_the_same_run_again_is_no_second_run() -> None:
    first = schedule().wakes()
    print_ = of(first, RunRequested)[0].fingerprint
    known = RunState("succeeded", run_key=tick_key(), fingerprint=print_)
    scenario = schedule().with_others({run_of(tick_key()): known}).wakes()
    assert of(scenario, RunRequested)[0].outcome == "duplicate"
    scenario.then_effects()


def test_the_fingerprint_heeds_target_selections_and_payload_and_no_order() -> None:
    def print_of(**fields: Any) -> str:
        return str(of(schedule(**fields).wakes(), RunRequested)[0].fingerprint)

    assert print_of(asset_selection=("a", "b")) == print_of(asset_selection=("b", "a"))
    different = [
        print_of(),
        print_of(asset_selection=("a",)),
        print_of(partition_selection=("a",)),
        print_of(payload={"x": 1}),
        print_of(target=WebhookTarget("https://example.com")),
    ]
    assert len(set(different)) == 5
