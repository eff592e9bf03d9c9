"""What the accounts of a tenant share: hourly caps with promised slots, and a daily budget."""

from __future__ import annotations

from typing import Any

from betimes.core.instants import Instant
from betimes.core.policies import PolicyBook
from betimes.core.streams import StreamId
from betimes.runs.counters import QuotaState, SlotPromised, SlotReturned, SlotTaken
from betimes.runs.decide import needs
from betimes.runs.fold import fold_quota
from betimes.runs.model import AccountState, RequestRun
from betimes.testing.scenarios import Scenario
from tests.runs.scenes import HOUR, MINUTE, NINE, QUOTA, SECOND, SECTIONS, account, entry, share_quota, signal

CAPPED: dict[str, Any] = {"registry": {"SIGNAL_ARRIVED": entry(max_per_tenant_per_hour=2)}}


class Tenant:
    """Several accounts and the quota they share."""

    def __init__(self, **runs: Any) -> None:
        self.runs = runs
        self.accounts: dict[str, Scenario[AccountState]] = {}
        self.quota = QuotaState()

    def ask(self, name: str, at: Instant, **fields: Any) -> Scenario[AccountState]:
        scenario = self.accounts.setdefault(name, account(stream=name, **self.runs))
        return self._with_quota(scenario, lambda: scenario.at(at).when(signal(**fields), key=f"{name}-{at}"))

    def wake(self, name: str, at: Instant = 0) -> Scenario[AccountState]:
        """Ring the account's alarm, when it is due or later."""
        scenario = self.accounts[name]
        scenario.at(max(at, scenario.now))
        return self._with_quota(scenario, scenario.wakes)

    def _with_quota(self, scenario: Scenario[AccountState], act: Any) -> Scenario[AccountState]:
        scenario.others[QUOTA] = self.quota
        act()
        share_quota(scenario)
        self.quota = scenario.others[QUOTA]
        return scenario


def test_the_quota_is_held_whenever_a_tenant_cap_or_budget_is_set() -> None:
    def needed(**runs: Any) -> tuple[StreamId, ...]:
        policy = PolicyBook(SECTIONS).effective({"runs": runs})
        return needs(StreamId("tenant", "account", "a"), signal(), policy)

    assert needed() == ()
    assert needed(**CAPPED) == (QUOTA,)
    assert needed(tenant_daily_run_budget=5) == (QUOTA,)
    assert needed(tiers={"pro": {"max_per_tenant_per_hour": 5}}) == (QUOTA,)
    assert needed(tiers={"pro": {"tenant_daily_run_budget": 5}}) == (QUOTA,)


def test_an_allowed_run_takes_a_slot_in_the_same_turn_and_a_refused_one_none() -> None:
    tenant = Tenant(**CAPPED)
    tenant.ask("a", NINE).then_also(QUOTA, SlotTaken("SIGNAL_ARRIVED", NINE))
    tenant.ask("b", NINE, budget_remaining=0).then_also(QUOTA)


def test_a_burst_inside_the_cap_is_admitted_whole_and_the_next_is_promised_the_exact_instant() -> None:
    tenant = Tenant(**CAPPED)
    tenant.ask("a", NINE).then_verdict("NOW", "WITHIN_LIMITS")
    tenant.ask("b", NINE + MINUTE).then_verdict("NOW", "WITHIN_LIMITS")
    third = tenant.ask("c", NINE + 2 * MINUTE).then_verdict("LATER", "TENANT_HOURLY_CAP", until=NINE + HOUR)
    third.then_also(QUOTA, SlotPromised("SIGNAL_ARRIVED", NINE + HOUR, NINE + 2 * MINUTE))


def test_each_deferred_trigger_gets_a_slot_beyond_those_promised() -> None:
    tenant = Tenant(**CAPPED)
    tenant.ask("a", NINE)
    tenant.ask("b", NINE + MINUTE)
    expected = (HOUR, HOUR + MINUTE, 2 * HOUR, 2 * HOUR + MINUTE, 3 * HOUR)
    for name, offset in zip("cdefg", expected, strict=True):
        tenant.ask(name, NINE + 2 * MINUTE).then_verdict("LATER", "TENANT_HOURLY_CAP", until=NINE + offset)
    for name in "cdefg":
        tenant.wake(name).then_verdict("NOW", "WITHIN_LIMITS")


def test_a_promised_slot_is_taken_for_a_newcomer() -> None:
    tenant = Tenant(**CAPPED)
    tenant.ask("a", NINE)
    tenant.ask("b", NINE + MINUTE)
    tenant.ask("c", NINE + 2 * MINUTE).then_verdict("LATER", "TENANT_HOURLY_CAP", until=NINE + HOUR)
    late = NINE + HOUR + 30 * SECOND
    tenant.ask("new", late).then_verdict("LATER", "TENANT_HOURLY_CAP", until=NINE + HOUR + MINUTE)
    tenant.wake("c").then_verdict("NOW", "WITHIN_LIMITS")


