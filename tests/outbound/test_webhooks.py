"""Webhooks as their receivers see them: signed, whole, once."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from betimes.core.errors import MissingExtra
from betimes.engine.effects import GiveUp
from betimes.engine.virtual_clock import VirtualClock
from betimes.outbound.failures import BadRequest, BadStatus, NoSecret, WebhookFailed
from betimes.outbound.settings import WebhookSettings
from betimes.outbound.webhooks import WebhookExecutor, answer
from tests.outbound.receivers import LOOPBACK, SECRETS, call, receiver, webhooks


async def test_a_receiver_verifies_the_signature_with_the_tenants_secret() -> None:
    async with receiver() as here, webhooks() as client:
        await client.post(here.url, b'{"n": 1}', id="gate:front:7:0", tenant="acme")
    [(headers, body)] = here.requests
    assert Webhook(SECRETS["acme"][0]).verify(body, dict(headers)) == {"n": 1}
    assert headers["webhook-id"] == "gate:front:7:0"
    assert headers["Content-Type"] == "application/json"
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRETS["other"][0]).verify(body, dict(headers))
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRETS["acme"][0]).verify(body + b" ", dict(headers))


async def test_while_a_secret_is_replaced_both_sign() -> None:
    both = [SECRETS["acme"][0], SECRETS["other"][0]]

    async def read_from_a_store(tenant: str) -> Sequence[str]:
        return both

    async with receiver() as here, webhooks(secrets=read_from_a_store) as client:
        await client.post(here.url, b"{}", id="one", tenant="acme")
    [(headers, body)] = here.requests
    for secret in both:
        assert Webhook(secret).verify(body, dict(headers)) == {}


async def test_the_timestamp_is_the_injected_clocks() -> None:
    clock = VirtualClock("2026-01-05T09:00:00.999Z")
    async with receiver() as here, webhooks(now=clock) as client:
        await client.post(here.url, b"{}", id="one", tenant="acme")
    assert here.requests[0][0]["webhook-timestamp"] == "1767603600"


@pytest.mark.parametrize("secrets", [[], ["whsec_"], ["not base64"], SECRETS["acme"] * 3])
async def test_without_a_proper_secret_nothing_is_sent_and_none_is_shown(secrets: list[str]) -> None:
    async with receiver() as here, webhooks(secrets=lambda _: secrets) as client:
        with pytest.raises(NoSecret) as failure:
            await client.post(here.url, b"{}", id="one", tenant="acme")
    assert here.requests == []
    assert "not base64" not in str(failure.value)
    assert SECRETS["acme"][0] not in str(failure.value)


async def test_the_callers_headers_are_sent_beside_ours() -> None:
    async with receiver() as here, webhooks() as client:
        more = {"x-trace": "abc", "content-type": "application/cloudevents+json"}
        await client.post(here.url, b"{}", id="one", tenant="acme", headers=more)
    headers = here.requests[0][0]
    assert headers["x-trace"] == "abc"
    assert headers["Content-Type"] == "application/cloudevents+json"
    assert headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"headers": {"Webhook-Signature": "v1,x"}}, "set by betimes"),
        ({"headers": {"HOST": "elsewhere"}}, "set by betimes"),
        ({"headers": {"x-a": "1\r\nhost: elsewhere"}}, "printable ASCII"),
        ({"headers": {"x a": "1"}}, "letters, digits and hyphens"),
        ({"id": "a\r\nb"}, "id must be"),
        ({"id": ""}, "id must be"),
        ({"body": b"\xff"}, "UTF-8"),
        ({"body": b"12345678901"}, "11 bytes, at most 10"),
    ],
)
async def test_what_cannot_be_sent_is_refused_before_sending(changes: dict[str, Any], message: str) -> None:
    settings = WebhookSettings(allow_http=True, allow_networks=("127.0.0.1/32",), request_bytes_max=10)
    async with receiver() as here, webhooks(settings) as client:
        with pytest.raises(BadRequest, match=message) as failure:
            await client.post(**{"url": here.url, "body": b"{}", "id": "one", "tenant": "acme"} | changes)
    assert failure.value.permanent
    assert here.requests == []


@pytest.mark.parametrize(
    ("status", "permanent"),
    [
        *((status, True) for status in (400, 401, 404, 410, 422)),
        *((status, False) for status in (300, 302, 408, 409, 425, 429, 500, 503)),
    ],
)
async def test_a_status_other_than_2xx_fails_and_names_host_and_status_only(status: int, permanent: bool) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status, text="receiver's own words")

    async with receiver(refuse) as here, webhooks() as client:
        with pytest.raises(BadStatus) as failure:
            await client.post(f"{here.url}?token=hidden", b"{}", id="one", tenant="acme")
    assert failure.value.permanent is permanent
    assert str(failure.value).startswith(f"127.0.0.1:{here.port} answered {status}")
    assert "hidden" not in str(failure.value)
    assert "words" not in str(failure.value)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_any_2xx_is_success(status: int) -> None:
    async def accept(_: web.Request) -> web.Response:
        return web.Response(status=status)

    async with receiver(accept) as here, webhooks() as client:
        assert await client.post(here.url, b"{}", id="one", tenant="acme") == b""


async def test_cookies_are_not_kept() -> None:
    async def bake(_: web.Request) -> web.Response:
        response = web.Response()
        response.set_cookie("session", "1")
        return response

    async with receiver(bake) as here, webhooks() as client:
        for _ in range(2):
            await client.post(here.url, b"{}", id="one", tenant="acme")
    assert [headers.get("Cookie") for headers, _ in here.requests] == [None, None]


async def test_the_environments_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiver() as proxy, receiver() as here, webhooks() as client:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await client.post(here.url, b"{}", id="one", tenant="acme")
    assert len(here.requests) == 1
    assert proxy.requests == []


async def test_webhooks_that_are_not_open_say_so() -> None:
    with pytest.raises(WebhookFailed, match="async with"):
        await webhooks().post("https://crm.example/", b"{}", id="one", tenant="acme")


@pytest.mark.parametrize("missing", ["aiohttp", "standardwebhooks.webhooks"])
async def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "betimes.outbound.client", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'betimes\[server\]'"):
        async with webhooks() as client:
            await client.post("https://crm.example/", b"{}", id="one", tenant="acme")


# -- the executor


async def test_the_executor_posts_the_body_under_the_effects_id_and_returns_the_answer() -> None:
    async def agree(_: web.Request) -> web.Response:
        return web.json_response({"ok": True})

    async with receiver(agree) as here, webhooks() as client:
        asked = {"url": here.url, "body": {"run_id": "r1", "payload": {"x": "é"}}}
        result = await WebhookExecutor(client)(call(asked, tenant="other"))
    [(headers, body)] = here.requests
    assert result == {"ok": True}
    assert headers["webhook-id"] == "gate:front:7:0"
    assert Webhook(SECRETS["other"][0]).verify(body, dict(headers)) == asked["body"]


async def test_every_attempt_has_the_same_id() -> None:
    async def busy(_: web.Request) -> web.Response:
        return web.Response(status=503)

    async with receiver(busy) as here, webhooks() as client:
        for attempt in (1, 2):
            with pytest.raises(BadStatus):
                await WebhookExecutor(client)(call({"url": here.url}, attempt=attempt))
    assert [headers["webhook-id"] for headers, _ in here.requests] == ["gate:front:7:0"] * 2


@pytest.mark.parametrize(
    "payload",
    [
        None,
        {"body": 1},
        {"url": 7, "body": 1},
        {"url": "http://crm.example/", "body": 1},
        {"url": "not a url", "body": 1},
        {"url": "https://127.0.0.2/", "body": 1},
        {"url": "https://127.0.0.1:1/", "body": "x" * 100_000},
    ],
)
async def test_the_executor_gives_up_where_trying_again_is_no_use(payload: Any) -> None:
    settings = WebhookSettings(request_bytes_max=1_000, allow_networks=("127.0.0.1/32",))
    async with webhooks(settings) as client:
        with pytest.raises(GiveUp):
            await WebhookExecutor(client)(call(payload))


async def test_the_executor_gives_up_on_a_refusal_and_not_on_a_passing_failure() -> None:
    async def by_path(request: web.Request) -> web.Response:
        return web.Response(status=int(request.path.strip("/")))

    async with receiver(by_path) as here, webhooks() as client:
        with pytest.raises(GiveUp, match="answered 410"):
            await WebhookExecutor(client)(call({"url": f"http://127.0.0.1:{here.port}/410"}))
        with pytest.raises(BadStatus, match="answered 500"):
            await WebhookExecutor(client)(call({"url": f"http://127.0.0.1:{here.port}/500"}))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", None),
        (b"OK", None),
        (b"\xff\xfe", None),
        (b'{"a": [1, null]}', {"a": [1, None]}),
        (b"0", 0),
        (b"[" * 32 + b"]" * 32, json.loads("[" * 32 + "]" * 32)),
        (b"[" * 33 + b"1" + b"]" * 33, None),
        (b"[" * 60_000, None),
    ],
    ids=["empty", "text", "not UTF-8", "object", "number", "deep", "too deep", "far too deep"],
)
def test_an_answer_is_its_json_or_nothing(body: bytes, said: Any) -> None:
    assert answer(body) == said


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match=r"allow_networks: .*10\.1\.0\.0/16"):
        WebhookSettings(allow_networks=("10.1.0.5/16",))
    with pytest.raises(ValueError, match="allow_hosts: 'https://crm' is not a host"):
        WebhookSettings(allow_hosts=("https://crm",))
    assert LOOPBACK.allow_http
