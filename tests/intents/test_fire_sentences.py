"""Sentences about fires: the condition, the values and the gate of a report, whoever sent it."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.core.instants import HOUR
from betimes.intents.domain import describe_event
from betimes.intents.model import CLAIM_EXPIRED, FireIntent, FireStatus, IntentFired

NEXT = "; the next check is at 1970-01-01T01:00:00Z."


def told(status: FireStatus, **report: Any) -> str:
    return describe_event(IntentFired(status, 0, HOUR), FireIntent(status=status, **report))


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({"condition": "NVDA < 130", "trigger_data": {"price:NVDA": 140}}, " (NVDA < 130; NVDA was 140)"),
        ({"condition": "NVDA < 130"}, " (NVDA < 130)"),
        ({"trigger_data": {"price": 140.5, "open": False}}, " (price was 140.5, open was false)"),
        ({"trigger_data": {"nested": {"a": 1}, "list": [1], "none": None}}, ""),
        ({}, ""),
    ],
)
def test_a_condition_that_was_not_met_is_told_with_what_was_seen(report: dict[str, Any], words: str) -> None:
    assert told("condition_not_met", **report) == f"Its condition was not met{words}{NEXT}"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            {"trigger_type": "ORDER_PLACED", "reasons": ["COOLDOWN"], "defer_until": "2026-01-05T12:10:00Z"},
            "Its gate ORDER_PLACED was closed: COOLDOWN until 2026-01-05T12:10:00Z",
        ),
        ({"reasons": ["PAUSED", 7], "defer_until": None}, "Its gate was closed: PAUSED"),
        ({"trigger_type": 1, "reasons": "COOLDOWN", "defer_until": []}, "Its gate was closed"),
        (None, "Its gate was closed"),
    ],
)
def test_a_gate_that_was_closed_is_named_with_its_reason(answer: dict[str, Any] | None, words: str) -> None:
    assert told("gate_blocked", gate_result=answer) == words + NEXT


def test_texts_of_a_caller_are_cut() -> None:
    long = "x" * 16_000
    seen = {f"{number}{long}": long for number in range(9)}
    answer = {"trigger_type": long, "reasons": [long] * 9, "defer_until": long}
    assert len(told("condition_not_met", condition=long, trigger_data=seen)) < 800
    assert ", 5 more)" in told("condition_not_met", trigger_data=seen)
    assert len(told("gate_blocked", gate_result=answer)) < 500


def test_without_a_report_only_the_outcome_is_told() -> None:
    assert describe_event(IntentFired("condition_not_met", 0, HOUR), None) == f"Its condition was not met{NEXT}"
    assert describe_event(IntentFired("success", 0), None) == "Its action was carried out; no further check is planned."


@pytest.mark.parametrize(
    ("status", "report", "error", "words"),
    [
        (
            "success",
            {"trigger_data": {"notification": {"outcome": "LATER"}, "price:NVDA": 118}},
            None,
            "Its action was carried out (NVDA was 118), and its notification was answered LATER",
        ),
        ("success", {"trigger_data": {"notification": ["?"]}}, None, "Its action was carried out"),
        ("failed", {}, "ValueError('no news')", "Its check failed: ValueError('no news')"),
        ("failed", {}, None, "Its check failed"),
        ("failed", {}, CLAIM_EXPIRED, "Its check failed: whoever had claimed it did not report in time"),
    ],
)
def test_a_fire_is_told_in_words_with_what_it_saw_and_led_to(
    status: FireStatus, report: dict[str, Any], error: str | None, words: str
) -> None:
    fired = IntentFired(status, 0, HOUR, error=error)
    assert describe_event(fired, FireIntent(status=status, **report)) == words + NEXT
