"""Promised slots in real time, where every alarm is a little late."""

from __future__ import annotations

import heapq
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.core.instants import Instant
from betimes.core.verdicts import Verdict
from betimes.runs.counters import SlotTaken
from tests.runs.scenes import HOUR, MINUTE, NINE, QUOTA, SECOND, entry
from tests.runs.test_tenant import Tenant


def capped(cap: int, **settings: Any) -> dict[str, Any]:
    return {"registry": {"SIGNAL_ARRIVED": entry(max_per_tenant_per_hour=cap, **settings)}}


class Traffic:
    """Accounts that ask, and are woken as late as they are told; every verdict is kept."""

    def __init__(self, **runs: Any) -> None:
        self.tenant = Tenant(**runs)
        self.allowed: list[Instant] = []
        """When each run counts for the tenant: a promised one when it was promised."""
        self.asked: list[Verdict] = []
        self.promised: list[Verdict] = []
        """Of retries that had been promised a slot."""
        self.wakes = 0

    def go(self, arrivals: list[tuple[Instant, str]], lateness: list[int]) -> None:
        events = [(at, 0, name) for at, name in arrivals]
        heapq.heapify(events)
        while events:
            at, is_wake, name = heapq.heappop(events)
            scenario = self.tenant.accounts.get(name)
            if is_wake and scenario and scenario.alarm_at and scenario.alarm_at <= at:
                assert scenario.state
                is_promised = scenario.state.waiting[0].slot_at is not None
                self._keep(self.tenant.wake(name, at), at, self.promised if is_promised else [])
                self.wakes += 1
            elif not is_wake and not (scenario and scenario.alarm_at):
                self._keep(self.tenant.ask(name, at), at, self.asked)
            alarm_at = self.tenant.accounts[name].alarm_at
            if alarm_at:
                heapq.heappush(events, (alarm_at + lateness[self.wakes % len(lateness)], 1, name))

    def _keep(self, scenario: Any, at: Instant, verdicts: list[Verdict]) -> None:
        verdict = scenario.decision.verdict
        verdicts.append(verdict)
        taken = [event for event in scenario.decision.also.get(QUOTA, ()) if isinstance(event, SlotTaken)]
        assert len(taken) == (verdict.answer == "NOW")
        self.allowed += [at if event.slot_at is None else event.slot_at for event in taken]


def test_promises_an_hour_apart_are_all_kept_though_every_alarm_is_late() -> None:
    traffic = Traffic(**capped(2))
    traffic.go([(NINE + place * SECOND, f"a{place}") for place in range(12)], [5_000, 999_999, 3 * SECOND])
    assert [verdict.answer for verdict in traffic.promised] == ["NOW"] * 10


def test_a_late_alarm_breaks_no_later_promise() -> None:
    tenant = Tenant(**capped(1))
    for name in "abc":
        tenant.ask(name, NINE)
    late = NINE + HOUR + 40 * MINUTE
    tenant.wake("b", late).then_verdict("NOW", "WITHIN_LIMITS")
    assert tenant.quota.taken_by_type == {"SIGNAL_ARRIVED": (((NINE + HOUR) // SECOND, 1),)}
    tenant.wake("c").then_verdict("NOW", "WITHIN_LIMITS")
    assert tenant.accounts["c"].now == NINE + 2 * HOUR


def test_the_budget_of_the_day_is_charged_on_the_day_a_late_promise_is_kept() -> None:
    tenant = Tenant(**capped(1), tenant_daily_run_budget=5)
    eleven_pm = NINE + 14 * HOUR - SECOND
    tenant.ask("a", eleven_pm)
    tenant.ask("b", eleven_pm)
    tenant.wake("b", NINE + 15 * HOUR).then_verdict("NOW", "WITHIN_LIMITS")
    assert tenant.quota.allowed_today.on(NINE + 15 * HOUR) == 1


def test_a_promise_kept_an_hour_late_or_more_stands_behind_the_others() -> None:
    tenant = Tenant(**capped(1))
    for name in "abc":
        tenant.ask(name, NINE)
    second = NINE + 2 * HOUR
    tenant.accounts["c"].then_verdict("LATER", "TENANT_HOURLY_CAP", until=second)
    tenant.wake("b", second).then_verdict("NEVER", "RETRY_EXHAUSTED", "TENANT_HOURLY_CAP")
    tenant.wake("c").then_verdict("NOW", "WITHIN_LIMITS")


def test_a_deferral_for_another_reason_is_given_a_slot_when_none_is_free_at_its_end() -> None:
    """Nobody holds the tenant's slot now, but somebody else was promised the hour in which the cooldown ends."""
    tenant = Tenant(**capped(1, cooldown_seconds=3 * 3_600))
    tenant.ask("a", NINE)
    tenant.ask("a", NINE + MINUTE).then_verdict("LATER", "COOLDOWN", until=NINE + 3 * HOUR)
    tenant.ask("b", NINE + HOUR).then_verdict("NOW", "WITHIN_LIMITS")
    waits = tenant.ask("b", NINE + 2 * HOUR).then_verdict("LATER", "COOLDOWN", until=NINE + 4 * HOUR)
    verdict = waits.decision.verdict
    assert verdict
    assert verdict.would_pass_at == verdict.until
    tenant.wake("a").then_verdict("NOW", "WITHIN_LIMITS")
    tenant.wake("b").then_verdict("NOW", "WITHIN_LIMITS")


@given(
    st.lists(st.tuples(st.integers(0, 3 * HOUR), st.sampled_from("abcdefgh")), min_size=1, max_size=14),
    st.lists(st.integers(0, 5 * SECOND) | st.integers(0, HOUR - 1), min_size=1, max_size=5),
    st.integers(1, 3),
    st.sampled_from((0, 300, 5_000)),
)
@settings(max_examples=120, deadline=None)
def test_the_cap_holds_at_every_instant_and_no_promise_is_broken(
    arrivals: list[tuple[int, str]], lateness: list[int], cap: int, cooldown_s: int
) -> None:
    traffic = Traffic(**capped(cap, cooldown_seconds=cooldown_s))
    traffic.go([(NINE + after, name) for after, name in arrivals], lateness)
    for at in traffic.allowed:
        assert sum(at - HOUR < other <= at for other in traffic.allowed) <= cap
    assert all(verdict.until == verdict.would_pass_at for verdict in traffic.asked if verdict.answer == "LATER")
    assert {verdict.answer for verdict in traffic.promised} <= {"NOW"}


def test_a_promise_is_kept_beside_runs_that_start_late_after_a_cooldown() -> None:
    """Two start a microsecond past 5,000 s: the second at 8,600 is still theirs, and the third is promised the next."""
    traffic = Traffic(**capped(3, cooldown_seconds=5_000))
    arrivals = [
        (0, "a"),
        (0, "b"),
        (0, "e"),
        (1, "b"),
        (2, "e"),
        (60 * SECOND, "g"),
        (3_724 * SECOND, "g"),
        (7_020 * SECOND, "c"),
    ]
    traffic.go([(NINE + after, name) for after, name in arrivals], [1])
    assert [verdict.answer for verdict in traffic.promised] == ["NOW"] * 5
