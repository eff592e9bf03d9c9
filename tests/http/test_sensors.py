"""Sensors over HTTP: messages in every form, proofs, cursors, evaluations by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from standardwebhooks import Webhook

from tests.http.served import ANY_HANDLER, Site, site
from tests.http.test_auth import made
from tests.http.test_automation import EVALUATION, POLL, SENSOR, with_evaluator

MESSAGE = b'{"message_id": "m-1", "data": {"order": 7}}'


async def test_a_message_is_evaluated_once() -> None:
    async with site() as s:
        await s.client("POST", "/v1/sensors", SENSOR)
        path = "/v1/sensors/orders/messages"
        first = await s.client("POST", path, MESSAGE)
        assert (first.status, list(first.json)) == (200, EVALUATION)
        assert list(first.json["run_requests"][0]) == [
            "run_key",
            "run_id",
            "target",
            "asset_selection",
            "partition_selection",
            "payload",
            "outcome",
            "run",
        ]
        again = await s.client("POST", path, MESSAGE)
        assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
        assert again.json == {**first.json, "is_replay": True}
        event = await s.client("POST", path, b'"hello"', ce_specversion="1.0", ce_id="1", ce_source="s", ce_type="t")
        assert event.json["status"] == "triggered"
        listed = (await s.client("GET", "/v1/sensors/orders/evaluations?status=triggered")).json["items"]
        assert [list(item) for item in listed] == [EVALUATION] * 2
        assert (await s.client("GET", "/v1/sensors/none/evaluations")).status == 404


EVENT = {"specversion": "1.0", "id": "caf\u00e9 1", "source": "/shop", "type": "order.made"}
CE_HEADERS = {"ce_specversion": "1.0", "ce_id": "caf%C3%A9%201", "ce_source": "%2Fshop", "ce_type": "order.made"}


async def test_an_event_sent_in_two_forms_is_one_message_and_one_run() -> None:
    async with site() as s:
        await s.client("POST", "/v1/sensors", SENSOR)
        path = "/v1/sensors/orders/messages"
        first = await s.client("POST", path, {**EVENT, "data": 7}, content_type="application/cloudevents+json")
        again = await s.client("POST", path, b"7", **CE_HEADERS)
        assert again.json == {**first.json, "is_replay": True}
        bad = await s.client("POST", path, b"", **{**CE_HEADERS, "ce_id": "%C0%A0"})
        assert (bad.status, bad.json["errors"][0]["path"]) == (422, "header.ce-id")


async def test_bytes_that_are_no_text_reach_the_run_as_they_were_sent() -> None:
    async with site() as s:
        await s.client("POST", "/v1/sensors", SENSOR)
        path = "/v1/sensors/orders/messages"
        told = await s.client("POST", path, b"\xff\x00\xfe", **{**CE_HEADERS, "content_type": "image/png"})
        message = told.json["run_requests"][0]["payload"]["message"]
        assert (message["data_base64"], "data" in message) == ("/wD+", False)


async def test_an_unwrapped_pub_sub_message_is_the_same_as_its_envelope() -> None:
    async with site() as s:
        await s.client("POST", "/v1/sensors", SENSOR)
        path, about = "/v1/sensors/orders/messages", {"publishTime": "2026-01-05T09:00:00Z", "orderingKey": "k"}
        envelope = {"message": {"messageId": "7", "data": "eyJhIjoxfQ==", **about}, "subscription": "projects/p/s"}
        headers = {
            "x_goog_pubsub_message_id": "7",
            "x_goog_pubsub_publish_time": "2026-01-05T09:00:00Z",
            "x_goog_pubsub_ordering_key": "k",
            "x_goog_pubsub_subscription_name": "projects/p/s",
        }
        first = await s.client("POST", path, b'{"a":1}', **headers, region="eu")
        message = first.json["run_requests"][0]["payload"]["message"]
        assert message == {
            "message_id": "7",
            "data": {"a": 1},
            "publish_time": "2026-01-05T09:00:00Z",
            "ordering_key": "k",
            "subscription": "projects/p/s",
            "attributes": {"content-type": "application/json", "region": "eu"},
        }
        assert (await s.client("POST", path, envelope)).json["is_replay"] is True


async def test_a_batch_of_events_is_answered_one_by_one() -> None:
    kind = "application/cloudevents-batch+json"
    async with site() as s:
        await s.client("POST", "/v1/sensors", SENSOR)
        path = "/v1/sensors/orders/messages"
        events = [{**EVENT, "id": "1"}, {"id": "2"}, {**EVENT, "id": "1"}, {**EVENT, "id": "3"}]
        told = await s.client("POST", path, events, content_type=f"{kind}; charset=utf-8")
        assert told.status == 200
        items = told.json["items"]
        assert [(item["index"], item["status"], item["body"] is None) for item in items] == [
            (0, 200, False),
            (1, 422, True),
            (2, 200, False),
            (3, 200, False),
        ]
        assert {error["path"] for error in items[1]["problem"]["errors"]} == {
            "[1].source",
            "[1].type",
            "[1].specversion",
        }
        assert [items[n]["body"]["is_replay"] for n in (0, 2, 3)] == [False, True, False]
        assert (await s.client("POST", path, b"[]", content_type=kind)).json == {"items": []}
        assert (await s.client("POST", path, b"{}", content_type=kind)).status == 422
        assert (await s.client("POST", path, b"[", content_type=kind)).status == 400
        keyed = await s.client("POST", path, events, content_type=kind, idempotency_key="k")
        assert keyed.json["errors"][0]["path"] == "header.idempotency-key"
        paths = (await s.client("GET", "/openapi.json")).json["paths"]
        assert kind in paths["/v1/sensors/{sensor_id}/messages"]["post"]["requestBody"]["content"]


async def test_a_signed_batch_needs_its_proof() -> None:
    async with site(dev=False, settings=ANY_HANDLER) as s:
        sensor = await guarded(s, "signature")
        body, kind = msgspec.json.encode([EVENT]), "application/cloudevents-batch+json"
        told = await s.client("POST", sensor["push_url"], body, **signed(sensor["secret"], body), content_type=kind)
        assert (told.status, told.json["items"][0]["status"]) == (200, 200)
        assert (await s.client("POST", sensor["push_url"], body, content_type=kind)).status == 401


async def test_a_cursor_is_compared_and_set() -> None:
    async with site(declare=with_evaluator) as s:
        await s.client("POST", "/v1/sensors", POLL)
        path = "/v1/sensors/orders/cursor"
        told = await s.client("POST", path, {"cursor": {"after": 7}, "state_version": 1})
        assert (told.status, told.json["cursor"], told.json["state_version"]) == (200, {"after": 7}, 2)
        stale = await s.client("POST", path, {"cursor": 9, "state_version": 1})
        assert (stale.status, stale.json["code"]) == (412, "VERSION_MISMATCH")
        assert "at version 2" in stale.json["detail"]
        missing = await s.client("POST", path, {"cursor": 9})
        assert (missing.status, missing.json["errors"][0]["path"]) == (422, "state_version")
        assert (await s.client("POST", "/v1/sensors/none/cursor", {"state_version": 1})).status == 404


@pytest.mark.parametrize(
    ("body", "status", "code"), [(b"{", 400, "MALFORMED_JSON"), (b"{}", 422, "INVALID"), (b"[]", 422, "INVALID")]
)
async def test_what_is_no_message_is_a_problem(body: bytes, status: int, code: str) -> None:
    async with site() as s:
        await s.client("POST", "/v1/sensors", SENSOR)
        reply = await s.client("POST", "/v1/sensors/orders/messages", body)
        assert (reply.status, reply.json["code"]) == (status, code)


async def test_a_paused_sensor_takes_no_message() -> None:
    async with site() as s:
        await s.client("POST", "/v1/sensors", {**SENSOR, "enabled": False})
        reply = await s.client("POST", "/v1/sensors/orders/messages", MESSAGE)
        assert (reply.status, reply.json["code"]) == (409, "SENSOR_PAUSED")


async def test_a_message_that_waits_for_its_evaluator_is_accepted() -> None:
    async with site(declare=with_evaluator) as s:
        await s.client("POST", "/v1/sensors", {**SENSOR, "evaluator": POLL["evaluator"]})
        first = await s.client("POST", "/v1/sensors/orders/messages", MESSAGE)
        assert (first.status, first.json["status"]) == (202, "pending")
        await s.bt.tick()
        again = await s.client("POST", "/v1/sensors/orders/messages", MESSAGE)
        assert (again.status, again.json["status"], again.json["is_replay"]) == (200, "triggered", True)


def signed(secret: str, body: bytes) -> dict[str, str]:
    now = datetime.now(UTC)
    signature = Webhook(secret).sign("wh-1", now, body.decode())
    return {"webhook_id": "wh-1", "webhook_timestamp": str(int(now.timestamp())), "webhook_signature": signature}


async def guarded(s: Site, auth: str) -> Any:
    """A sensor of the tenant acme with a proof of its own."""
    admin = s.with_key(await made(s, "admin"))
    return (await admin("POST", "/v1/sensors", {**SENSOR, "auth": auth})).json


async def test_a_signed_message_needs_the_tenant_and_no_key() -> None:
    async with site(dev=False, settings=ANY_HANDLER) as s:
        sensor = await guarded(s, "signature")
        assert sensor["push_url"] == "/v1/sensors/orders/messages?tenant=acme"
        body = b'{"data": 1}'
        told = await s.client("POST", sensor["push_url"], body, **signed(sensor["secret"], body))
        assert (told.status, told.json["message_id"]) == (200, "wh-1")
        for path, headers in (
            (sensor["push_url"], {}),
            (sensor["push_url"], signed("whsec_AAAA", body)),
            ("/v1/sensors/orders/messages", signed(sensor["secret"], body)),
            ("/v1/sensors/orders/messages?tenant=other", signed(sensor["secret"], body)),
            ("/v1/sensors/orders/messages?tenant=a%20b", signed(sensor["secret"], body)),
            ("/v1/sensors/none/messages?tenant=acme", signed(sensor["secret"], body)),
        ):
            denied = await s.client("POST", path, body, **headers)
            assert (denied.status, denied.json["code"]) == (401, "UNAUTHENTICATED")
            assert denied.headers["www-authenticate"] == "Bearer"


async def test_a_token_is_for_senders_that_cannot_set_headers() -> None:
    async with site(dev=False, settings=ANY_HANDLER) as s:
        sensor = await guarded(s, "token")
        envelope = msgspec.json.encode({"message": {"messageId": "p-1", "data": "eyJhIjoxfQ=="}, "subscription": "s"})
        told = await s.client("POST", sensor["push_url"], envelope, authorization="Bearer eyJhbGciOi.jwt.of-google")
        assert (told.status, told.json["message_id"]) == (200, "p-1")
        wrong = sensor["push_url"].partition("&")[0] + "&token=wrong"
        assert (await s.client("POST", wrong, envelope)).status == 401


async def test_a_key_is_good_for_every_sensor_and_none_for_one_that_asks_for_keys() -> None:
    async with site(dev=False, settings=ANY_HANDLER) as s:
        await guarded(s, "key")
        assert (await s.client("POST", "/v1/sensors/orders/messages?tenant=acme", MESSAGE)).status == 401
        writer = s.with_key(await made(s, "automation:write"))
        assert (await writer("POST", "/v1/sensors/orders/messages", MESSAGE)).status == 200
        other = s.with_key(await made(s, "automation:write", tenant="other"))
        assert (await other("POST", "/v1/sensors/orders/messages", MESSAGE)).status == 404
        assert (await other("POST", "/v1/sensors/orders/messages?tenant=acme", MESSAGE)).status == 401


async def test_a_new_secret_is_shown_once() -> None:
    async with site() as s:
        await s.client("POST", "/v1/sensors", {**SENSOR, "auth": "signature"})
        fresh = await s.client("POST", "/v1/sensors/orders/secret", idempotency_key="s-1")
        assert list(fresh.json) == ["secret", "push_url", "segment_id"]
        assert fresh.json["secret"].startswith("whsec_")
        again = await s.client("POST", "/v1/sensors/orders/secret", idempotency_key="s-1")
        assert (again.headers["idempotency-replayed"], again.json["secret"]) == ("true", None)
        assert (await s.client("GET", "/v1/sensors/orders")).json["secret"] is None
        await s.client("POST", "/v1/sensors", {**SENSOR, "sensor_id": "open"})
        none = await s.client("POST", "/v1/sensors/open/secret")
        assert (none.status, none.json["code"]) == (409, "NO_SECRET")


async def test_a_poll_by_hand() -> None:
    async with site(declare=with_evaluator) as s:
        await s.client("POST", "/v1/sensors", {**POLL, "enabled": False})
        tried = await s.client("POST", "/v1/sensors/orders/evaluate", {"dry_run": True})
        assert (list(tried.json), tried.json["segment_id"]) == (EVALUATION, None)
        done = await s.client("POST", "/v1/sensors/orders/evaluate", idempotency_key="e-1")
        assert (done.json["status"], done.json["cause"], done.json["cursor"]) == ("triggered", "manual", 1)
        again = await s.client("POST", "/v1/sensors/orders/evaluate", idempotency_key="e-1")
        assert (again.headers["idempotency-replayed"], again.json["is_replay"]) == ("true", True)
        await s.client("POST", "/v1/sensors", {**SENSOR, "sensor_id": "pushed"})
        push = await s.client("POST", "/v1/sensors/pushed/evaluate")
        assert (push.status, push.json["code"]) == (409, "NOT_A_POLL_SENSOR")
