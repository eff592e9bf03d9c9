"""Keys and scopes: deny by default."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from betimes.admin.service import NewKey, Rotation
from betimes.core.datetimes import moment
from betimes.core.errors import Invalid
from betimes.domain.service import Caller
from betimes.engine.tenants import identities
from betimes.http.routes import Route
from tests.http.served import Site, site

TRIGGER = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"}


async def made(s: Site, *scopes: str, tenant: str = "acme") -> str:
    tenants = s.bt.for_caller(Caller(tenant)).tenants
    return (await tenants.create_key(NewKey(name="test", scopes=scopes))).secret or ""


async def test_without_a_key_nobody_gets_in() -> None:
    async with site(dev=False) as s:
        for client in (s.client, s.with_key("bt_acme~1_x"), s.with_key("nonsense"), s.as_tenant("acme")):
            reply = await client("POST", "/v1/triggers", TRIGGER)
            assert (reply.status, reply.json["code"]) == (401, "UNAUTHENTICATED")
            assert reply.headers["www-authenticate"] == "Bearer"


async def test_a_key_does_what_its_scopes_say_and_is_bound_to_its_tenant() -> None:
    async with site(dev=False) as s:
        writer = s.with_key(await made(s, "runs:write"))
        allowed = await writer("POST", "/v1/triggers", TRIGGER, x_tenant="other")
        assert allowed.json["result"] == "ALLOW"
        denied = await writer("GET", "/v1/runs")
        assert (denied.status, denied.json["code"]) == (403, "MISSING_SCOPE")
        assert "runs:read" in denied.json["detail"]
        admin = s.with_key(await made(s, "admin"))
        assert [run["account_id"] for run in (await admin("GET", "/v1/runs")).json["items"]] == ["a"]
        other = s.with_key(await made(s, "admin", tenant="other"))
        assert (await other("GET", "/v1/runs")).json["items"] == []


async def test_requests_that_come_together_are_told_apart() -> None:
    async with site(dev=False) as s:
        tenants = s.bt.for_caller(Caller("acme")).tenants
        gone = await tenants.create_key(NewKey(name="test", scopes=("runs:read",)))
        secrets = [await made(s, "runs:read"), await made(s, "runs:read", tenant="other"), gone.secret or ""]
        clients = [s.with_key(secret) for secret in (*secrets, "bt_~_x", "bt_a\u00e9~1_x", "bt_nobody~1_x")] * 8

        async def statuses() -> list[int]:
            return [reply.status for reply in await asyncio.gather(*(ask("GET", "/v1/runs") for ask in clients))]

        assert await statuses() == [200, 200, 200, 401, 401, 401] * 8
        await tenants.revoke_key(gone.key_id)
        assert await statuses() == [200, 200, 401, 401, 401, 401] * 8


async def test_every_request_has_an_id_of_its_own() -> None:
    async with site(dev=False) as s:
        replies = await asyncio.gather(*(s.client("GET", "/v1/runs") for _ in range(20)))
        assert len({reply.headers["x-correlation-id"] for reply in replies}) == 20


async def test_a_deployments_key_is_not_for_a_tenants_routes() -> None:
    async with site(dev=False) as s:
        reply = await s.with_key(await made(s, "admin", tenant="*"))("GET", "/v1/runs")
        assert (reply.status, reply.json["code"]) == (403, "TENANT_REQUIRED")


async def test_a_rotated_key_has_two_secrets_for_a_while_and_a_revoked_one_none() -> None:
    async with site(dev=False) as s:
        tenants = s.bt.for_caller(Caller("acme")).tenants
        key = await tenants.create_key(NewKey(name="test", scopes=("runs:read",)))
        rotated = await tenants.rotate_key(key.key_id, Rotation(60))

        async def status(secret: str | None) -> int:
            return (await s.with_key(secret or "")("GET", "/v1/runs")).status

        assert [await status(key.secret), await status(rotated.secret)] == [200, 200]
        s.clock.advance(60)
        assert [await status(key.secret), await status(rotated.secret)] == [401, 200]
        await tenants.revoke_key(key.key_id)
        assert await status(rotated.secret) == 401


async def test_a_key_revoked_in_one_process_is_refused_by_the_next_request_to_another(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'betimes.db'}"
    async with site(dev=False, url=url) as here, site(dev=False, url=url) as there:
        tenants = here.bt.for_caller(Caller("acme")).tenants
        key = await tenants.create_key(NewKey(name="test", scopes=("runs:read",)))
        client = there.with_key(key.secret or "")
        assert (await client("GET", "/v1/runs")).status == 200
        await tenants.revoke_key(key.key_id)
        assert (await client("GET", "/v1/runs")).status == 401


async def test_decoded_states_are_kept_of_a_bounded_number_of_tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "TENANTS_MAX", 2)
    async with site(dev=False) as s:
        clients = [s.with_key(await made(s, "runs:read", tenant=f"t{number}")) for number in range(4)]
        for client in clients * 2:
            assert (await client("GET", "/v1/runs")).status == 200
        assert len(s.application.state.process.identities._decoded) == 2


async def test_an_expired_key_is_unknown() -> None:
    async with site(dev=False) as s:
        tenants = s.bt.for_caller(Caller("acme")).tenants
        ends = moment(s.clock()) + timedelta(seconds=10)
        key = await tenants.create_key(NewKey(name="test", scopes=("runs:read",), expires_at=ends))
        client = s.with_key(key.secret or "")
        assert (await client("GET", "/v1/runs")).status == 200
        s.clock.advance(10)
        assert (await client("GET", "/v1/runs")).status == 401


def test_a_route_without_a_scope_cannot_be_made() -> None:
    async def nothing(ask: object) -> None: ...

    with pytest.raises(Invalid, match="names no scope"):
        Route(method="GET", path="/x", scope="", answer=nothing, summary="", tag="")


async def test_without_keys_a_senders_own_proof_is_judged_as_it_would_be_with_them() -> None:
    target = {"kind": "trigger", "account_id": "a", "trigger_type": "SIGNAL_ARRIVED"}
    sensor = {"sensor_id": "orders", "sensor_type": "push", "auth": "signature", "target": target}
    async with site(dev=True) as s:
        told = (await s.client("POST", "/v1/sensors", sensor)).json
        body, now = b'{"data": 1}', datetime.now(UTC)
        proof = {"webhook_id": "wh-1", "webhook_timestamp": str(int(now.timestamp()))}
        good = Webhook(told["secret"]).sign("wh-1", now, body.decode())
        taken = await s.client("POST", told["push_url"], body, **proof, webhook_signature=good)
        assert (taken.status, taken.json["message_id"]) == (200, "wh-1")
        assert (await s.client("POST", told["push_url"], body + b" ", **proof, webhook_signature=good)).status == 401
        assert (await s.client("POST", f"{told['push_url']}&token=wrong", body)).status == 401
        assert (await s.client("POST", "/v1/sensors/orders/messages", {"message_id": "m-1"})).status == 200
