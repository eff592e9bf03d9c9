"""What pausing, changing and deleting do to what is owed, and definitions that cannot work."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.core.instants import HOUR, MINUTE
from betimes.domain.targets import TriggerTarget
from betimes.schedules.decide import SCHEDULE
from betimes.schedules.model import (
    DefineSchedule,
    DeleteSchedule,
    DisableSchedule,
    EnableSchedule,
    ScheduleDefined,
    ScheduleTicked,
    ShelveSchedule,
    Upcoming,
)
from betimes.testing.scenarios import given
from tests.automation.scenes import NINE, definition, fired, of, schedule, skipped

# -- pause, change, delete


def test_a_paused_schedule_fires_nothing_and_its_range_is_recorded_when_it_goes_on() -> None:
    scenario = schedule().at(NINE + MINUTE).when(DisableSchedule()).then_alarm(None)
    scenario.at(NINE + HOUR).when(EnableSchedule())
    assert fired(scenario) == []
    assert skipped(scenario) == [("PAUSED", 12, NINE + 5 * MINUTE, NINE + HOUR)]
    scenario.then_alarm(NINE + 65 * MINUTE)
    assert scenario.state
    assert scenario.state.version == 3


def test_what_is_owed_when_it_is_paused_is_the_head_of_the_paused_range() -> None:
    scenario = schedule().at(NINE + 12 * MINUTE).when(DisableSchedule())
    assert fired(scenario) == []
    scenario.at(NINE + 22 * MINUTE).when(EnableSchedule())
    assert skipped(scenario) == [("PAUSED", 4, NINE + 5 * MINUTE, NINE + 20 * MINUTE)]


def test_deleting_fires_nothing_that_is_owed() -> None:
    scenario = schedule().at(NINE + 12 * MINUTE).when(DeleteSchedule())
    assert (fired(scenario), skipped(scenario)) == ([], [("PAUSED", 2, NINE + 5 * MINUTE, NINE + 10 * MINUTE)])
    assert scenario.state is None


def test_a_schedule_made_again_goes_on_counting_versions_and_fires_nothing_from_before() -> None:
    scenario = schedule().at(NINE + 12 * MINUTE).when(DeleteSchedule()).when(DefineSchedule(definition()))
    assert scenario.state
    assert scenario.state.version > 1
    scenario.then_alarm(NINE + 15 * MINUTE)


def test_a_change_first_lets_the_old_definition_fire_what_is_owed() -> None:
    scenario = schedule().at(NINE + 7 * MINUTE)
    scenario.wakes()
    assert fired(scenario) == [NINE + 5 * MINUTE]
    scenario.when(DefineSchedule(definition("0 * * * *")))
    assert fired(scenario) == []


def test_a_changed_schedule_never_fires_from_before_the_change() -> None:
    scenario = schedule("0 0 1 1 *").at(NINE + 30 * MINUTE).when(DefineSchedule(definition(max_catchup_ticks=100)))
    scenario.then_alarm(NINE + 35 * MINUTE)
    assert fired(scenario.wakes()) == [NINE + 35 * MINUTE]


def test_shelving_with_a_new_definition_fires_nothing() -> None:
    scenario = schedule().at(NINE + 7 * MINUTE).when(ShelveSchedule(definition("0 * * * *", enabled=False)))
    assert (fired(scenario), skipped(scenario)) == ([], [("PAUSED", 1, NINE + 5 * MINUTE, NINE + 5 * MINUTE)])
    scenario.then_alarm(None)


def test_the_same_definition_again_changes_nothing() -> None:
    schedule().when(DefineSchedule(definition())).then_nothing()


def test_a_version_that_moved_is_refused() -> None:
    scenario = schedule()
    scenario.when(DefineSchedule(definition("0 * * * *"), if_version=2)).then_refused("VERSION_MISMATCH")
    scenario.when(DefineSchedule(definition("0 * * * *"), if_version=0)).then_refused("ALREADY_EXISTS")
    scenario.when(DisableSchedule(if_version=7)).then_refused("VERSION_MISMATCH")
    scenario.when(DefineSchedule(definition("0 * * * *"), if_version=1))
    assert scenario.state
    assert scenario.state.version == 2


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "@reboot"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"timezone": "Mars/Base"}, "timezone"),
        ({"timezone": "../etc/passwd"}, "timezone"),
        ({"starts_at": NINE, "ends_at": NINE}, "ends_at"),
        ({"target": TriggerTarget("DAILY")}, "target.account_id"),
        ({"payload": {"x": "ü" * 33_000}}, "payload: at most 65,536 bytes"),
        ({"asset_selection": tuple(f"{n}" * 300 for n in range(1_000))}, "definition"),
    ],
)
def test_a_definition_that_cannot_work_is_refused(fields: dict[str, Any], named: str) -> None:
    scenario = schedule(**fields).then_refused("INVALID")
    assert named in str(scenario.outcome)


def test_a_zone_that_disappears_is_one_failed_tick_and_an_error() -> None:
    gone = ScheduleDefined(definition(timezone="Atlantis/Sunk"), 1, NINE, "2020a", Upcoming(NINE + HOUR, NINE + HOUR))
    scenario = given(SCHEDULE, gone).wakes()
    [tick] = of(scenario, ScheduleTicked)
    assert "Atlantis" in tick.error
    scenario.then_alarm(None)
    assert scenario.state
    assert (scenario.state.status, scenario.state.last_error) == ("error", tick.error)
    scenario.when(EnableSchedule()).then_refused("INVALID")
    scenario.when(DefineSchedule(definition())).then_alarm(NINE + HOUR + 5 * MINUTE)


def test_a_wake_that_finds_its_tick_moved_by_a_new_tzdata_waits_for_the_new_one() -> None:
    early = ScheduleDefined(definition("0 10 * * *"), 1, NINE, "2020a", Upcoming(NINE + MINUTE, NINE + MINUTE))
    scenario = given(SCHEDULE, early).wakes()
    assert fired(scenario) == []
    scenario.then_verdict("NEVER", "NOTHING_DUE").then_alarm(NINE + HOUR)
