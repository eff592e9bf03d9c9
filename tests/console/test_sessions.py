"""Signing in, acting, and everything that may end a session under an open page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from betimes.admin.service import NewKey
from betimes.app.betimes import Betimes
from betimes.console.settings import ConsoleSettings
from betimes.domain.service import Caller
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.process import Streams
from tests.console.conftest import Visiting
from tests.console.town import BY_DEFAULT, Served, served
from tests.console.visits import PATIENCE_S, LoopThread
from tests.definition_requests import schedule_request

pytestmark = pytest.mark.browser
START = "2026-03-27T06:00:00Z"
expect.set_options(timeout=PATIENCE_S * 1000)
SCOPES = ("automation:read", "automation:write", "notifications:read", "runs:read", "admin")


@asynccontextmanager
async def keyed(tenant: str = "acme", console: ConsoleSettings = BY_DEFAULT) -> AsyncIterator[tuple[Served, str, str]]:
    """A server with keys; the secret of one of a tenant, and its id."""
    async with Betimes("memory://", clock=VirtualClock(START), report=lambda _: None) as bt:
        tenants = bt.for_caller(Caller(tenant)).tenants
        made = await tenants.create_key(NewKey(name="lena", scopes=SCOPES))
        body = {"schedule_id": "brief", "cron": "0 7 * * *", "timezone": "UTC", "target": {"kind": "sweep"}}
        await bt.for_caller(Caller(tenant, scopes=("admin",))).schedules.put("brief", schedule_request(body))
        async with served(bt, dev=False, console=console) as found:
            yield found, made.secret or "", made.key_id


async def sign_in(page: Page, secret: str) -> None:
    await page.get_by_label("Key", exact=True).fill(secret)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("navigation", name="Pages").get_by_role("link", name="Now").wait_for()


async def test_a_key_is_pasted_once_and_kept_nowhere_a_script_can_see(visiting: Visiting, loop: LoopThread) -> None:
    async with keyed() as (server, secret, _), visiting(server.address) as visit:
        page = await visit.open("/console/ledger")
        await page.get_by_label("Key", exact=True).fill("bt_wrong")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("alert").get_by_text("That key opens nothing here").wait_for()
        visit.excuse("401")
        await sign_in(page, secret)
        await page.get_by_role("heading", level=1, name="Ledger").wait_for()
        kept = await page.evaluate("JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}])")
        assert "bt_" not in kept
        await page.get_by_role("button", name="acme").click()
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_role("heading", level=1, name="Sign in").wait_for()
        assert await page.get_by_text("acme").count() == await page.get_by_role("link", name="Now").count() == 0
        visit.excuse("401")


async def test_who_signs_out_leaves_no_tries_and_no_draft_to_the_next(visiting: Visiting, loop: LoopThread) -> None:
    async with keyed() as (server, secret, _), visiting(server.address) as visit:
        page = await visit.open("/console/try")
        visit.excuse("401")
        await sign_in(page, secret)
        await page.get_by_role("button", name="Try it").click()
        await page.get_by_role("button", name="Send a notification · ana").wait_for()
        await page.evaluate("sessionStorage.setItem('betimes.draft', '{}')")
        await page.get_by_role("button", name="acme").click()
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_role("heading", level=1, name="Sign in").wait_for()
        visit.excuse("401")
        assert await page.evaluate("[...Object.keys(localStorage), ...Object.keys(sessionStorage)]") == []


async def test_a_session_reads_until_it_operates(visiting: Visiting, loop: LoopThread) -> None:
    async with keyed() as (server, secret, _), visiting(server.address) as visit:
        page = await visit.open("/console/admin")
        visit.excuse("401")
        await sign_in(page, secret)
        await page.get_by_role("heading", level=1, name="This needs more than reading").wait_for()
        await page.get_by_role("main").get_by_role("button", name="Operate").click()
        await page.get_by_role("dialog").get_by_label("Key", exact=True).fill(secret)
        await page.get_by_role("dialog").get_by_role("button", name="Operate").click()
        await page.get_by_role("heading", level=1, name="This needs more than reading").wait_for(state="detached")


async def test_where_acting_is_switched_off_no_session_can_act(visiting: Visiting, loop: LoopThread) -> None:
    reading = ConsoleSettings(actions=False)
    async with keyed(console=reading) as (server, secret, _), visiting(server.address) as visit:
        page = await visit.open("/console/admin")
        visit.excuse("401")
        await sign_in(page, secret)
        await page.get_by_text("Acting is switched off on this server.").wait_for()
        refused = await page.evaluate(
            "(key) => fetch('/v1/sessions/current/operate', {method: 'POST', body: JSON.stringify({key}),"
            " headers: {'Content-Type': 'application/json', 'X-Betimes-Console': '1'}}).then((one) => one.json())",
            secret,
        )
        assert refused["code"] == "ACTIONS_OFF"
        visit.excuse("403")


@pytest.mark.parametrize("ends", ["time", "revocation"])
async def test_a_session_that_ends_under_an_open_page(
    visiting: Visiting, loop: LoopThread, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """It says so by itself, and whoever signs in again is where they were."""
    monkeypatch.setattr("betimes.http.process.Streams", partial(Streams, comment_s=0.5))  # so soon it learns of the key
    async with keyed() as (server, secret, key_id), visiting(server.address) as visit:
        page = await visit.open("/console/ledger?kind=schedule")
        visit.excuse("401")
        await sign_in(page, secret)
        if ends == "time":
            await server.bt.advance(by_s=13 * 3600)
        else:
            await server.bt.for_caller(Caller("acme", scopes=("admin",))).tenants.revoke_key(key_id)
            made = await server.bt.for_caller(Caller("acme")).tenants.create_key(NewKey(name="l", scopes=SCOPES))
            secret = made.secret or ""
        await page.get_by_text("The session has ended.").first.wait_for()
        await sign_in(page, secret)
        await page.get_by_role("heading", level=1, name="Ledger").wait_for()
        assert page.url.endswith("/console/ledger?kind=schedule")
        visit.excuse("401")


async def test_a_server_that_restarts_under_an_open_page(visiting: Visiting, loop: LoopThread, tmp_path: Path) -> None:
    """What was shown stays, the bar says that it reconnects, and then it is live again."""
    url = f"sqlite:///{tmp_path / 'restarted.db'}"
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(AsyncExitStack())
        found = await _serve(first, url)
        visit = await stack.enter_async_context(visiting(found.address))
        page = await visit.open("/console/health")
        state = page.get_by_role("banner").get_by_role("status")
        await expect(state).to_have_text("live")
        await first.aclose()
        await expect(state).to_contain_text("reconnecting")
        await expect(page.get_by_role("heading", level=1, name="Health")).to_be_visible()
        await _serve(stack, url, port=int(found.address.rpartition(":")[2]))
        await expect(state).to_have_text("live")
        visit.excuse("ERR_|Failed to load|network")


async def _serve(stack: AsyncExitStack, url: str, port: int = 0) -> Served:
    bt = await stack.enter_async_context(Betimes(url, clock=VirtualClock(START), report=lambda _: None))
    return await stack.enter_async_context(served(bt, port=port))


async def test_what_belongs_to_another_tenant_is_not_there(visiting: Visiting, loop: LoopThread) -> None:
    async with keyed() as (server, _, _):
        other = await server.bt.for_caller(Caller("other")).tenants.create_key(NewKey(name="o", scopes=SCOPES))
        async with visiting(server.address) as visit:
            page = await visit.open("/console/schedules/brief")
            await sign_in(page, other.secret or "")
            await page.get_by_role("alert").wait_for()
            assert "brief" in await page.get_by_role("main").inner_text()
            visit.excuse("401|404")
