"""Shadow mode: judged and recorded, not enforced."""

from __future__ import annotations

import pytest

from betimes.core.errors import PolicyInvalid
from betimes.core.instants import HOUR, MINUTE
from betimes.notifications.model import OptOut, Unenforced
from tests.notifications.inboxes import NINE, inbox, note, preferences, sent, tenant_incident


def test_a_rule_in_shadow_does_not_bind_and_is_recorded() -> None:
    scenario = inbox(sent(1, 2, 3), shadow=["fatigue_5m"]).when(note()).then_verdict("NOW", "DEFAULT_PASS")
    assert scenario.decision.reply.shadow == Unenforced("LATER", ("FATIGUE_CAP_5M",), NINE + 15 * MINUTE)
    assert scenario.decision.verdict
    assert [step.reason for step in scenario.decision.verdict.trace if step.shadow] == ["FATIGUE_CAP_5M"]


def test_the_rules_that_are_not_in_shadow_bind() -> None:
    scenario = inbox(sent(1, 2, 3), preferences(opt_out=OptOut(all=True)), shadow=["fatigue_5m"])
    scenario.when(note()).then_verdict("NEVER", "USER_OPT_OUT")
    assert scenario.decision.reply.shadow is None


def test_a_whole_policy_in_shadow_lets_everything_through() -> None:
    out = preferences(opt_out=OptOut(all=True))
    scenario = inbox(out, mode="shadow").with_others(tenant_incident(NINE + HOUR))
    scenario.when(note("PROMO", "LOW"), key="a").then_verdict("NOW", "DEFAULT_PASS")
    assert scenario.decision.reply.shadow == Unenforced("NEVER", ("USER_OPT_OUT",))
    scenario.when(note("PROMO", "LOW"), key="b").then_verdict("NOW", "DEFAULT_PASS")
    assert scenario.decision.reply.shadow == Unenforced("NEVER", ("DEDUP_EXACT",))


def test_nothing_takes_a_waiting_items_place_while_duplicates_are_in_shadow() -> None:
    scenario = inbox(shadow=["dedup"]).when(note("UPDATE", "LOW"), key="a").when(note("UPDATE", "HIGH"), key="b")
    assert scenario.state
    assert [item.event_id for item in scenario.state.waiting] == ["a", "b"]


@pytest.mark.parametrize("rule", ["critical", "forced"])
def test_what_lets_things_through_cannot_be_in_shadow(rule: str) -> None:
    with pytest.raises(PolicyInvalid, match=r"notifications\.shadow"):
        inbox(shadow=[rule])
