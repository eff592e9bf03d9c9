"""Every answer but NOW says when, as things stand, it would pass."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.core.instants import DAY, HOUR, MINUTE, Instant, parse
from betimes.notifications.model import Ban, Incident, IncidentOpened, OptOut, PersonBanned
from betimes.testing.scenarios import Scenario
from tests.notifications.inboxes import NIGHT, NINE, inbox, note, preferences, sent


def passes_at(scenario: Scenario[Any]) -> Instant | None:
    assert scenario.decision.verdict
    return scenario.decision.verdict.would_pass_at


def test_what_goes_out_needs_no_such_instant() -> None:
    assert passes_at(inbox().when(note())) is None


@pytest.mark.parametrize(
    "scenario",
    [
        inbox().when(note(expires_at=NINE - 1)),
        inbox(PersonBanned(Ban(NINE))).when(note()),
        inbox(preferences(opt_out=OptOut(all=True))).when(note()),
    ],
    ids=["expired", "banned", "opted out"],
)
def test_some_things_no_passing_of_time_lets_through(scenario: Scenario[Any]) -> None:
    assert passes_at(scenario) is None


def test_a_duplicate_passes_when_the_original_is_forgotten() -> None:
    assert passes_at(inbox().when(note(), key="a").at(NINE + HOUR).when(note(), key="b")) == NINE + DAY


def test_promo_in_an_incident_passes_after_it_if_nothing_else_is_against_it() -> None:
    incident = IncidentOpened(Incident("i", NINE, NINE + HOUR))
    assert passes_at(inbox(incident).when(note("PROMO", "HIGH", ai_score=10_000))) == NINE + HOUR
    assert passes_at(inbox(incident).when(note("PROMO", "LOW", ai_score=0), key="a")) is None


def test_low_on_a_full_day_passes_when_the_first_delivery_is_a_day_old() -> None:
    full = sent(*(3 * HOUR + place * MINUTE for place in range(30)))
    scenario = inbox(full, thresholds={"now_from": "0.3"}).when(note(priority="LOW"))
    scenario.then_verdict("NEVER", "FATIGUE_CAP_24H")
    assert passes_at(scenario) == NINE - 3 * HOUR - 29 * MINUTE + DAY


def test_a_low_score_passes_when_enough_has_left_the_last_hour() -> None:
    scenario = inbox(sent(*(10 * MINUTE + place for place in range(5))), max_deferrals=1, after_deferrals="deliver")
    scenario.when(note("PROMO", "LOW")).then_verdict("NEVER", "SCORE_BELOW_THRESHOLD")
    oldest_leaves = NINE - 10 * MINUTE - 4 + HOUR
    assert passes_at(scenario) == oldest_leaves + 30 * MINUTE, "it would be put off once and then delivered"


def test_what_is_put_off_over_and_over_passes_with_the_digest() -> None:
    scenario = inbox(jitter_s=0).when(note("UPDATE", "LOW")).then_verdict("LATER", "SCORE_DEFER")
    assert passes_at(scenario) == parse("2026-01-05T18:00:00Z")


def test_what_expires_before_it_would_pass_never_passes() -> None:
    scenario = inbox(preferences(quiet_hours=(NIGHT,))).at("2026-01-05T02:00:00Z")
    assert passes_at(scenario.when(note(expires_at=parse("2026-01-05T06:00:00Z")))) is None
