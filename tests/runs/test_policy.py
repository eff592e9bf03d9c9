"""The registry: the built-in types, what may be overridden, and what cannot work."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.core.errors import PolicyInvalid
from betimes.core.policies import PolicyBook
from betimes.runs.policy import Entry, RunsPolicy
from tests.runs.scenes import SECTIONS, entry

BOOK = PolicyBook(SECTIONS)


def runs(**settings: Any) -> RunsPolicy:
    return BOOK.effective({"runs": settings})[RunsPolicy]


@pytest.mark.parametrize(
    ("trigger_type", "debounce", "per_account"),
    [
        ("SIGNAL_ARRIVED", 60, 12),
        ("LIFECYCLE_STATE_CHANGE", 120, 6),
        ("POSTURE_CHANGE", 120, 6),
        ("TIME_RITUAL_DAILY_BRIEF", 72_000, 1),
        ("TIME_RITUAL_WEEKLY_REVIEW", 518_400, 1),
        ("TIME_RITUAL_RENEWAL_RUNWAY", 72_000, 2),
    ],
)
def test_the_built_in_types(trigger_type: str, debounce: int, per_account: int) -> None:
    expected = Entry(debounce_seconds=debounce, cooldown_seconds=300, max_per_account_per_hour=per_account)
    assert runs().registry[trigger_type] == expected


def test_an_override_keeps_what_it_does_not_name() -> None:
    policy = runs(registry={"SIGNAL_ARRIVED": {"cooldown_seconds": 0}, "CUSTOM": entry()})
    assert policy.registry["SIGNAL_ARRIVED"].debounce_seconds == 60
    assert policy.registry["SIGNAL_ARRIVED"].cooldown_seconds == 0
    assert len(policy.registry) == 7


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"registry": {"X": {"debounce_seconds": 1}}}, "runs.registry.X.cooldown_seconds"),
        ({"registry": {"x": entry()}}, "runs.registry"),
        ({"registry": {"X": entry(debounce_seconds=-1)}}, "runs.registry.X.debounce_seconds"),
        ({"registry": {"X": entry(debounce_seconds=2_592_001)}}, "runs.registry.X.debounce_seconds"),
        ({"registry": {"X": entry(max_per_account_per_hour=0)}}, "runs.registry.X.max_per_account_per_hour"),
        ({"registry": {"X": entry(max_per_tenant_per_hour=100_001)}}, "runs.registry.X.max_per_tenant_per_hour"),
        ({"registry": {"X": entry(debounce_mode="both")}}, "runs.registry.X.debounce_mode"),
        ({"registry": {"X": entry(debounce_keep="all")}}, "runs.registry.X"),
        ({"registry": {"X": entry(debounce_max_wait_seconds=5)}}, "runs.registry.X"),
        ({"registry": {"X": entry(debounce_mode="trailing")}}, "runs.registry.X.debounce_mode"),
        (
            {"registry": {"X": entry(debounce_mode="trailing", debounce_seconds=9, debounce_max_wait_seconds=8)}},
            "runs.registry.X",
        ),
        ({"registry": {"X": entry(handler={"kind": "python", "name": "no spaces"})}}, "runs.registry.X.handler.name"),
        ({"registry": {"X": entry(handler={"kind": "webhook", "url": "ftp://x"})}}, "runs.registry.X.handler.url"),
        ({"registry": {"X": entry(colour="red")}}, "runs.registry.X.colour"),
        ({"daily_run_budget": -1}, "runs.daily_run_budget"),
        ({"tier": "gold"}, "runs.tier"),
        ({"tiers": {"gold": {"action_cap": 0}}}, "runs.tiers.gold.action_cap"),
        ({"mode": "off"}, "runs.mode"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_with_its_path(settings: dict[str, Any], path: str) -> None:
    with pytest.raises(PolicyInvalid) as refusal:
        runs(**settings)
    assert [found for found, _ in refusal.value.problems] == [path]


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(PolicyInvalid) as refusal:
        runs(registry={"X": entry(debounce_seconds=-1, colour=1)}, mode="off")
    assert {path for path, _ in refusal.value.problems} == {
        "runs.registry.X.debounce_seconds",
        "runs.registry.X.colour",
        "runs.mode",
    }
