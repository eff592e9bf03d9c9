"""The section `scores`: its defaults, and what it refuses, with paths."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from betimes.core.errors import PolicyInvalid
from betimes.core.instants import HOUR
from betimes.core.policies import PolicyBook
from betimes.scores.amounts import POINT, micro, number, points
from betimes.scores.policy import ScoresPolicy

BOOK = PolicyBook({"scores": ScoresPolicy})
STAGE = {"name": "calm", "grace_hours": 1, "rate": 0.5, "daily_cap": 5}


def problems_of(section: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(PolicyInvalid) as caught:
        BOOK.effective({"scores": section})
    return list(caught.value.problems)


def test_the_defaults_are_the_table() -> None:
    """AC-T2.3, AC-T2.4"""
    policy = BOOK.effective()[ScoresPolicy]
    rows = [(name, t.grace_us // HOUR, t.rate, t.daily_cap, t.cycle_cap) for name, t in policy.terms.items()]
    assert rows == [
        (1, 24, 800_000, 15 * POINT, 20 * POINT),
        (2, 36, 600_000, 12 * POINT, 20 * POINT),
        (3, 48, 400_000, 10 * POINT, 20 * POINT),
        (4, 72, 300_000, 8 * POINT, 20 * POINT),
        (5, 96, 200_000, 5 * POINT, 20 * POINT),
    ]
    assert policy.levels == ((40 * POINT, "warning"), (20 * POINT, "critical"))


def test_numbers_of_a_policy_are_exact_and_come_back_from_its_body() -> None:
    policy = BOOK.effective({"scores": {"stages": [{**STAGE, "rate": 0.1}], "start": "33.333333"}})
    assert BOOK.from_stored(policy.body).fingerprint == policy.fingerprint
    assert policy[ScoresPolicy].terms["calm"].rate == 100_000
    assert micro(policy[ScoresPolicy].start) == 33_333_333


def test_stages_and_statuses_may_have_other_names() -> None:
    section = {
        "stages": [STAGE, {**STAGE, "name": 7}],
        "active_statuses": ["engaged"],
        "paused_statuses": ["on_leave", "lapsed"],
        "game_over_status": "lapsed",
    }
    policy = BOOK.effective({"scores": section})[ScoresPolicy]
    assert list(policy.terms) == ["calm", 7]
    assert policy.knows_status("on_leave")
    assert not policy.knows_status("active")


@pytest.mark.parametrize(
    ("section", "path", "message"),
    [
        ({"stages": []}, "scores.stages", "at least 1"),
        ({"stages": [{**STAGE, "rate": -1}]}, "scores.stages[0]", "rate must be a number from 0 to 100"),
        ({"stages": [{**STAGE, "rate": "NaN"}]}, "scores.stages[0].rate", "must be a number"),
        ({"stages": [{**STAGE, "grace_hours": 100_000}]}, "scores.stages[0]", "grace_hours must be"),
        ({"stages": [{**STAGE, "daily_cap": 101}]}, "scores.stages[0]", "daily_cap must be"),
        ({"stages": [{**STAGE, "rate": "0.1234567"}]}, "scores.stages[0]", "more than 6 decimals"),
        ({"stages": [{**STAGE, "speed": 1}]}, "scores.stages[0].speed", "no such field"),
        ({"stages": [STAGE, STAGE]}, "scores", "stages must be distinct"),
        ({"stages": [{**STAGE, "name": 1}, {**STAGE, "name": "1"}]}, "scores", "stages must be distinct"),
        ({"max_decay_per_cycle": 0.5}, "scores", "max_decay_per_cycle is less than stages[0].rate"),
        ({"start": 0}, "scores", "start must be more than 0"),
        ({"start": 101}, "scores", "start must be a number"),
        ({"thresholds": [{"name": "low", "score": 0}]}, "scores.thresholds[0]", "between 0"),
        ({"thresholds": [{"name": "a", "score": 1}, {"name": "b", "score": 1}]}, "scores", "thresholds' scores"),
        ({"thresholds": [{"name": "a", "score": 1}, {"name": "a", "score": 2}]}, "scores", "thresholds must be"),
        ({"paused_statuses": ["game_over", "active"]}, "scores", "must be distinct"),
        ({"paused_statuses": ["won"]}, "scores", "game_over_status 'game_over' must be one of"),
        ({"interactions": ["text", "portal"]}, "scores", "must be distinct"),
        ({"sweep_interval_s": 0}, "scores.sweep_interval_s", "at least 1"),
        ({"grace": 1}, "scores.grace", "no such field"),
    ],
)
def test_what_cannot_work_is_refused_with_its_path(section: dict[str, Any], path: str, message: str) -> None:
    [(where, what)] = problems_of(section)
    assert where == path
    assert message in what


def test_amounts_are_exact_both_ways() -> None:
    assert micro(Decimal("48.4")) == 48_400_000
    assert str(points(48_400_000)) == "48.4"
    assert str(points(50 * POINT)) == "50"
    assert str(points(1)) == "0.000001" or points(1) == Decimal("0.000001")
    assert msgspec.json.encode([number(50 * POINT), number(48_400_000)]) == b"[50,48.4]"
    for wrong in ("NaN", "Infinity", "1.0000001"):
        with pytest.raises(ValueError, match=r"points|decimals"):
            micro(Decimal(wrong))
