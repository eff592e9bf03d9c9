"""Intents over HTTP, as the contract has them."""

from __future__ import annotations

from typing import Any

from tests.http.served import Site, site

INTENT: dict[str, Any] = {
    "intent_id": "nvda-130",
    "user_id": "u-3",
    "trigger_type": "price",
    "condition": {"expression": "NVDA < 130"},
    "action_type": "notify",
    "action_context": "NVDA fell below 130.",
}
VIEW = [
    "intent_id",
    "user_id",
    "trigger_type",
    "enabled",
    "expires_at",
    "max_executions",
    "metadata",
    "schedule",
    "condition",
    "action_type",
    "action_context",
    "action_priority",
    "action_channels",
    "gate",
    "worker",
    "next_check",
    "due_at",
    "last_checked",
    "last_executed",
    "execution_count",
    "last_status",
    "last_error",
    "last_condition_fire",
    "in_cooldown",
    "cooldown_remaining_hours",
    "claimed_at",
    "claim",
    "was_disabled_reason",
    "waiting_for_source",
    "version",
    "created_at",
    "updated_at",
]
WRITTEN = [*VIEW, "warnings", "segment_id"]
FIRE = [
    "intent_id",
    "status",
    "cooldown_active",
    "cooldown_remaining_hours",
    "last_condition_fire",
    "execution_id",
    "next_check",
    "execution_count",
    "enabled",
    "was_disabled_reason",
    "explanation",
    "segment_id",
]
CLAIM = ["claim_token", "claimed_at", "expires_at", "intent"]
ONE = "/v1/intents/nvda-130"


async def due(s: Site, **fields: Any) -> None:
    """An intent whose first check is due."""
    assert (await s.client("POST", "/v1/intents", {**INTENT, **fields})).status == 201
    s.clock.advance(600)


async def test_an_intent_is_made_and_read_as_in_the_contract() -> None:
    async with site() as s:
        made = await s.client("POST", "/v1/intents", INTENT)
        assert (made.status, made.headers["location"], made.headers["etag"]) == (201, ONE, '"1"')
        assert list(made.json) == WRITTEN
        assert list(made.json["schedule"]) == [
            "cron",
            "interval_minutes",
            "trigger_at",
            "check_interval_minutes",
            "timezone",
        ]
        assert list(made.json["condition"]) == [
            "expression",
            "ticker",
            "metric",
            "operator",
            "value",
            "threshold_hours",
            "cooldown_hours",
            "fire_mode",
        ]
        got = await s.client("GET", ONE)
        assert (list(got.json), got.headers["etag"]) == (VIEW, '"1"')
        taken = await s.client("POST", "/v1/intents", INTENT)
        assert (taken.status, taken.json["code"]) == (409, "ALREADY_EXISTS")
        assert (await s.client("GET", "/v1/intents/none")).status == 404


async def test_a_replay_is_what_was_recorded_even_when_it_is_gone() -> None:
    async with site() as s:
        bare = {name: value for name, value in INTENT.items() if name != "intent_id"}
        made = await s.client("POST", "/v1/intents", bare, idempotency_key="k")
        path = made.headers["location"]
        await s.client("PATCH", path, {"action_context": "Other."})
        for _ in range(2):
            again = await s.client("POST", "/v1/intents", {**bare, "idempotency_key": "k"})
            assert (again.status, again.headers["idempotency-replayed"]) == (201, "true")
            assert again.json == made.json
            await s.client("DELETE", path)
        other = await s.client("POST", "/v1/intents", {**bare, "enabled": True}, idempotency_key="k")
        assert (other.status, other.json["code"]) == (409, "IDEMPOTENCY_CONFLICT")


async def test_every_rule_that_is_broken_is_in_one_answer() -> None:
    async with site() as s:
        body = {**INTENT, "schedule": {"timezone": "Mars/Base"}, "condition": {"expression": "NVDA <"}, "colour": 1}
        bad = await s.client("POST", "/v1/intents", body)
        assert bad.status == 422
        assert {error["path"] for error in bad.json["errors"]} == {
            "schedule.timezone",
            "condition.expression",
            "colour",
        }
        reserved = await s.client("PUT", "/v1/intents/pending", INTENT | {"intent_id": "pending"})
        assert (reserved.status, reserved.json["errors"][0]["path"]) == (422, "intent_id")
        assert (await s.client("POST", "/v1/intents", [INTENT])).status == 422


