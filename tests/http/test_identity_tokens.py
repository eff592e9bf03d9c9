"""Pushed messages that prove their sender by an identity token, with real keys and a server that publishes them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from betimes.app.configuration import parse_configuration
from betimes.app.settings import Settings
from betimes.outbound.settings import WebhookSettings
from betimes.sensors import identity_tokens
from betimes.sensors.identity_tokens import GOOGLE, IssuerSettings
from tests.http.served import Reply, Site, site

ISSUER, AUDIENCE = "https://issuer.example", "https://betimes.example/orders"
SENDER = "push@project.iam.example"
NOW_S = 1_767_603_600  # of the site's clock
PUSH = {"message": {"messageId": "m-1", "data": "e30="}, "subscription": "projects/p/subscriptions/s"}
KEYS: dict[str, Any] = {
    "one": rsa.generate_private_key(public_exponent=65_537, key_size=2_048),
    "two": ec.generate_private_key(ec.SECP256R1()),
}
ALGORITHMS = {"one": "RS256", "two": "ES256"}


def key_set(*names: str) -> bytes:
    made = []
    for name in names:
        algorithm = jwt.get_algorithm_by_name(ALGORITHMS[name])
        made.append({**algorithm.to_jwk(KEYS[name].public_key(), as_dict=True), "kid": name, "use": "sig"})
    return msgspec.json.encode({"keys": [{"kty": "oct", "kid": "weak", "k": "c2VjcmV0"}, *made]})


def token(key: str = "one", *, kid: str | None = None, **claims: Any) -> str:
    said = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": NOW_S - 5,
        "exp": NOW_S + 3_600,
        "email": SENDER,
        "email_verified": True,
    } | claims
    kept = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(kept, KEYS[key], algorithm=ALGORITHMS[key], headers={"kid": kid or key})


class Publisher:
    """The issuer's server."""

    def __init__(self) -> None:
        self.answer = key_set("one")
        self.status = 200
        self.asked = 0
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.asked += 1
        return web.Response(body=self.answer, status=self.status)


