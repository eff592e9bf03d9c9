"""The section `notifications`: tenants override it, and what cannot work is refused with its path."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.core.errors import Invalid, PolicyInvalid
from betimes.core.policies import PolicyBook
from betimes.notifications.model import OptOut, Preferences, PreferencesSet, SetPreferences
from betimes.notifications.policy import NotificationsPolicy
from betimes.notifications.quiet_hours import QuietHours
from tests.notifications.inboxes import NINE, SECTIONS, inbox

BOOK = PolicyBook(SECTIONS)


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ({"weights": {"hint": 0.4}}, "notifications.weights"),
        ({"weights": {"hint": 0.35001}}, "notifications.weights.hint"),
        ({"weights": {"hint": "NaN"}}, "notifications.weights.hint"),
        ({"event_types": {"SALE": {}}}, "notifications.event_types.SALE.weight"),
        ({"event_types": {"SALE": {"weight": 2}}}, "notifications.event_types.SALE.weight"),
        ({"event_types": {"MESSAGE": {"ai_fallback": 2}}}, "notifications.event_types.MESSAGE.ai_fallback"),
        ({"thresholds": {"never_below": 0.9}}, "notifications.thresholds"),
        ({"hints": {"low": 0.9}}, "notifications.hints"),
        ({"hints": {"low": 5}}, "notifications.hints.low"),
        ({"hints": {"absent": 0.1}}, "notifications.hints"),
        ({"fatigue": {"day": {"cap": 0}}}, "notifications.fatigue.day.cap"),
        ({"fatigue": {"day": {"span_s": 100_000}}}, "notifications.fatigue.day.span_s"),
        ({"fatigue": {"day_resumes": "25:00"}}, "notifications.fatigue.day_resumes"),
        ({"digest_windows": ["noon"]}, "notifications.digest_windows"),
        ({"critical_channels": ["pigeon"]}, "notifications.critical_channels"),
        ({"ai_fallback": 7}, "notifications.ai_fallback"),
        ({"shadow": ["critical"]}, "notifications.shadow[0]"),
        ({"caps": 3}, "notifications.caps"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_with_its_path(setting: dict[str, Any], path: str) -> None:
    with pytest.raises(PolicyInvalid) as error:
        BOOK.effective({"notifications": setting})
    [(where, message)] = error.value.problems
    assert f"{where}.{message}".startswith(path), "the path, or the section and a message that begins with the field"


def test_a_tenant_overrides_one_thing_and_keeps_the_rest() -> None:
    deployment = {"notifications": {"event_types": {"SALE": {"weight": 0.2}}, "jitter_s": 60}}
    own = {"notifications": {"event_types": {"MESSAGE": {"cooldown_s": 60}}}}
    policy = BOOK.effective(deployment, own)[NotificationsPolicy]
    assert sorted(policy.event_types) == [
        "ALERT",
        "DIGEST",
        "MESSAGE",
        "PROMO",
        "REMINDER",
        "SALE",
        "SECURITY",
        "SYSTEM",
        "UPDATE",
    ]
    assert (policy.event_types["MESSAGE"].cooldown_s, str(policy.event_types["MESSAGE"].weight)) == (60, "0.75")
    assert policy.jitter_s == 60


def test_a_stored_policy_is_read_as_it_was() -> None:
    policy = BOOK.effective({"notifications": {"thresholds": {"now_from": 0.7}}})
    assert BOOK.from_stored(policy.body).fingerprint == policy.fingerprint


def test_preferences_are_checked_all_at_once() -> None:
    wrong = Preferences(
        timezone="Mars/Base",
        quiet_hours=(QuietHours(1, 1),),
        opt_out=OptOut(event_types=("X",), channels=("y",)),
        digest_windows=("noon",),
        digest_channel="z",
        addresses={"push": "", "fax": "1"},
    )
    with pytest.raises(Invalid) as error:
        inbox().when(SetPreferences(wrong))
    assert [path for path, _ in error.value.problems] == [
        "timezone",
        "quiet_hours[0]",
        "digest_windows[0]",
        "opt_out.event_types[0]",
        "opt_out.channels[0]",
        "digest_channel",
        "addresses.push",
        "addresses.fax",
    ]


@pytest.mark.parametrize("name", ["Europe/berlin", "utc", "localtime", "posixrules", "right/UTC", ""])
def test_a_zone_has_one_spelling_and_is_the_same_everywhere(name: str) -> None:
    with pytest.raises(Invalid, match="no such zone"):
        inbox().when(SetPreferences(Preferences(timezone=name)))


def test_preferences_have_versions() -> None:
    chosen = Preferences(timezone="Asia/Tokyo")
    scenario = inbox().when(SetPreferences(chosen, if_version=0)).then(PreferencesSet(chosen, 1, NINE))
    scenario.when(SetPreferences(chosen, if_version=0)).then_refused("VERSION_MISMATCH")
    scenario.when(SetPreferences(chosen)).then(PreferencesSet(chosen, 2, NINE))
