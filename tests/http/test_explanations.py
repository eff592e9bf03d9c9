"""Why, over HTTP: every rule of a verdict, and the rules there are."""

from __future__ import annotations

from typing import Any

from betimes.admin.service import NewKey
from betimes.domain.service import Caller
from tests.http.served import Client, Site, site

TRIGGER = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"}


async def client_with(s: Site, *scopes: Any, tenant: str = "acme") -> Client:
    made = await s.bt.for_caller(Caller(tenant)).tenants.create_key(NewKey(name="test", scopes=scopes))
    return s.with_key(made.secret or "")


async def deferred(s: Site) -> None:
    """A trigger that was allowed, and one that waits for its cooldown."""
    await s.client("POST", "/v1/triggers", TRIGGER)
    s.clock.advance(120)
    await s.client("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": "sig-2"})


async def test_an_explanation_has_every_rule_of_the_table_in_order_with_what_became_of_it() -> None:
    async with site() as s:
        await deferred(s)
        why = (await s.client("GET", "/v1/explain/account:acct-7:2")).json
        assert [(rule["number"], rule["rule"], rule["outcome"]) for rule in why["rules"]] == [
            (1, "debounce", "passed"),
            (2, "budget", "passed"),
            (3, "cooldown", "bound"),
            (4, "account_cap", "not_reached"),
            (5, "tenant_cap", "not_reached"),
            (6, "saturation", "not_reached"),
        ]
        bound, unseen = why["rules"][2], why["rules"][3]
        assert bound["sentence"] == "the last run was 2 minutes ago; the account's cooldown is 5 minutes"
        assert bound["values"] == {"elapsed_s": 120, "limit_s": 300}
        assert "runs.registry.{trigger_type}.cooldown_seconds" in bound["reads"]
        assert (unseen["sentence"], unseen["values"]) == ("an earlier rule had decided", {})
        assert why["policy_in_force"] == why["policy"]


async def test_the_policy_in_force_is_told_beside_the_one_that_decided() -> None:
    async with site() as s:
        await deferred(s)
        await s.client("PUT", "/v1/policy", {"overrides": {"runs": {"mode": "shadow"}}})
        why = (await s.client("GET", "/v1/explain/account:acct-7:2")).json
        assert why["policy_in_force"] == (await s.client("GET", "/v1/policy")).json["fingerprint"] != why["policy"]


async def test_times_can_be_shown_in_the_zone_of_whom_or_what_it_is_about() -> None:
    async with site() as s:
        await deferred(s)
        assert (await s.client("GET", "/v1/explain/account:acct-7:2")).json["timezone"] is None
        await s.client("PUT", "/v1/users/acct-7/preferences", {"timezone": "Asia/Tokyo"})
        daily = {"schedule_id": "daily", "cron": "0 8 * * *", "timezone": "Europe/Berlin"}
        target = {"kind": "handler", "name": "report"}
        assert (await s.client("POST", "/v1/schedules", {**daily, "target": target})).status == 201
        for segment_id, timezone in {
            "inbox:acct-7:1": "Asia/Tokyo",
            "account:acct-7:2": "Asia/Tokyo",
            "schedule:daily:1": "Europe/Berlin",
        }.items():
            assert (await s.client("GET", f"/v1/explain/{segment_id}")).json["timezone"] == timezone


async def test_the_rules_there_are_are_listed_with_their_mode_for_whoever_may_read_them() -> None:
    async with site() as s:
        await s.client("PUT", "/v1/policy", {"overrides": {"notifications": {"shadow": ["digest"]}}})
        tables = {table["table"]: table for table in (await s.client("GET", "/v1/rules")).json["tables"]}
        assert tables.keys() == {
            "runs", "cost_gate", "notifications", "intents.claim", "intents.fire", "ticks", "evaluations", "scores"
        }  # fmt: skip
        assert tables["runs"]["otherwise"] == "ALLOW"
        rules = {rule["rule"]: rule for rule in tables["notifications"]["rules"]}
        assert [rule["number"] for rule in rules.values()] == [*range(1, len(rules) + 1)]
        assert (rules["digest"]["mode"], rules["score"]["mode"]) == ("shadow", "enforce")
        assert rules["fatigue_1h"]["says"] == "the person was told {count} times within the hour; the cap is {cap}"
        assert rules["fatigue_1h"]["sees"] == ["count", "cap"]
        assert "notifications.fatigue.hour.cap" in rules["fatigue_1h"]["reads"]
    async with site(dev=False) as s:
        only_runs = await client_with(s, "runs:read")
        tables = (await only_runs("GET", "/v1/rules")).json["tables"]
        assert {table["domain"] for table in tables} == {"runs"}
