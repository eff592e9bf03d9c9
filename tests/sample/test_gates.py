"""Gates as scenarios: given what happened, when somebody knocks, then …"""

from __future__ import annotations

from betimes.core.deciders import Call, Send, Settled
from betimes.core.instants import parse
from betimes.core.streams import StreamId
from betimes.testing.sample import GATE, SECTIONS, Count, GateState, Knock, Open, QuotaState, Shut
from betimes.testing.sample.model import Admitted, Greeted, Postponed, SlotTaken, TurnedAway, WasOpened, WasShut
from betimes.testing.scenarios import Scenario, given

NINE = parse("2026-01-05T09:00:00Z")
MINUTE = 60_000_000


def gate(*events: object, **policy: object) -> Scenario[GateState]:
    return given(GATE, *events, sections=SECTIONS, policy={"gates": policy})  # type: ignore[arg-type]


def test_the_first_visitor_is_welcome() -> None:
    gate().when(Knock("ann")).then(Admitted("ann", NINE)).then_verdict("NOW", "WELCOME").then_alarm(None)


def test_the_next_one_waits_for_the_cooldown_and_then_comes_in() -> None:
    scenario = gate(Admitted("ann", NINE)).at("2026-01-05T09:00:30Z").when(Knock("bob"))
    scenario.then(Postponed("bob", NINE + MINUTE)).then_verdict("LATER", "COOLDOWN", until=NINE + MINUTE)
    scenario.then_alarm("2026-01-05T09:01:00Z").wakes().then(Admitted("bob", NINE + MINUTE)).then_alarm(None)


def test_an_elapsed_cooldown_admits_at_the_exact_instant() -> None:
    gate(Admitted("ann", NINE)).at(NINE + MINUTE).when(Knock("bob")).then_verdict("NOW", "WELCOME")


def test_whoever_still_cannot_come_in_is_turned_away() -> None:
    scenario = gate(Admitted("ann", NINE), Postponed("bob", NINE + MINUTE), Postponed("cid", NINE + MINUTE))
    scenario.wakes().then(Admitted("bob", NINE + MINUTE), TurnedAway("cid", "RETRY_EXHAUSTED"))


def test_a_knock_after_the_alarm_comes_behind_whoever_waited() -> None:
    scenario = gate(Admitted("ann", NINE), Postponed("bob", NINE + MINUTE)).at(NINE + 5 * MINUTE)
    scenario.when(Knock("cid")).then_verdict("LATER", "COOLDOWN", until=NINE + 6 * MINUTE)


def test_the_cap_frees_a_place_when_the_first_leaves_the_hour() -> None:
    scenario = gate(Admitted("a", NINE), Admitted("b", NINE + MINUTE), cooldown_s=0, per_hour=2).at(NINE + 2 * MINUTE)
    scenario.when(Knock("c")).then_verdict("LATER", "HOURLY_CAP", until=NINE + 60 * MINUTE)


def test_the_tenants_cap_is_shared() -> None:
    quota = StreamId("tenant", "quota", "all")
    scenario = gate(tenant_per_hour=1).when(Knock("ann"))
    scenario.then_also(quota, SlotTaken(NINE))
    gate(tenant_per_hour=1).with_others({quota: QuotaState(((NINE // 1_000_000, 1),))}).when(Knock("bob")).then_verdict(
        "LATER", "TENANT_CAP", until=NINE + 60 * MINUTE
    )


def test_a_shut_gate_admits_nobody_and_keeps_nobody_waiting() -> None:
    scenario = gate(Admitted("ann", NINE), Postponed("bob", NINE + MINUTE)).when(Shut())
    scenario.then(WasShut(), TurnedAway("bob", "SHUT")).then_alarm(None)
    scenario.when(Knock("cid")).then(TurnedAway("cid", "SHUT")).then_verdict("NEVER", "SHUT")
    scenario.when(Shut()).then_refused("ALREADY_SHUT")
    scenario.when(Open()).then(WasOpened())
    scenario.when(Open()).then_refused("NOT_SHUT")


def test_too_many_waiting_is_a_no() -> None:
    scenario = gate(Admitted("ann", NINE), Postponed("bob", NINE + MINUTE), waiting_max=1)
    scenario.when(Knock("cid")).then(TurnedAway("cid", "COOLDOWN")).then_verdict("NEVER", "COOLDOWN")


def test_an_admission_greets_and_is_counted() -> None:
    scenario = gate(greet=True, tally=True).when(Knock("ann"))
    scenario.then_effects(
        Call("handler:greet", {"visitor": "ann"}, at_most_once=True, report_to=StreamId("tenant", "gate", "subject")),
        Send(StreamId("tenant", "tally", "all"), Count("ann")),
    )
    scenario.when(Settled("gate:subject:1:0", "handler:greet", "done")).then(Greeted("done"))
    assert scenario.state
    assert scenario.state.greeted_count == 1