def test_a_promise_is_given_back_when_its_retry_resolves() -> None:
    tenant = Tenant(**CAPPED)
    tenant.ask("a", NINE)
    tenant.ask("b", NINE)
    tenant.ask("c", NINE + MINUTE, budget_remaining=1).then_verdict("LATER", "TENANT_HOURLY_CAP", until=NINE + HOUR)
    resolved = tenant.wake("c")
    returned = SlotReturned("SIGNAL_ARRIVED", NINE + HOUR, NINE + HOUR)
    resolved.then_also(QUOTA, returned, SlotTaken("SIGNAL_ARRIVED", NINE + HOUR, slot_at=NINE + HOUR))
    assert tenant.quota.promised_by_type == {"SIGNAL_ARRIVED": ()}


def test_thirty_at_once_under_a_cap_of_five_run_five_each_full_hour() -> None:
    tenant = Tenant(registry={"SIGNAL_ARRIVED": entry(max_per_tenant_per_hour=5)})
    answers = [tenant.ask(f"a{place}", NINE).decision.verdict for place in range(30)]
    assert [verdict and verdict.until for verdict in answers] == (
        [None] * 5 + [NINE + hour * HOUR for hour in range(1, 6) for _ in range(5)]
    )


def test_more_than_a_day_away_is_skipped() -> None:
    tenant = Tenant(registry={"SIGNAL_ARRIVED": entry(max_per_tenant_per_hour=1)})
    tenant.ask("first", NINE)
    for place in range(24):
        until = NINE + (place + 1) * HOUR
        tenant.ask(f"w{place}", NINE).then_verdict("LATER", "TENANT_HOURLY_CAP", until=until)
    tenant.ask("last", NINE).then_verdict("NEVER", "TENANT_HOURLY_CAP").then_also(QUOTA)


def test_the_slot_is_sought_from_where_the_accounts_own_limits_end() -> None:
    tenant = Tenant(registry={"SIGNAL_ARRIVED": entry(cooldown_seconds=7260, max_per_tenant_per_hour=1)})
    tenant.ask("a", NINE)
    tenant.ask("a", NINE + MINUTE).then_verdict("LATER", "COOLDOWN", until=NINE + 2 * HOUR + MINUTE)
    tenant.ask("b", NINE + MINUTE).then_verdict("LATER", "TENANT_HOURLY_CAP", until=NINE + HOUR)


def test_the_tenants_budget_is_shared_and_charged_by_allowed_runs_alone() -> None:
    tenant = Tenant(tenant_daily_run_budget=2)
    for name, answer in zip("abc", ("NOW", "NOW", "NEVER"), strict=True):
        verdict = tenant.ask(name, NINE).decision.verdict
        assert verdict
        assert verdict.answer == answer
    tenant.ask("d", NINE + 15 * HOUR).then_verdict("NOW", "WITHIN_LIMITS")


def test_a_tier_may_have_a_budget_of_the_tenant_of_its_own() -> None:
    tenant = Tenant(tenant_daily_run_budget=9, tiers={"free": {"tenant_daily_run_budget": 1}}, tier_from="request")
    tenant.ask("a", NINE).then_verdict("NOW", "WITHIN_LIMITS")
    tenant.ask("b", NINE, tenant_tier="free").then_verdict("NEVER", "BUDGET_EXHAUSTED")
    tenant.ask("c", NINE).then_verdict("NOW", "WITHIN_LIMITS")
    tenant.ask("d", NINE + 15 * HOUR - 1, tenant_tier="free").then_verdict("NEVER", "BUDGET_EXHAUSTED")
    tenant.ask("d", NINE + 15 * HOUR, tenant_tier="free").then_verdict("NOW", "WITHIN_LIMITS")


def test_a_run_a_schedule_asked_for_is_held_with_the_account() -> None:
    policy = PolicyBook(SECTIONS).effective({"runs": CAPPED})
    run = StreamId("tenant", "run", "run_1")
    asked = needs(StreamId("tenant", "account", "a"), RequestRun("SIGNAL_ARRIVED", run_id="run_1"), policy)
    assert asked == (QUOTA, run)


def test_a_tiers_cap_counts_the_runs_of_every_tier() -> None:
    tenant = Tenant(
        registry={"SIGNAL_ARRIVED": entry()}, tiers={"free": {"max_per_tenant_per_hour": 1}}, tier_from="request"
    )
    tenant.ask("a", NINE).then_verdict("NOW", "WITHIN_LIMITS")
    tenant.ask("b", NINE, tenant_tier="free").then_verdict("LATER", "TENANT_HOURLY_CAP", until=NINE + HOUR)
    tenant.ask("c", NINE).then_verdict("NOW", "WITHIN_LIMITS")


def test_a_promise_is_given_back_when_its_type_has_left_the_registry() -> None:
    scenario = account(registry={"CUSTOM": entry(max_per_tenant_per_hour=1)})
    for key in ("k1", "k2"):
        scenario.when(RequestRun("CUSTOM"), key=key)
        share_quota(scenario)
    scenario.policy = account(tenant_daily_run_budget=9).policy
    scenario.wakes().then_verdict("NEVER", "UNKNOWN_TRIGGER_TYPE")
    scenario.then_also(QUOTA, SlotReturned("CUSTOM", NINE + HOUR, NINE + HOUR))


def test_the_shared_counters_keep_only_the_last_hour() -> None:
    first = fold_quota(None, SlotTaken("SIGNAL_ARRIVED", NINE))
    later = fold_quota(first, SlotTaken("POSTURE_CHANGE", NINE + 2 * HOUR))
    assert list(later.taken_by_type) == ["POSTURE_CHANGE"]
