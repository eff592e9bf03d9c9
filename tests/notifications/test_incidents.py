"""Incidents of a person and of a whole tenant."""

from __future__ import annotations

from typing import Any

from betimes.core.instants import HOUR, MINUTE
from betimes.notifications.incidents import INCIDENT
from betimes.notifications.model import (
    CloseIncident,
    Incident,
    IncidentClosed,
    IncidentOpened,
    IncidentState,
    OpenIncident,
)
from betimes.testing.scenarios import Scenario, given
from tests.notifications.inboxes import GLOBAL, NINE, inbox, note, tenant_incident

OUTAGE = {"incident": True}
OVER = {"recovery": True}


def system(**metadata: Any) -> Any:
    return note("SYSTEM", "HIGH", text="Something is going on with the payments", metadata=metadata)


def tenant(*events: Any) -> Scenario[IncidentState]:
    return given(INCIDENT, *events, stream=GLOBAL)


def test_a_system_event_opens_an_incident_for_the_person() -> None:
    scenario = inbox().when(system(**OUTAGE), key="a")
    assert scenario.state
    assert scenario.state.incident == Incident("user:1:ann", NINE, NINE + 2 * HOUR, "Ana replied")
    scenario.when(note("PROMO"), key="b").then_verdict("NEVER", "INCIDENT_SUPPRESSION")


def test_it_ends_after_its_time() -> None:
    scenario = inbox().when(system(**OUTAGE), key="a")
    scenario.then_alarm(NINE + 30 * MINUTE) if scenario.state and scenario.state.waiting else None
    scenario.at(NINE + 2 * HOUR).when(note("MESSAGE", "LOW"), key="b").then_verdict("LATER", "SCORE_DEFER")
    assert scenario.state
    assert scenario.state.incident is None


def test_it_ends_with_a_recovery() -> None:
    scenario = inbox(IncidentOpened(Incident("i", NINE, NINE + HOUR))).when(system(**OVER), key="a")
    assert IncidentClosed(NINE, recovered=True) in scenario.decision.events
    assert scenario.state
    assert scenario.state.incident is None


def test_its_length_is_policy() -> None:
    scenario = inbox(incident_ttl_s=600).when(system(**OUTAGE), key="a")
    assert scenario.state
    assert scenario.state.incident
    assert scenario.state.incident.ends_at == NINE + 10 * MINUTE


def test_other_types_and_expired_events_open_nothing() -> None:
    scenario = inbox().when(note("ALERT", metadata=OUTAGE), key="a")
    scenario.when(note("SYSTEM", metadata=OUTAGE, expires_at=NINE - 1), key="b")
    scenario.when(note("SYSTEM", text="a truthy string is not true at all", metadata={"incident": "true"}), key="c")
    assert scenario.state
    assert scenario.state.incident is None


def test_an_incident_is_opened_whatever_becomes_of_the_event_itself() -> None:
    scenario = inbox(event_types={"SYSTEM": {"thresholds": {"never_below": "0.9", "now_from": "0.95"}}})
    scenario.when(system(**OUTAGE), key="a").then_verdict("NEVER", "SCORE_BELOW_THRESHOLD")
    assert scenario.state
    assert scenario.state.incident


def test_a_global_one_is_the_tenants() -> None:
    scenario = inbox().when(system(**OUTAGE, scope="global"), key="a")
    [opened] = scenario.decision.also[GLOBAL]
    assert isinstance(opened, IncidentOpened)
    assert (opened.incident.ends_at, opened.incident.reason) == (NINE + 2 * HOUR, "Ana replied")
    assert scenario.state
    assert scenario.state.incident is None
    scenario.when(system(**OVER, scope="global"), key="b").then_also(GLOBAL)
    scenario.with_others({GLOBAL: IncidentState(opened.incident)}).when(system(**OVER, scope="global"), key="c")
    scenario.then_also(GLOBAL, IncidentClosed(NINE, recovered=True))


def test_a_fan_out_of_the_same_news_is_not_written_over_and_over() -> None:
    scenario = inbox().with_others(tenant_incident(NINE + 2 * HOUR - MINUTE))
    scenario.when(system(**OUTAGE, scope="global"), key="a")
    scenario.then_also(GLOBAL)


def test_a_tenants_incident_opens_lasts_longer_and_ends() -> None:
    scenario = tenant().when(OpenIncident(600, "db"))
    scenario.then(IncidentOpened(Incident("global:1", NINE, NINE + 10 * MINUTE, "db")))
    scenario.at(NINE + MINUTE).when(OpenIncident(600))
    scenario.then(IncidentOpened(Incident("global:1", NINE, NINE + 11 * MINUTE, "db")))
    scenario.when(OpenIncident(60)).then_nothing()
    scenario.wakes().then(IncidentClosed(NINE + 11 * MINUTE)).then_alarm(None)


def test_news_older_than_the_recovery_opens_nothing() -> None:
    scenario = tenant().when(OpenIncident(600, at=NINE)).when(CloseIncident(at=NINE + MINUTE))
    scenario.then(IncidentClosed(NINE + MINUTE, recovered=True))
    scenario.when(OpenIncident(600, at=NINE + MINUTE)).then_nothing()
    scenario.when(OpenIncident(600, at=NINE + 2 * MINUTE))
    assert scenario.state
    assert scenario.state.incident
    scenario.when(CloseIncident(at=NINE + MINUTE))
    assert scenario.state.incident, "a recovery from before it says nothing of it"


def test_whoever_opens_one_is_not_held_to_a_recovery_of_the_same_instant() -> None:
    scenario = tenant().when(OpenIncident(600)).when(CloseIncident("global:1")).when(OpenIncident(600))
    scenario.then(IncidentOpened(Incident("global:3", NINE, NINE + 10 * MINUTE)))
    inbox().when(OpenIncident(60)).when(CloseIncident("user:1:ann")).when(OpenIncident(60)).then(
        IncidentOpened(Incident("user:3:ann", NINE, NINE + MINUTE))
    )


def test_a_recovery_that_comes_first_is_remembered() -> None:
    scenario = tenant().when(CloseIncident(at=NINE)).when(OpenIncident(600, at=NINE - 1)).then_nothing()
    scenario.when(CloseIncident()).then_nothing()


def test_an_older_recovery_does_not_undo_a_newer_one() -> None:
    scenario = tenant().when(CloseIncident(at=NINE + 2 * MINUTE)).when(CloseIncident(at=NINE))
    scenario.when(OpenIncident(600, at=NINE + MINUTE)).then_nothing()


def test_closing_one_that_is_not_open_is_refused() -> None:
    tenant().when(CloseIncident("global:9")).then_refused("NO_SUCH_INCIDENT")
    inbox().when(CloseIncident("user:9:ann")).then_refused("NO_SUCH_INCIDENT")
    scenario = inbox().when(OpenIncident(60, "slow")).when(CloseIncident("user:1:ann"))
    scenario.then(IncidentClosed(NINE, recovered=True))
