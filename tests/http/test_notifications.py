"""Notifications over HTTP, as the contract has them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.served import Site, site

NOTE: dict[str, Any] = {
    "event_id": "evt-51",
    "user_id": "u-3",
    "event_type": "MESSAGE",
    "priority_hint": "HIGH",
    "title": "Ana replied",
    "message": "See you at nine?",
    "source": "chat",
    "channels": ["in_app"],
}
VERDICT = [
    "event_id",
    "user_id",
    "outcome",
    "reasons",
    "explanation",
    "evaluated_at",
    "defer_until",
    "would_pass_at",
    "score",
    "ai_score",
    "ai_used",
    "flags",
    "defer_count",
    "delivery_channel",
    "is_replay",
    "shadow",
    "policy",
    "segment_id",
    "trace",
]
PREFERENCES = ["timezone", "quiet_hours", "opt_out", "digest_windows", "digest_channel", "addresses"]
INCIDENT = ["incident_id", "scope", "user_id", "reason", "opened_at", "ends_at"]
QUIET = {"timezone": "Europe/Berlin", "quiet_hours": [{"start": "09:00", "end": "11:00"}]}


async def sent(s: Site, event_id: str = "evt-51", **fields: Any) -> Any:
    reply = await s.client("POST", "/v1/notifications", {**NOTE, "event_id": event_id, **fields})
    assert reply.status == 200
    return reply.json


async def test_a_notification_that_waits_is_answered_as_in_the_contract() -> None:
    async with site() as s:
        await s.client("PUT", "/v1/users/u-3/preferences", QUIET)
        told = await s.client("POST", "/v1/notifications?trace=false", NOTE)
        assert (told.status, list(told.json)) == (200, VERDICT)
        assert (told.json["outcome"], told.json["reasons"], told.json["trace"]) == ("LATER", ["QUIET_HOURS"], None)
        assert told.json["explanation"].startswith("Quiet hours last until 11:00")
        traced = await sent(s, "evt-52")
        assert list(traced["trace"][0]) == ["rule", "matched", "reason", "mode", "values"]


async def test_a_repeat_is_the_first_decision_and_another_persons_event_a_conflict() -> None:
    async with site() as s:
        first = await sent(s)
        again = await s.client("POST", "/v1/notifications", {**NOTE, "title": "Other"})
        assert again.headers["idempotency-replayed"] == "true"
        assert again.json == {**first, "is_replay": True}
        other = await s.client("POST", "/v1/notifications", {**NOTE, "user_id": "u-4"})
        assert (other.status, other.json["code"]) == (409, "IDEMPOTENCY_CONFLICT")


async def test_an_item_of_a_batch_has_its_own_correlation_or_that_of_the_whole() -> None:
    async with site() as s:
        items = [{**NOTE, "correlation_id": "c-1"}, {**NOTE, "event_id": "e-2", "message": "Something else altogether"}]
        batch = await s.client("POST", "/v1/notifications", {"items": items}, x_correlation_id="c-0")
        assert [item["status"] for item in batch.json["items"]] == [200, 200]
        for correlation, event_id in (("c-1", NOTE["event_id"]), ("c-0", "e-2")):
            found = (await s.client("GET", f"/v1/ledger?correlation_id={correlation}&kind=inbox")).json["items"]
            assert [segment["key"] for segment in found] == [event_id]


async def test_a_correlation_id_in_the_body_is_echoed_and_recorded() -> None:
    async with site() as s:
        told = await s.client("POST", "/v1/notifications", {**NOTE, "correlation_id": "c-7"})
        assert told.headers["x-correlation-id"] == "c-7"
        (segment, *_) = (await s.client("GET", "/v1/ledger?correlation_id=c-7")).json["items"]
        assert segment["segment_id"] == told.json["segment_id"]
        strange = await s.client("POST", "/v1/notifications", {**NOTE, "event_id": "e-2", "correlation_id": "ü\n"})
        assert strange.status == 200


async def test_the_event_id_may_come_in_the_header() -> None:
    async with site() as s:
        bare = {name: value for name, value in NOTE.items() if name != "event_id"}
        assert (await s.client("POST", "/v1/notifications", bare, idempotency_key="e-9")).json["event_id"] == "e-9"
        differs = await s.client("POST", "/v1/notifications", NOTE, idempotency_key="e-9")
        assert (differs.status, differs.json["errors"][0]["path"]) == (422, "event_id")


async def test_every_bad_field_is_named_those_of_the_policy_too() -> None:
    async with site() as s:
        bad = await s.client("POST", "/v1/notifications", {**NOTE, "title": "", "event_type": "GOSSIP", "colour": 1})
        assert bad.status == 422
        assert {error["path"] for error in bad.json["errors"]} == {"title", "event_type", "colour"}
        assert (await s.client("POST", "/v1/notifications", [])).status == 422


async def test_a_batch_keeps_the_order_and_leaves_the_trace_out() -> None:
    async with site() as s:
        items = [NOTE, {"event_id": "x"}, NOTE, {**NOTE, "event_id": "evt-52", "message": "Or at ten, as you like?"}]
        batch = (await s.client("POST", "/v1/notifications", {"items": items})).json["items"]
        assert [item["status"] for item in batch] == [200, 422, 200, 200]
        assert [item["index"] for item in batch] == [0, 1, 2, 3]
        assert [batch[place]["body"]["is_replay"] for place in (0, 2, 3)] == [False, True, False]
        assert batch[0]["body"]["trace"] is None
        assert batch[1]["problem"]["errors"][0]["path"].startswith("items[1].")
        traced = await s.client("POST", "/v1/notifications?trace=true", {"items": [{**NOTE, "event_id": "evt-53"}]})
        assert traced.json["items"][0]["body"]["trace"]


async def test_classify_records_nothing() -> None:
    async with site() as s:
        body = {name: value for name, value in NOTE.items() if name != "event_id"}
        told = await s.client("POST", "/v1/notifications/classify", {**body, "at": "2026-01-06T09:00:00Z"})
        assert list(told.json) == VERDICT
        assert (told.json["event_id"], told.json["segment_id"]) == (None, None)
        assert told.json["evaluated_at"] == "2026-01-06T09:00:00Z"
        assert (await s.client("GET", "/v1/users/u-3/notification-state")).json["delivered_24h"] == 0
        assert (await s.client("POST", "/v1/notifications/classify", {"user_id": "u-3"})).status == 422


async def test_what_became_of_a_notification() -> None:
    async with site() as s:
        await sent(s)
        got = await s.client("GET", "/v1/notifications/evt-51")
        assert list(got.json) == [*VERDICT, "notification", "requested", "status", "judgements", "deliveries"]
        assert got.json["status"] == "delivered"
        assert list(got.json["judgements"][0]) == ["evaluated_at", "outcome", "reasons", "defer_until", "segment_id"]
        assert list(got.json["deliveries"][0]) == [
            "effect_id",
            "channel",
            "status",
            "attempts",
            "next_attempt_at",
            "last_error",
            "delivered_at",
        ]
        assert {name: got.json["notification"][name] for name in NOTE} == NOTE
        assert (await s.client("GET", "/v1/notifications/evt-51?trace=false")).json["trace"] is None
        assert (await s.client("GET", "/v1/notifications/never")).status == 404


async def test_the_status_of_many_is_a_batch() -> None:
    async with site() as s:
        await sent(s)
        reply = await s.client("POST", "/v1/notifications/batch-status", {"event_ids": ["evt-51", "never"]})
        found, missing = reply.json["items"]
        assert list(found) == ["index", "status", "body", "problem"]
        assert list(found["body"]) == ["event_id", "status", "outcome", "reasons", "defer_until", "defer_count"]
        assert (missing["status"], missing["body"], missing["problem"]["code"]) == (404, None, "NOT_FOUND")
        many = {"event_ids": [f"e-{number}" for number in range(101)]}
        assert (await s.client("POST", "/v1/notifications/batch-status", many)).status == 422


async def test_a_persons_state_has_the_fields_of_the_contract() -> None:
    async with site() as s:
        await s.client("PUT", "/v1/users/u-3/preferences", QUIET)
        await sent(s)
        state = (await s.client("GET", "/v1/users/u-3/notification-state")).json
        assert list(state) == [
            "user_id",
            "delivered_5m",
            "delivered_1h",
            "delivered_24h",
            "channels",
            "cooldowns",
            "quiet_until",
            "incident",
            "banned",
            "next_digest_at",
            "waiting",
        ]
        assert list(state["channels"]["in_app"]) == ["used", "cap", "free_at"]
        assert list(state["waiting"][0]) == ["event_id", "event_type", "reasons", "defer_until", "defer_count"]
        assert state["quiet_until"] == "2026-01-05T10:00:00Z"


async def test_preferences_are_replaced_and_patched_on_condition_of_their_version() -> None:
    async with site() as s:
        path = "/v1/users/u-3/preferences"
        never = await s.client("GET", path)
        assert (never.headers["etag"], list(never.json)) == (
            '"0"',
            [*PREFERENCES, "version", "created_at", "updated_at"],
        )
        put = await s.client("PUT", path, {**never.json, **QUIET}, if_match='"0"')
        assert (put.status, put.headers["etag"]) == (200, '"1"')
        assert list(put.json) == [*PREFERENCES, "version", "created_at", "updated_at", "warnings", "segment_id"]
        stale = await s.client("PUT", path, {**QUIET, "version": 0})
        assert (stale.status, stale.json["code"]) == (412, "VERSION_MISMATCH")
        assert (await s.client("PUT", path, QUIET, if_none_match="*")).status == 412
        patch = {"quiet_hours": None, "opt_out": {"channels": ["sms"]}}
        patched = await s.client("PATCH", path, patch, idempotency_key="p-1")
        assert (patched.json["timezone"], patched.json["quiet_hours"]) == ("Europe/Berlin", [])
        assert patched.json["opt_out"] == {"all": False, "event_types": [], "channels": ["sms"]}
        await s.client("PATCH", path, {"timezone": "UTC"})
        again = await s.client("PATCH", path, patch, idempotency_key="p-1")
        assert (again.headers["idempotency-replayed"], again.json) == ("true", patched.json)
        wrong = await s.client("PATCH", path, {"timezone": "Mars/Base", "colour": "red"})
        assert wrong.status == 422
        both = await s.client("PUT", path, {**QUIET, "version": 3}, if_match='"2"')
        assert (both.status, both.json["errors"][0]["path"]) == (422, "version")


async def test_in_app_messages_are_listed_and_marked_as_read() -> None:
    async with site() as s:
        await sent(s)
        await s.bt.tick()
        page = (await s.client("GET", "/v1/users/u-3/inbox?unread=true")).json
        assert list(page) == ["items", "next_cursor", "unread_count", "unreadable"]
        (item,) = page["items"]
        assert list(item) == [
            "item_id",
            "event_id",
            "event_type",
            "title",
            "message",
            "metadata",
            "digest",
            "delivered_at",
            "read_at",
        ]
        path, body = "/v1/users/u-3/inbox/read", {"item_ids": [item["item_id"]]}
        read = await s.client("POST", path, body, idempotency_key="r-1")
        assert read.json == {"read_count": 1, "unread_count": 0}
        again = await s.client("POST", path, body, idempotency_key="r-1")
        assert (again.headers["idempotency-replayed"], again.json) == ("true", read.json)
        assert (await s.client("GET", "/v1/users/u-3/inbox?unread=true")).json["items"] == []
        neither = await s.client("POST", path, {})
        assert (neither.status, neither.json["errors"][0]["path"]) == (422, "item_ids")


async def test_a_banned_person_hears_nothing() -> None:
    async with site() as s:
        banned = await s.client("PUT", "/v1/users/u-3/ban", {"reason": "spam"})
        assert banned.json == {"user_id": "u-3", "banned": True, "reason": "spam"}
        assert (await sent(s))["reasons"] == ["ACCOUNT_BANNED"]
        lifted = await s.client("DELETE", "/v1/users/u-3/ban")
        assert (lifted.status, lifted.raw) == (204, b"")
        assert (await s.client("PUT", "/v1/users/u-3/ban", {"reason": "x" * 201})).status == 422


async def test_incidents_are_opened_listed_and_closed() -> None:
    async with site() as s:
        first = await s.client("POST", "/v1/incidents", {"reason": "outage"}, idempotency_key="i-1")
        assert (first.status, list(first.json)) == (201, INCIDENT)
        assert first.headers["location"] == f"/v1/incidents/{first.json['incident_id']}"
        replayed = await s.client("POST", "/v1/incidents", {"reason": "outage"}, idempotency_key="i-1")
        assert (replayed.status, replayed.headers["idempotency-replayed"]) == (201, "true")
        later = await s.client("POST", "/v1/incidents", {"ttl_seconds": 10_000})
        assert (later.status, later.json["incident_id"]) == (200, first.json["incident_id"])
        assert "location" not in later.headers
        for user_id in ("u-1", "u-2"):
            assert (await s.client("POST", "/v1/incidents", {"user_id": user_id})).json["scope"] == "user"
        seen: list[str | None] = []
        cursor: str | None = ""
        while cursor is not None:
            page = (await s.client("GET", f"/v1/incidents?limit=1{cursor and f'&cursor={cursor}'}")).json
            assert len(page["items"]) == 1
            seen += [item["user_id"] for item in page["items"]]
            cursor = page["next_cursor"]
        assert seen == ["u-2", "u-1", None]
        path = f"/v1/incidents/{first.json['incident_id']}"
        assert (await s.client("DELETE", path)).status == 204
        assert (await s.client("DELETE", path)).status == 404


@pytest.mark.parametrize("ttl", [59, 604_801])
async def test_an_incident_lasts_a_minute_to_a_week(ttl: int) -> None:
    async with site() as s:
        reply = await s.client("POST", "/v1/incidents", {"ttl_seconds": ttl})
        assert (reply.status, reply.json["errors"][0]["path"]) == (422, "ttl_seconds")
