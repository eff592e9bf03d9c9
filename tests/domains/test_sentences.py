"""Every rule of every domain can say what it saw, whether it matched or not."""

from __future__ import annotations

from collections.abc import Iterator
from string import Formatter
from typing import Any

import pytest

from betimes.catalogue import DECIDERS
from betimes.core.canonical import encode
from betimes.core.verdicts import TRACE_BYTES_MAX, Rule, RuleTable, Verdict
from betimes.notifications.rules import RULES as NOTIFICATIONS
from betimes.runs.rules import ADMISSION, DecisionCostGateInput
from betimes.scores.policy import ScoresPolicy
from betimes.scores.rules import RULES as SCORES
from betimes.scores.rules import score_case
from betimes.sensors.rules import RULES as EVALUATIONS
from betimes.sensors.rules import EvaluationAttempt, EvaluationCase
from tests.notifications.inboxes import inbox, note
from tests.scores.scene import T0, hours, score

TABLES = {table.name: table for decider in DECIDERS for table in decider.tables}
RULES = [pytest.param(rule, id=f"{table.name}.{rule.name}") for table in TABLES.values() for rule in table.rules]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_sentence_for_both_cases_with_values_it_records(rule: Rule[Any]) -> None:
    assert rule.says
    assert rule.passes
    for sentence in (rule.says, rule.passes, rule.absent):
        assert {name for _, name, _, _ in Formatter().parse(sentence) if name} <= set(rule.sees)


def verdicts() -> Iterator[tuple[RuleTable[Any], Verdict]]:
    yield ADMISSION, ADMISSION.judge(DecisionCostGateInput(tenant_id="t", account_id="a", trigger_type="T", now=T0))
    yield EVALUATIONS, EVALUATIONS.judge(EvaluationCase(EvaluationAttempt(evaluation_id="e", cause="message"), 1, 3))
    state = score().state
    assert state
    yield SCORES, SCORES.judge(score_case(state, ScoresPolicy(), hours(30)))
    decided = inbox().when(note(), key="e1").decision.verdict
    assert decided
    yield NOTIFICATIONS, decided


@pytest.mark.parametrize("place", range(4))
def test_rules_that_do_not_match_record_what_they_saw_and_say_it(place: int) -> None:
    table, verdict = list(verdicts())[place]
    assert verdict.answer == "NOW"
    assert len(verdict.trace) == len(table.rules)
    for step, told in zip(verdict.trace, table.explain(verdict), strict=True):
        rule = table.by_name.get(step.rule)
        assert rule
        assert 0 < len(step.values) <= len(rule.sees), told.rule  # the last ones may be left out
        assert told.sentence
        assert "?" not in told.sentence
        assert "not recorded" not in told.sentence
    assert len(encode(verdict.trace).encode()) < TRACE_BYTES_MAX // 2


def test_a_plain_notification_is_not_said_to_be_banned() -> None:
    verdict = inbox().when(note(), key="e1").decision.verdict
    assert verdict
    told = {step.rule: step.sentence for step in NOTIFICATIONS.explain(verdict)}
    assert told["ban"] == "the account is not banned"
    assert told["expiry"] == "it does not expire"
    assert told["incident"] == "no incident is open"
    assert told["fatigue_1h"].startswith("the person was told 0 times within the hour; the cap is ")
