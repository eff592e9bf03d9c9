"""Runs over HTTP, as the contract has them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.served import site

TRIGGER = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"}


async def test_a_deferred_trigger_is_answered_as_in_the_contract() -> None:
    async with site() as s:
        first = await s.client("POST", "/v1/triggers", TRIGGER)
        assert (first.status, first.json["result"]) == (200, "ALLOW")
        s.clock.advance(120)
        body = {**TRIGGER, "idempotency_key": "sig-991", "payload": {"signal": "usage_drop"}}
        second = await s.client("POST", "/v1/triggers", body, x_correlation_id="c-9")
        assert second.headers["x-correlation-id"] == "c-9"
        told = second.json
        assert list(told) == [
            "result",
            "reason",
            "explanation",
            "evaluated_at",
            "defer_until",
            "defer_until_epoch",
            "retry_after_seconds",
            "would_pass_at",
            "account_id",
            "trigger_type",
            "idempotency_key",
            "run_id",
            "first",
            "is_replay",
            "shadow",
            "policy",
            "segment_id",
            "trace",
        ]
        assert (told["result"], told["reason"], told["defer_until"], told["retry_after_seconds"]) == (
            "DEFER",
            "COOLDOWN",
            "2026-01-05T09:05:00Z",
            180,
        )


async def test_a_trigger_that_waits_is_cancelled_over_http() -> None:
    async with site() as s:
        await s.client("POST", "/v1/triggers", TRIGGER)
        s.clock.advance(120)
        await s.client("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": "sig-2"})
        done = await s.client("POST", "/v1/triggers/sig-2/cancel", idempotency_key="c-1")
        assert (done.status, done.json["status"], done.json["retry"]["reason"]) == (200, "skipped", "CANCELLED")
        again = await s.client("POST", "/v1/triggers/sig-2/cancel", idempotency_key="c-1")
        assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
        for key in ("sig-1", "sig-2"):
            refused = await s.client("POST", f"/v1/triggers/{key}/cancel")
            assert (refused.status, refused.json["code"]) == (409, "NOT_WAITING")
        assert (await s.client("POST", "/v1/triggers/never/cancel")).status == 404


async def test_an_unknown_tier_is_422_wherever_it_is_sent() -> None:
    async with site() as s:
        for path in ("/v1/triggers", "/v1/gate/evaluate"):
            body = {**TRIGGER, "tenant_tier": "gold"}
            if path == "/v1/gate/evaluate":
                del body["idempotency_key"]
            bad = await s.client("POST", path, body)
            assert (bad.status, bad.json["code"], bad.json["errors"][0]["path"]) == (422, "INVALID", "tenant_tier")
            assert bad.json["errors"][0]["message"] == "no such tier: gold; known: none"


async def test_the_key_may_come_in_the_header_and_must_not_differ() -> None:
    async with site() as s:
        bare = {name: value for name, value in TRIGGER.items() if name != "idempotency_key"}
        assert (await s.client("POST", "/v1/triggers", bare, idempotency_key="h-1")).json["idempotency_key"] == "h-1"
        differing = await s.client("POST", "/v1/triggers", TRIGGER, idempotency_key="other")
        assert (differing.status, differing.json["errors"][0]["path"]) == (422, "idempotency_key")


async def test_every_bad_field_is_named() -> None:
    async with site() as s:
        bad = await s.client("POST", "/v1/triggers", {"account_id": "a b", "trigger_type": "x", "colour": 1})
        assert (bad.status, bad.headers["content-type"]) == (422, "application/problem+json")
        paths = sorted(error["path"] for error in bad.json["errors"])
        assert paths == ["account_id", "colour", "idempotency_key", "trigger_type"]
        unknown = await s.client("POST", "/v1/triggers", {**TRIGGER, "trigger_type": "NO_SUCH"})
        assert (unknown.status, unknown.json["code"]) == (422, "UNKNOWN_TRIGGER_TYPE")
        [error] = unknown.json["errors"]
        assert error["path"] == "trigger_type"
        assert "SIGNAL_ARRIVED" in error["message"], "the ones there are"


async def test_a_batch_answers_each_item_in_order() -> None:
    async with site() as s:
        items: list[Any] = [TRIGGER, {"account_id": "x"}, TRIGGER]
        batch = await s.client("POST", "/v1/triggers", {"items": items})
        assert [item["status"] for item in batch.json["items"]] == [200, 422, 200]
        assert [item["index"] for item in batch.json["items"]] == [0, 1, 2]
        assert batch.json["items"][0]["body"]["trace"] is None
        assert batch.json["items"][2]["body"]["reason"] == "DUPLICATE_IDEMPOTENCY_KEY"
        assert batch.json["items"][1]["problem"]["errors"][0]["path"].startswith("items[1].")


async def test_each_item_of_a_batch_is_part_of_what_it_says_itself_or_else_of_what_the_request_says() -> None:
    async with site() as s:
        envelope = {
            "detail-type": "RUN_DECISION",
            "detail": {**TRIGGER, "idempotency_key": "k3"},
            "correlation_id": "c-3",
        }
        items = [{**TRIGGER, "correlation_id": "c-1"}, {**TRIGGER, "idempotency_key": "k2"}, envelope]
        batch = await s.client("POST", "/v1/triggers", {"items": items}, x_correlation_id="c-0")
        assert [item["status"] for item in batch.json["items"]] == [200, 200, 200]
        for number, key in (("c-1", "sig-1"), ("c-0", "k2"), ("c-3", "k3")):
            listed = (await s.client("GET", f"/v1/ledger?correlation_id={number}&kind=account")).json["items"]
            assert [one["key"] for one in listed] == [key]
            assert (await s.client("GET", f"/v1/triggers/{key}")).json["correlation_id"] == number


async def test_a_worker_claims_and_completes() -> None:
    async with site() as s:
        await s.client("POST", "/v1/triggers", TRIGGER)
        (claim,) = (await s.client("POST", "/v1/runs/claim?limit=5", {"worker": "w"})).json["items"]
        path = f"/v1/runs/{claim['run']['run_id']}"
        assert (await s.client("POST", f"{path}/claim")).json["code"] == "ALREADY_CLAIMED"
        done = await s.client("POST", f"{path}/complete", {"claim_token": 1, "status": "succeeded", "result": {"n": 1}})
        assert (done.status, done.json["status"], done.json["result"]) == (200, "succeeded", {"n": 1})
        late = await s.client("POST", f"{path}/complete", {"claim_token": 1, "status": "failed"})
        assert (late.status, late.json["code"]) == (409, "CLAIM_LOST")


async def test_the_registry_is_conditional_on_its_version() -> None:
    async with site() as s:
        before = await s.client("GET", "/v1/registry")
        assert (before.headers["etag"], len(before.json["entries"])) == ('"0"', 6)
        entry = {"trigger_type": "CUSTOM", "debounce_seconds": 1, "cooldown_seconds": 0}
        put = await s.client("PUT", "/v1/registry", {"entries": [entry]}, if_match='"0"')
        assert (put.status, put.headers["etag"]) == (200, '"1"')
        again = await s.client("PUT", "/v1/registry", {"entries": []}, if_match='"0"')
        assert (again.status, again.json["code"]) == (412, "VERSION_MISMATCH")


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "code"),
    [
        ("GET", "/v1/nothing", None, 404, "NOT_FOUND"),
        ("DELETE", "/v1/runs", None, 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/v1/runs?limit=0", None, 422, "INVALID"),
        ("GET", "/v1/runs?colour=red", None, 422, "INVALID"),
        ("GET", "/v1/runs/run_none", None, 404, "NOT_FOUND"),
        ("POST", "/v1/triggers", b"{", 400, "MALFORMED_JSON"),
        ("POST", "/v1/triggers", b"[" * 40 + b"]" * 40, 400, "MALFORMED_JSON"),
        ("POST", "/v1/triggers", b" " * (4 * 1024 * 1024 + 1), 413, "BODY_TOO_LARGE"),
        ("POST", "/v1/triggers", {"items": []}, 422, "INVALID"),
    ],
)
async def test_what_cannot_be_answered_is_a_problem(
    method: str, target: str, body: Any, status: int, code: str
) -> None:
    async with site() as s:
        reply = await s.client(method, target, body)
        assert (reply.status, reply.json["code"]) == (status, code)
        assert reply.json["type"] == f"urn:betimes:problem:{code}"


async def test_tenants_are_apart() -> None:
    async with site() as s:
        run_id = (await s.client("POST", "/v1/triggers", TRIGGER)).json["run_id"]
        assert (await s.as_tenant("other")("GET", f"/v1/runs/{run_id}")).status == 404
        foreign = await s.client("POST", "/v1/triggers", {**TRIGGER, "tenant_id": "other"})
        assert (foreign.status, foreign.json["errors"][0]["path"]) == (422, "tenant_id")