async def test_the_limit_of_enabled_intents_is_a_field_problem() -> None:
    async with site(policy={"intents": {"enabled_per_user_max": 1}}) as s:
        await s.client("POST", "/v1/intents", INTENT)
        over = await s.client("POST", "/v1/intents", {**INTENT, "intent_id": "more"})
        assert (over.status, over.json["errors"][0]["path"]) == (422, "user_id")


async def test_get_edit_put_works_and_is_conditional() -> None:
    async with site() as s:
        new = await s.client("PUT", ONE, INTENT)
        assert (new.status, new.headers["location"], new.json["version"]) == (201, ONE, 1)
        edited = {**(await s.client("GET", ONE)).json, "action_priority": "high"}
        put = await s.client("PUT", ONE, edited)
        assert (put.status, put.headers["etag"], put.json["action_priority"]) == (200, '"2"', "high")
        assert "location" not in put.headers
        stale = await s.client("PUT", ONE, edited)
        assert (stale.status, stale.json["code"]) == (412, "VERSION_MISMATCH")
        assert (await s.client("PUT", ONE, INTENT, if_match='"1"')).status == 412
        assert (await s.client("PUT", ONE, INTENT, if_none_match="*")).status == 412
        assert (await s.client("PUT", ONE, INTENT, if_match="two")).json["errors"][0]["path"] == "header.if-match"
        assert (await s.client("DELETE", ONE, if_match='"1"')).status == 412
        assert (await s.client("DELETE", ONE, if_match='"2"')).status == 204
        assert (await s.client("PUT", ONE, INTENT)).json["version"] > 2


async def test_a_patch_merges_and_null_restores_a_default() -> None:
    async with site() as s:
        await s.client("POST", "/v1/intents", {**INTENT, "metadata": {"a": 1}, "action_priority": "high"})
        body = {"metadata": {"b": 2}, "action_priority": None}
        patched = await s.client("PATCH", ONE, body, idempotency_key="p")
        assert (patched.status, list(patched.json)) == (200, WRITTEN)
        assert (patched.json["metadata"], patched.json["action_priority"]) == ({"a": 1, "b": 2}, "normal")
        again = await s.client("PATCH", ONE, body, idempotency_key="p", content_type="application/merge-patch+json")
        assert (again.headers["idempotency-replayed"], again.json) == ("true", patched.json)
        assert (await s.client("PATCH", ONE, {"version": 1, "enabled": False})).status == 412


async def test_switching_an_intent_off_and_on_moves_its_version() -> None:
    async with site() as s:
        await s.client("POST", "/v1/intents", INTENT)
        off = await s.client("POST", f"{ONE}/disable")
        on = await s.client("POST", f"{ONE}/enable")
        assert [(reply.status, reply.json["enabled"], reply.headers["etag"]) for reply in (off, on)] == [
            (200, False, '"2"'),
            (200, True, '"3"'),
        ]
        assert (await s.client("POST", "/v1/intents/none/enable")).status == 404


async def test_lists_are_filtered_and_paged() -> None:
    async with site() as s:
        for number in range(3):
            user_id = "u-1" if number else "u-0"
            await s.client("POST", "/v1/intents", {**INTENT, "intent_id": f"i-{number}", "user_id": user_id})
        page = (await s.client("GET", "/v1/intents?limit=2")).json
        assert list(page) == ["items", "next_cursor", "unreadable"]
        rest = (await s.client("GET", f"/v1/intents?limit=2&cursor={page['next_cursor']}")).json
        assert [item["intent_id"] for item in page["items"] + rest["items"]] == ["i-2", "i-1", "i-0"]
        assert len((await s.client("GET", "/v1/intents?user_id=u-1&enabled=true")).json["items"]) == 2
        wrong = await s.client("GET", "/v1/intents?trigger_type=whim")
        assert (wrong.status, wrong.json["errors"][0]["path"]) == (422, "query.trigger_type")


async def test_a_check_says_everything_and_records_nothing() -> None:
    async with site() as s:
        fine = await s.client("POST", "/v1/intents/check", INTENT)
        assert list(fine.json) == ["valid", "errors", "warnings", "next_checks"]
        assert (fine.json["valid"], len(fine.json["next_checks"])) == (True, 5)
        bad = await s.client("POST", "/v1/intents/check", {"user_id": "u-3"})
        assert (bad.status, bad.json["valid"]) == (200, False)
        assert {"path": "trigger_type", "message": "is required"} in bad.json["errors"]
        assert (await s.client("GET", "/v1/intents")).json["items"] == []


