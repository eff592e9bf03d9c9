"""A rule names every setting of the policy that it goes by, and no other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import msgspec
import pytest

from betimes.catalogue import DECIDERS, SECTIONS
from betimes.core.deciders import View
from betimes.core.instants import HOUR, MINUTE
from betimes.core.policies import Policy, PolicyBook, merge
from betimes.core.streams import StreamId
from betimes.core.verdicts import RuleTable
from betimes.core.windows import Window
from betimes.notifications.model import InboxState, Item, Preferences, Seen
from betimes.notifications.policy import NotificationsPolicy
from betimes.notifications.quiet_hours import QuietHours
from betimes.notifications.rule_context import RuleContext
from betimes.notifications.rules import RULES as NOTIFICATIONS
from betimes.runs.admission_request import gate_input, request_of
from betimes.runs.counters import QuotaState, quota_stream
from betimes.runs.model import AccountState, WaitingTrigger
from betimes.runs.policy import RunsPolicy
from betimes.runs.rules import ADMISSION
from betimes.scores.policy import ScoresPolicy
from betimes.scores.rules import RULES as SCORES
from betimes.scores.rules import score_case
from tests.domains.watched_settings import WatchedSettings
from tests.notifications.inboxes import NIGHT, NINE
from tests.scores.scene import hours, score

TABLES = {table.name: table for decider in DECIDERS for table in decider.tables}
BOOK = PolicyBook(SECTIONS)


def declared(table: RuleTable[Any]) -> dict[str, set[str]]:
    return {rule.name: set(rule.reads) for rule in table.rules if rule.reads}


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_path_is_one_of_the_policy(table: RuleTable[Any]) -> None:
    body = msgspec.json.decode(BOOK.effective(_TIERS).body)
    names = {"event_type": "MESSAGE", "channel": "push", "trigger_type": "SIGNAL_ARRIVED", "tier": "gold", "chapter": 1}
    for rule in table.rules:
        for path in rule.reads:
            assert _has(body, path.format_map(names).split(".")), path


def _has(body: Any, path: list[str]) -> bool:
    name, *rest = path
    if isinstance(body, list):
        body = {str(entry["name"]): entry for entry in body}
    if body is None:
        return True  # a part of the policy that is left out by default
    return name in body and (not rest or _has(body[name], rest))


# -- notifications: what the rules read is watched


def contexts(policy: Any) -> Iterator[RuleContext]:
    """Items and inboxes in which every rule matches once and passes once."""
    busy = tuple(NINE - age * MINUTE for age in (50, 40, 30, 4, 3, 2))
    used = {"push": busy, "sms": busy}
    quiet = Preferences(quiet_hours=(QuietHours(0, 23 * 60),))
    for event_type in ("MESSAGE", "PROMO", "DIGEST"):
        for preferences in (Preferences(), quiet, Preferences(quiet_hours=(NIGHT,), digest_windows=())):
            for requested in (False, True):
                inbox = InboxState(
                    preferences=preferences,
                    delivered=busy,
                    used=used,
                    last_by_type={event_type: NINE - HOUR},
                    seen=(Seen("same", NINE - HOUR, 3),),
                )
                item = Item(
                    version=9, event_id="e", event_type=event_type, accepted_at=NINE, channels=("push", "sms"),
                    exact="same", near=7, requested=requested,
                )  # fmt: skip
                yield RuleContext(StreamId("t", "inbox", "ann"), inbox, None, item, policy, NINE)


def test_notification_rules_name_what_they_read() -> None:
    tight = {"cap": 1, "span_s": 3600}
    types = {
        name: {"cooldown_s": 86_400, "thresholds": {"now_from": "0.9", "never_below": "0.1"}}
        for name in ("MESSAGE", "DIGEST")
    }
    seen_by: dict[str, set[str]] = defaultdict(set)
    for fatigue in ({}, {"day": tight, "hour": tight, "burst": tight}):
        body = {"event_types": types, "fatigue": fatigue, "channels": {"push": {"cap_24h": 1}}}
        policy = BOOK.effective({"notifications": body})[NotificationsPolicy]
        for rule in NOTIFICATIONS.rules:
            seen: set[str] = set()
            for context in contexts(WatchedSettings(policy, seen)):
                rule.check(context)
            seen_by[rule.name] |= {_with_placeholders(path) for path in seen}
    assert {name: _leaves(found) for name, found in seen_by.items() if found} == declared(NOTIFICATIONS)


def _leaves(paths: set[str]) -> set[str]:
    """Leave out parts that are `null` in one entry and were read field by field in another."""
    return {path for path in paths if not any(other.startswith(f"{path}.") for other in paths)}


def _with_placeholders(path: str) -> str:
    parts = path.split(".")
    if parts[0] in ("event_types", "channels"):
        parts[1] = {"event_types": "{event_type}", "channels": "{channel}"}[parts[0]]
    return ".".join(["notifications", *parts])


# -- runs and scores: the rules look at what was made of the policy, so the policy is changed and the rules watched

_TIERS = {
    "runs": {
        "tier": "gold",
        "tier_from": "policy",
        "tiers": {"gold": {}, "free": {"daily_run_budget": 1, "max_per_account_per_hour": 1, "action_cap": 1}},
        "registry": {"SIGNAL_ARRIVED": {"max_per_account_per_hour": 2, "cooldown_seconds": 60, "debounce_seconds": 60}},
    }
}
_RUNS_CHANGES: dict[str, tuple[Any, ...]] = {
    "registry.{trigger_type}.debounce_seconds": (1, 7_200),
    "registry.{trigger_type}.debounce_mode": ("trailing",),
    "registry.{trigger_type}.cooldown_seconds": (0, 7_200),
    "registry.{trigger_type}.max_per_account_per_hour": (1, 50),
    "registry.{trigger_type}.max_per_tenant_per_hour": (1, 50),
    "registry.{trigger_type}.mode": ("shadow",),
    "daily_run_budget": (1, 50),
    "tenant_daily_run_budget": (1, 50),
    "action_cap": (1, 50),
    "tier": ("free", None),
    "tier_from": ("request",),
    "tiers.{tier}.daily_run_budget": (1, 50),
    "tiers.{tier}.tenant_daily_run_budget": (1, 50),
    "tiers.{tier}.max_per_account_per_hour": (1, 50),
    "tiers.{tier}.max_per_tenant_per_hour": (1, 50),
    "tiers.{tier}.action_cap": (1, 50),
    "mode": ("shadow",),
    "start_deadline_seconds": (5,),
    "handler_lease_seconds": (5,),
}


def layer(path: str, value: Any) -> dict[str, Any]:
    for name in reversed(path.split(".")):
        value = {name: value}
    return value  # type: ignore[no-any-return]


def findings(table: RuleTable[Any], case: Any) -> dict[str, Any]:
    return {rule.name: rule.check(case) for rule in table.rules}


def settings_heeded(
    table: RuleTable[Any],
    cases: Callable[[Policy], Iterator[Any]],
    bases: tuple[dict[str, Any], ...],
    changes: dict[str, tuple[dict[str, Any], ...]],
) -> dict[str, set[str]]:
    """Return for each rule the paths whose change changes what it finds."""
    heeded: dict[str, set[str]] = defaultdict(set)
    for base in bases:
        before = [findings(table, case) for case in cases(BOOK.effective(base))]
        for path, change in ((path, change) for path, layers in changes.items() for change in layers):
            after = [findings(table, case) for case in cases(BOOK.effective(merge(base, change)))]
            for one, other in zip(before, after, strict=True):
                for name in (name for name in one if one[name] != other[name]):
                    heeded[name].add(path)
    return dict(heeded)


def accounts(policy: Policy) -> Iterator[Any]:
    type_ = "SIGNAL_ARRIVED"
    second = NINE // 1_000_000
    window: Window = ((second - 600, 3),)
    lately: Window = ((second - 60, 3),)
    for ago, own, shared in product((30, 1_800), (window, lately), (window, lately)):
        for tier in (None, "free"):
            account = AccountState(
                last_allowed_at=NINE - ago * 1_000_000,
                last_allowed_at_by_type={type_: NINE - ago * 1_000_000},
                allowed_by_type={type_: own},
            )
            others = {quota_stream("t"): QuotaState(taken_by_type={type_: shared})}
            trigger = WaitingTrigger("k", type_, NINE, NINE, "", (), NINE, tenant_tier=tier)
            entry = policy[RunsPolicy].registry[type_]
            view = View(StreamId("t", "account", "a"), account, 3, others)
            yield gate_input(request_of(view, trigger, "new", entry, policy, NINE))


def test_rules_of_runs_name_what_they_go_by() -> None:
    names = {"trigger_type": "SIGNAL_ARRIVED", "tier": "gold"}
    changes = {
        f"runs.{path}": tuple(layer(f"runs.{path.format_map(names)}", value) for value in values)
        for path, values in _RUNS_CHANGES.items()
    }
    caps = {"max_per_account_per_hour": 50, "max_per_tenant_per_hour": 2}
    roomy = merge(_TIERS, layer("runs.registry.SIGNAL_ARRIVED", caps))
    assert settings_heeded(ADMISSION, accounts, (_TIERS, roomy), changes) == declared(ADMISSION)


def test_rules_of_scores_name_what_they_go_by() -> None:
    def cases(policy: Policy) -> Iterator[Any]:
        state = score().state
        assert state
        for after in (10, 30, 24 * 40):
            yield score_case(state, policy[ScoresPolicy], hours(after))

    first = msgspec.to_builtins(ScoresPolicy().stages)
    changes = {
        f"scores.stages.{{chapter}}.{name}": tuple(
            {"scores": {"stages": [{**first[0], name: value}, *first[1:]]}} for value in values
        )
        for name, values in {"grace_hours": ("12",), "rate": ("0.1",), "daily_cap": ("0.1",)}.items()
    }
    plain: dict[str, dict[str, Any]] = {
        "paused_statuses": {"paused_statuses": ["active", "game_over"], "active_statuses": ["busy"]},
        "max_decay_per_cycle": {"max_decay_per_cycle": "0.9"},
        "start": {"start": 60},
        "sweep_interval_s": {"sweep_interval_s": 5},
    }
    changes |= {f"scores.{name}": ({"scores": section},) for name, section in plain.items()}
    assert settings_heeded(SCORES, cases, ({},), changes) == declared(SCORES)


def test_rules_of_definitions_go_by_no_policy() -> None:
    for name in ("ticks", "evaluations", "intents.fire", "intents.claim"):
        assert declared(TABLES[name]) == {}