@asynccontextmanager
async def publisher() -> AsyncIterator[Publisher]:
    here = Publisher()
    application = web.Application()
    application.router.add_get("/certs", here.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        place = web.TCPSite(runner, "127.0.0.1", 0)
        await place.start()
        here.url = f"http://127.0.0.1:{runner.addresses[0][1]}/certs"
        yield here
    finally:
        await runner.cleanup()


@asynccontextmanager
async def trusting(keys: str, *, email: str | None = SENDER) -> AsyncIterator[Site]:
    """A site that trusts the issuer, with a sensor that wants its tokens."""
    webhooks = WebhookSettings(allow_http=True, allow_networks=("127.0.0.0/8",))
    settings = Settings(webhooks=webhooks, oidc={ISSUER: IssuerSettings(keys=keys)})
    async with site(dev=False, settings=settings) as s:
        oidc = {"audience": AUDIENCE, "issuer": ISSUER, "email": email}
        body = {"sensor_id": "orders", "sensor_type": "push", "auth": "oidc", "oidc": oidc, "target": {"kind": "sweep"}}
        made = await s.bt.sensors.create(body)
        assert (made.secret, made.push_url) == (None, None)
        yield s


async def push(s: Site, bearer: str, *, sensor: str = "orders") -> Reply:
    path = f"/v1/sensors/{sensor}/messages?tenant=default"
    return await s.client("POST", path, PUSH, authorization=f"Bearer {bearer}")


async def test_a_message_with_its_senders_token_is_taken_and_any_other_is_not() -> None:
    public = KEYS["one"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    by_public_key = _signed_with_public_key(public)
    async with publisher() as here, trusting(here.url) as s:
        for wrong in (
            token(aud="https://other.example"),
            token(iss=GOOGLE),
            token(exp=NOW_S - 61),
            token(exp=None),
            token(iat=NOW_S + 61),
            token(nbf=NOW_S + 600),
            token(email="other@project.iam.example"),
            token(email_verified=False),
            token(email=None),
            token("two"),
            token("two", kid="one"),
            token(kid="none"),
            token()[:-4] + "AAAA",
            token().rpartition(".")[0] + ".",
            "",
            "x",
            "a.b.c",
            "x" * 20_000,
            by_public_key,
            jwt.encode({"aud": AUDIENCE}, "", algorithm="none", headers={"kid": "one"}),
            jwt.encode({"iss": ISSUER, "aud": AUDIENCE, "iat": 0, "exp": 2**40}, "secret" * 8, headers={"kid": "weak"}),
            token(exp="soon", iat=None),
        ):
            assert (await push(s, wrong)).status == 401, wrong
        assert (await push(s, token(), sensor="unknown")).status == 401
        taken = await push(s, token())
        assert (taken.status, taken.json["message_id"]) == (200, "m-1")
        assert (await push(s, token())).json["is_replay"]
        assert here.asked == 1


def _signed_with_public_key(public: bytes) -> str:
    """The confusion of algorithms: the public key taken for a shared secret."""
    parts = [{"alg": "HS256", "kid": "one"}, {"iss": ISSUER, "aud": AUDIENCE, "iat": NOW_S, "exp": NOW_S + 60}]
    text = b".".join(urlsafe_b64encode(msgspec.json.encode(part)).rstrip(b"=") for part in parts)
    digest = hmac.new(public, text, hashlib.sha256).digest()
    return (text + b"." + urlsafe_b64encode(digest).rstrip(b"=")).decode()


async def test_keys_that_are_replaced_are_read_again_and_not_for_every_stranger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with publisher() as here, trusting(here.url, email=None) as s:
        assert (await push(s, token())).status == 200
        here.answer = key_set("two")
        replies = await asyncio.gather(*(push(s, token("two")) for _ in range(20)))
        assert ({reply.status for reply in replies}, here.asked) == ({401}, 1)
        monkeypatch.setattr(identity_tokens, "REREAD_S", -1.0)
        assert (await push(s, token("two"))).status == 200
        assert here.asked == 2
        assert (await push(s, token())).status == 401
        here.status = 500
        assert (await push(s, token("two"))).status == 200


async def test_without_keys_the_sender_is_asked_to_try_again() -> None:
    async with publisher() as here, trusting(here.url) as s:
        for status, answer in ((500, b""), (302, b""), (200, b"<html>"), (200, b'{"keys": 7}'), (200, b"x" * 70_000)):
            here.status, here.answer = status, answer
            reply = await push(s, token())
            assert (reply.status, reply.headers.get("retry-after")) == (503, "1")
            assert b"127.0.0.1" not in reply.raw
        here.status, here.answer = 200, key_set("one")
        assert (await push(s, token())).status == 200


async def test_keys_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set("one", "two"))
    async with trusting(str(file)) as s:
        assert (await push(s, token("two"))).status == 200


async def test_an_api_key_still_works_and_a_definition_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set("one"))
    async with trusting(str(file)) as s:
        made = await s.bt.mine.tenants.create_key({"name": "x", "scopes": ["automation:write", "sweep"]})
        client = s.with_key(made.secret or "")
        assert (await client("POST", "/v1/sensors/orders/messages", PUSH)).status == 200
        assert (await client("POST", "/v1/sensors/orders/secret")).json["code"] == "NO_SECRET"
        good = {"audience": AUDIENCE, "issuer": ISSUER}
        for auth, oidc, path in (
            ("oidc", None, "oidc"),
            ("token", good, "oidc"),
            ("oidc", {"issuer": ISSUER}, "oidc.audience"),
            ("oidc", {"audience": AUDIENCE, "issuer": "https://evil.example"}, "oidc.issuer"),
        ):
            body = {"sensor_type": "push", "auth": auth, "oidc": oidc, "target": {"kind": "sweep"}}
            reply = await client("PUT", "/v1/sensors/wrong", body)
            assert (reply.status, [error["path"] for error in reply.json["errors"]]) == (422, [path]), reply.raw
        changed = await client("PATCH", "/v1/sensors/orders", {"auth": "token", "oidc": None})
        assert changed.json["secret"]
        back = await client("PATCH", "/v1/sensors/orders", {"auth": "oidc", "oidc": good})
        assert (back.json["secret"], back.json["oidc"]["email"]) == (None, None)


async def test_issuers_are_configured_besides_google() -> None:
    said = parse_configuration({"oidc": {ISSUER: {"keys": "/etc/betimes/keys.json"}}}).settings
    async with site(settings=said) as s:
        for issuer, status in ((GOOGLE, 201), (ISSUER, 201), ("https://evil.example", 422)):
            oidc = {"audience": AUDIENCE, "issuer": issuer}
            body = {"sensor_type": "push", "auth": "oidc", "oidc": oidc, "target": {"kind": "sweep"}}
            assert (await s.client("POST", "/v1/sensors", body)).status == status