async def test_a_worker_claims_renews_fires_and_reads_the_history() -> None:
    async with site() as s:
        await due(s)
        pending = (await s.client("GET", "/v1/intents/pending?user_id=u-3&in_cooldown=false")).json
        assert [(list(item), item["intent_id"]) for item in pending["items"]] == [(VIEW, "nvda-130")]
        (claim,) = (await s.client("POST", "/v1/intents/claim?limit=5", {"worker": "w"})).json["items"]
        assert list(claim) == CLAIM
        assert claim["intent"]["claim"] == {"worker": "w", "expires_at": claim["expires_at"]}
        token = claim["claim_token"]
        renewed = await s.client("POST", f"{ONE}/renew", {"claim_token": token, "lease_s": 600})
        assert (list(renewed.json), renewed.json["claim_token"]) == (CLAIM, token)
        body = {"status": "success", "claim_token": token, "trigger_data": {"price": 128.4}}
        fired = await s.client("POST", f"{ONE}/fire", body, idempotency_key="f-1")
        assert (list(fired.json), fired.json["status"]) == (FIRE, "success")
        again = await s.client("POST", f"{ONE}/fire", body, idempotency_key="f-1")
        assert (again.headers["idempotency-replayed"], again.json) == ("true", fired.json)
        s.clock.advance(3600)
        cooling = await s.client("POST", f"{ONE}/fire", {"status": "success"})
        assert (cooling.json["status"], cooling.json["cooldown_remaining_hours"]) == ("cooldown_active", 23)
        (done,) = (await s.client("GET", f"{ONE}/history")).json["items"]
        assert list(done) == [
            "execution_id",
            "executed_at",
            "worker",
            "next_check",
            "segment_id",
            "status",
            "claim_token",
            "trigger_data",
            "gate_result",
            "message_id",
            "message_preview",
            "evaluation_ms",
            "generation_ms",
            "delivery_ms",
            "error_message",
        ]
        assert (done["execution_id"], done["worker"]) == (fired.json["execution_id"], "w")
        assert (await s.client("GET", "/v1/intents/none/history")).status == 404


async def test_a_second_worker_is_told_when_to_come_back() -> None:
    async with site() as s:
        hourly = {"trigger_type": "interval", "condition": None, "schedule": {"interval_minutes": 60}}
        await s.client("POST", "/v1/intents", {**INTENT, **hourly})
        not_due = await s.client("POST", f"{ONE}/claim")
        assert (not_due.status, not_due.json["code"]) == (409, "NOT_DUE")
        s.clock.advance(3600)
        first = await s.client("POST", f"{ONE}/claim", {"lease_s": 100}, idempotency_key="c-1")
        assert list(first.json) == CLAIM
        s.clock.advance(10)
        replayed = await s.client("POST", f"{ONE}/claim", {"lease_s": 100}, idempotency_key="c-1")
        assert (replayed.headers["idempotency-replayed"], replayed.json) == ("true", first.json)
        second = await s.client("POST", f"{ONE}/claim")
        assert (second.status, second.json["code"], second.headers["retry-after"]) == (409, "ALREADY_CLAIMED", "90")
        lost = await s.client("POST", f"{ONE}/release", {"claim_token": 99})
        assert (lost.status, lost.json["code"]) == (409, "CLAIM_LOST")
        body = {"claim_token": first.json["claim_token"]}
        released = await s.client("POST", f"{ONE}/release", body, idempotency_key="r-1")
        assert (released.status, released.raw) == (204, b"")
        again = await s.client("POST", f"{ONE}/release", body, idempotency_key="r-1")
        assert (again.status, again.headers["idempotency-replayed"]) == (204, "true")
        late = await s.client("POST", f"{ONE}/renew", {"claim_token": first.json["claim_token"]})
        assert (late.status, late.json["code"]) == (409, "CLAIM_LOST")


async def test_a_disabled_intent_is_neither_claimed_nor_fired() -> None:
    async with site() as s:
        await due(s, enabled=False)
        for verb, body in (("claim", {}), ("fire", {"status": "success"})):
            reply = await s.client("POST", f"{ONE}/{verb}", body)
            assert (reply.status, reply.json["code"]) == (409, "DISABLED")
        large = await s.client("POST", f"{ONE}/fire", {"status": "success", "trigger_data": {"x": "y" * 16_384}})
        assert (large.status, large.json["errors"][0]["path"]) == (422, "trigger_data")
        over = await s.client("POST", "/v1/intents/claim?limit=201")
        assert (over.status, over.json["errors"][0]["path"]) == (422, "query.limit")
