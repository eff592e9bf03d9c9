"""A proxy in front that knows who somebody is: it signs people in, and nobody else can pretend to be it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import msgspec
import pytest
from playwright.async_api import expect
from starlette.requests import Request

from betimes.admin.service import NewKey
from betimes.app.betimes import Betimes
from betimes.app.configuration import Configuration
from betimes.console.settings import ConsoleSettings
from betimes.domain.service import Caller
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.process import Streams
from betimes.http.proxy_sign_in import ProxySignIn, parse_networks
from tests.console.conftest import Visiting
from tests.console.town import Served, served
from tests.console.visits import LoopThread

OURS = {"Sec-Fetch-Site": "same-origin", "X-Betimes-Console": "1"}
LENA = {"X-Forwarded-User": "lena@example.com"}
LOCAL = ("127.0.0.0/8", "::1/128")


@asynccontextmanager
async def behind_proxy(networks: tuple[str, ...] = LOCAL, keys: str = "lena@example.com") -> AsyncIterator[Served]:
    async with Betimes("memory://", clock=VirtualClock("2026-03-27T06:00:00Z"), report=lambda _: None) as bt:
        scopes = ("runs:read", "runs:write")
        made = await bt.for_caller(Caller("acme")).tenants.create_key(NewKey(name="people", scopes=scopes))
        console = ConsoleSettings(
            trust_header="X-Forwarded-User", trust_networks=networks, trust_keys={keys: made.key_id}
        )
        async with served(bt, dev=False, console=console) as found:
            yield found


async def open_session(server: Served, headers: dict[str, str] | list[tuple[str, str]]) -> tuple[int, dict[str, Any]]:
    session = aiohttp.ClientSession(server.address)
    async with session, session.post("/v1/sessions", headers=headers) as answer:
        return answer.status, await answer.json()


async def test_a_person_is_signed_in_by_the_name_that_a_trusted_proxy_gives() -> None:
    async with behind_proxy() as server:
        status, told = await open_session(server, {**OURS, **LENA})
        assert (status, told["name"], told["scopes"]) == (201, "console · lena@example.com", ["runs:read"])


async def test_the_name_stands_for_the_key_again_when_the_session_is_let_to_act() -> None:
    async with behind_proxy(keys="*") as server, aiohttp.ClientSession(server.address) as session:
        async with session.post("/v1/sessions", headers={**OURS, **LENA}) as opened:
            cookie = {"Cookie": opened.headers["Set-Cookie"].partition(";")[0]}
        async with session.post("/v1/sessions/current/operate", json={}, headers={**OURS, **LENA, **cookie}) as answer:
            assert (await answer.json())["scopes"] == ["runs:read", "runs:write"]
        async with session.post("/v1/sessions/current/operate", json={}, headers={**OURS, **cookie}) as answer:
            assert answer.status == 401


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({**OURS}, 401),
        ({**LENA}, 403),
        ({**LENA, "X-Betimes-Console": "1"}, 403),
        ({**LENA, **OURS, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**OURS, "X-Forwarded-User": "tom@example.com"}, 401),
        ({**OURS, "X-Forwarded-User": ""}, 401),
        ([*OURS.items(), *LENA.items(), ("X-Forwarded-User", "root")], 401),
    ],
)
async def test_nobody_else_is_signed_in(headers: dict[str, str] | list[tuple[str, str]], expected: int) -> None:
    async with behind_proxy() as server:
        assert (await open_session(server, headers))[0] == expected


async def test_who_brings_a_key_goes_by_the_key_behind_a_proxy_too() -> None:
    async with behind_proxy() as server:
        tenants = server.bt.for_caller(Caller("acme")).tenants
        made = await tenants.create_key(NewKey(name="script", scopes=("runs:read",)))
        status, told = await open_session(server, {**LENA, "Authorization": f"Bearer {made.secret}"})
        assert (status, told["name"]) == (201, "console · script")


async def test_a_proxy_at_another_address_is_not_believed() -> None:
    async with behind_proxy(("10.0.0.0/8",)) as server:
        assert (await open_session(server, {**OURS, **LENA}))[0] == 401


@pytest.mark.parametrize(
    ("peer", "network", "is_believed"),
    [
        ("::ffff:10.1.0.5", "10.1.0.0/16", True),
        ("::ffff:10.2.0.5", "10.1.0.0/16", False),
        ("::ffff:10.1.0.5", "::/0", False),
        ("10.1.0.5", "10.1.0.0/16", True),
        ("fd00::5", "fd00::/8", True),
        ("a-socket", "10.1.0.0/16", False),
    ],
)
def test_a_proxy_is_believed_by_its_address_however_the_socket_names_it(
    peer: str, network: str, is_believed: bool
) -> None:
    scope = {"type": "http", "client": (peer, 40_000), "headers": [*map(_as_bytes, {**OURS, **LENA}.items())]}
    proxy = ProxySignIn("x-forwarded-user", parse_networks((network,)), {"*": "acme~1"})
    assert proxy.who(Request(scope)) == (("lena@example.com", "acme~1") if is_believed else None)


def _as_bytes(header: tuple[str, str]) -> tuple[bytes, bytes]:
    return header[0].lower().encode(), header[1].encode()


async def test_no_other_request_goes_by_the_name() -> None:
    async with behind_proxy() as server:
        session = aiohttp.ClientSession(server.address)
        async with session, session.get("/v1/runs", headers={**OURS, **LENA}) as answer:
            assert answer.status == 401


@pytest.mark.browser
async def test_what_happens_goes_on_live_after_the_proxy_signed_somebody_in_again(
    visiting: Visiting, loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("betimes.http.process.Streams", partial(Streams, comment_s=0.5))  # so soon it learns of the key
    async with behind_proxy() as server, visiting(server.address) as visit:
        await visit.page.set_extra_http_headers(LENA)
        page = await visit.open("/console/ledger")
        state = page.locator(".live-state")
        await expect(state).to_have_text("live")
        keys = await server.bt.for_caller(Caller("acme")).tenants.keys()
        [session] = [key for key in keys if key.name.startswith("console")]
        async with page.expect_response(lambda one: one.url.endswith("/v1/sessions")):
            await server.bt.for_caller(Caller("acme")).tenants.revoke_key(session.key_id)
        await page.get_by_role("link", name="Health", exact=True).click()
        await page.get_by_role("heading", level=1, name="Health").wait_for()
        await expect(state).to_have_text("live")
        visit.excuse("401")


@pytest.mark.parametrize(
    "console",
    [
        {"trust_header": "X-Forwarded-User"},
        {"trust_header": "X-Forwarded-User", "trust_networks": ["10.0.0.0/8"]},
        {"trust_networks": ["10.0.0.0/99"]},
        {"trust_keys": {"lena@example.com": ""}},
    ],
)
def test_half_a_setting_is_refused(console: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"console": console}, Configuration)
