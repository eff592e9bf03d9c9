"""Sessions over HTTP, and attacks on them: other sites, stolen cookies, nesting, keys that ended."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from betimes.core.instants import HOUR, MINUTE, SECOND
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.engine.tenants.identities import Identities, Identity
from betimes.engine.tenants.model import KEYS_MAX, SESSIONS_MAX, SESSIONS_PER_KEY_MAX, tenant_stream
from betimes.http.sessions import COOKIE
from tests.http.served import Client, Reply, Site, site
from tests.http.test_auth import made

OURS = {"sec-fetch-site": "same-origin", "x-betimes-console": "1"}
SCHEDULE = {"schedule_id": "brief", "cron": "0 7 * * *", "target": {"kind": "sweep"}}


def cookie_of(reply: Reply) -> str:
    return reply.headers["set-cookie"].partition(";")[0]


def browser(s: Site, reply: Reply, **more: str) -> Client:
    return Client(s.application, {"cookie": cookie_of(reply), **OURS, **more})


async def opened(s: Site, secret: str, **body: Any) -> Reply:
    reply = await s.with_key(secret)("POST", "/v1/sessions", body)
    assert reply.status == 201, reply.json
    return reply


async def test_a_session_reads_until_it_is_elevated_and_acts_for_15_minutes() -> None:
    async with site(dev=False) as s:
        secret = await made(s, "automation:read", "automation:write", "sweep")
        reply = await opened(s, secret, label="laptop")
        header = reply.headers["set-cookie"]
        assert header.startswith(f"{COOKIE}=bt_")
        for part in ("Path=/", "Secure", "HttpOnly", "SameSite=Strict", "Max-Age=43200"):
            assert part in header.split("; ")
        assert cookie_of(reply).partition("=")[2] not in reply.raw.decode()
        assert (reply.json["name"], reply.json["scopes"]) == ("console · test · laptop", ["automation:read"])
        page = browser(s, reply)
        assert (await page("GET", "/v1/schedules")).status == 200
        refused = await page("POST", "/v1/schedules", SCHEDULE)
        assert (refused.status, refused.json["code"]) == (403, "MISSING_SCOPE")
        assert (await page("POST", "/v1/sessions/current/operate", {"key": "bt_x~1_y"})).status == 401
        other = await made(s, "automation:write")
        another = await page("POST", "/v1/sessions/current/operate", {"key": other})
        assert (another.status, another.json["code"]) == (409, "ANOTHER_KEY")
        elevated = await page("POST", "/v1/sessions/current/operate", {"key": secret})
        assert elevated.json["scopes"] == ["automation:read", "automation:write", "sweep"]
        assert (await page("POST", "/v1/schedules", SCHEDULE)).status == 201
        s.clock.advance(15 * 60)
        assert (await page("POST", "/v1/schedules/brief/disable")).status == 403
        ledger = await s.bt.for_caller(Caller("acme")).tenants.state(tenant_stream("acme"))
        assert sorted(key.name for key in ledger.keys.values()) == ["console · test · laptop", "test", "test"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-betimes-console": "1"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "cross-site", "x-betimes-console": "1"},
        {"sec-fetch-site": "same-site", "x-betimes-console": "1"},
        {"sec-fetch-site": "none", "x-betimes-console": "1"},
        {"sec-fetch-site": "same-origin", "x-betimes-console": "0"},
    ],
)
async def test_another_site_cannot_use_a_session(headers: dict[str, str]) -> None:
    async with site(dev=False) as s:
        secret = await made(s, "automation:read", "automation:write", "sweep")
        reply = await opened(s, secret)
        await browser(s, reply)("POST", "/v1/sessions/current/operate", {"key": secret})
        page = Client(s.application, {"cookie": cookie_of(reply), **headers})
        for method, path, body in (
            ("POST", "/v1/schedules", SCHEDULE),
            ("PUT", "/v1/schedules/brief", SCHEDULE),
            ("PATCH", "/v1/schedules/brief", {"payload": {}}),
            ("DELETE", "/v1/schedules/brief", None),
            ("POST", "/v1/sessions/current/operate", {"key": secret}),
            ("DELETE", "/v1/sessions/current", None),
        ):
            refused = await page(method, path, body)
            assert (refused.status, refused.json["code"]) == (403, "CROSS_SITE"), (method, path)
        is_elsewhere = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        assert (await page("GET", "/v1/schedules")).status == (403 if is_elsewhere else 200)


async def test_a_cookie_and_a_key_are_not_taken_together_nor_for_each_other() -> None:
    async with site(dev=False) as s:
        secret = await made(s, "admin")
        reply = await opened(s, secret)
        token = cookie_of(reply).partition("=")[2]
        both = browser(s, reply, authorization=f"Bearer {secret}")
        assert (await both("GET", "/v1/schedules")).status == 401
        assert (await s.with_key(token)("GET", "/v1/schedules")).status == 401, "the session's key as a bearer"
        borrowed = Client(s.application, {"cookie": f"{COOKIE}={secret}", **OURS})
        assert (await borrowed("GET", "/v1/schedules")).status == 401, "a key as a cookie"
        forged = Client(s.application, {"cookie": f"{COOKIE}={token}0", **OURS})
        assert (await forged("GET", "/v1/schedules")).status == 401
        nested = await browser(s, reply)("POST", "/v1/sessions", {})
        assert nested.status == 409, "a session opens no session"
        assert (await s.with_key(secret)("DELETE", "/v1/sessions/current")).status == 404, "a key is no session"
        assert (await s.with_key(secret)("GET", "/v1/whoami")).status == 200, "and is still alive"


async def test_a_session_of_an_administrator_administers_only_when_elevated() -> None:
    async with site(dev=False) as s:
        secret = await made(s, "admin")
        page = browser(s, await opened(s, secret))
        assert (await page("GET", "/v1/runs")).status == 200
        for path in ("/v1/keys", "/v1/policy"):
            assert (await page("GET", path)).status == 403
        assert (await page("POST", "/v1/keys", {"name": "mine", "scopes": ["admin"]})).status == 403
        await page("POST", "/v1/sessions/current/operate", {"key": secret})
        assert (await page("GET", "/v1/keys")).status == 200
        reader = await made(s, "runs:read")
        narrow = await s.with_key(reader)("POST", "/v1/sessions", {"scopes": ["scores:read"]})
        assert (narrow.status, narrow.json["code"]) == (403, "MISSING_SCOPE")
        wide = await s.with_key(reader)("POST", "/v1/sessions", {"scopes": ["runs:write"]})
        assert wide.status == 403


async def test_a_session_ends_when_idle_expired_closed_revoked_or_with_its_key() -> None:
    async with site(dev=False) as s:
        secret = await made(s, "runs:read")
        admin = s.with_key(await made(s, "admin"))

        async def lives(page: Client) -> bool:
            return (await page("GET", "/v1/runs")).status == 200

        idle = browser(s, await opened(s, secret))
        s.clock.advance(HOUR // SECOND)
        assert not await lives(idle), "nobody used it for an hour"
        used = browser(s, await opened(s, secret))
        for _ in range(11 * 3 + 2):
            s.clock.advance(20 * MINUTE // SECOND)
            assert await lives(used)
        s.clock.advance(20 * MINUTE // SECOND)
        assert not await lives(used), "twelve hours"
        closed = browser(s, await opened(s, secret))
        gone = await closed("DELETE", "/v1/sessions/current")
        assert (gone.status, "Max-Age=0" in gone.headers["set-cookie"]) == (204, True)
        assert not await lives(closed)
        reply = await opened(s, secret)
        revoked = browser(s, reply)
        assert (await admin("DELETE", f"/v1/keys/{reply.json['key_id']}")).status == 204
        assert not await lives(revoked)
        last = browser(s, await opened(s, secret))
        assert await lives(last)
        parent = (await s.with_key(secret)("GET", "/v1/whoami")).json["key_id"]
        await admin("DELETE", f"/v1/keys/{parent}")
        assert not await lives(last), "the key it was opened with is gone"
        state = await s.bt.for_caller(Caller("acme")).tenants.state(tenant_stream("acme"))
        assert sum(key.parent_id is not None for key in state.keys.values()) == 1, "ended ones are forgotten"


async def test_a_session_is_no_longer_than_its_key_and_there_are_so_many() -> None:
    async with site(dev=False) as s:
        admin = s.with_key(await made(s, "admin"))
        soon = {"name": "short", "scopes": ["runs:read"], "expires_at": "2026-01-05T10:00:00Z"}
        short = (await admin("POST", "/v1/keys", soon)).json["secret"]
        assert (await opened(s, short)).json["expires_at"] == "2026-01-05T10:00:00Z"
        for _ in range(SESSIONS_PER_KEY_MAX - 1):
            await opened(s, short)
        full = await s.with_key(short)("POST", "/v1/sessions", {})
        assert (full.status, full.json["code"]) == (409, "TOO_MANY_SESSIONS")
        others = [await made(s, "runs:read") for _ in range(SESSIONS_MAX // SESSIONS_PER_KEY_MAX)]
        for other in others[1:]:
            for _ in range(SESSIONS_PER_KEY_MAX):
                await opened(s, other)  # one key that is full keeps no other from its own
        full = await s.with_key(others[0])("POST", "/v1/sessions", {})
        assert (full.status, full.json["code"]) == (409, "TOO_MANY_SESSIONS")
        assert (await s.with_key(short)("POST", "/v1/sessions", {"expires_in_s": 43_201})).status == 422


async def test_no_session_is_needed_where_no_key_is() -> None:
    async with site() as s:
        assert (await s.client("POST", "/v1/sessions", {})).json["code"] == "NO_KEYS"


async def test_a_session_asked_for_no_scopes_has_none() -> None:
    async with site(dev=False) as s:
        secret = await made(s, "runs:read", "runs:write")
        reply = await opened(s, secret, scopes=[])
        assert reply.json["scopes"] == []
        assert (await browser(s, reply)("GET", "/v1/runs")).status == 403
        many = await s.with_key(secret)("POST", "/v1/sessions", {"scopes": ["runs:read"] * 1_000})
        assert (many.status, many.json["errors"][0]["path"]) == (422, "scopes")


async def test_an_elevated_session_is_told_what_it_may_do() -> None:
    async with site(dev=False) as s:
        secret = await made(s, "runs:read", "runs:write")
        page = browser(s, await opened(s, secret))
        assert (await page("GET", "/v1/whoami")).json["scopes"] == ["runs:read"]
        await page("POST", "/v1/sessions/current/operate", {"key": secret})
        assert (await page("GET", "/v1/whoami")).json["scopes"] == ["runs:read", "runs:write"]


async def test_a_session_opens_no_other_session_and_says_so() -> None:
    async with site(dev=False) as s:
        page = browser(s, await opened(s, await made(s, "automation:read")))
        refused = await page("POST", "/v1/sessions", {})
        assert (refused.status, refused.json["code"]) == (409, "ALREADY_A_SESSION")


async def test_a_key_without_any_scope_to_read_is_told_which_there_are() -> None:
    async with site(dev=False) as s:
        refused = await s.with_key(await made(s, "tick"))("GET", "/v1/ledger")
        assert (refused.status, refused.json["code"]) == (403, "MISSING_SCOPE")
        assert "any:read" not in refused.json["detail"]
        assert "one of runs:read, notifications:read, " in refused.json["detail"]
        described = (await s.client("GET", "/openapi.json")).raw.decode()
        assert "any:read" not in described


async def test_a_session_gets_no_new_secret() -> None:
    async with site(dev=False) as s:
        secret = await made(s, "admin")
        reply = await opened(s, secret)
        refused = await s.with_key(secret)("POST", f"/v1/keys/{reply.json['key_id']}/rotate", {})
        assert (refused.status, refused.json["code"]) == (409, "NOT_A_KEY")


async def test_requests_that_come_together_keep_a_session_once() -> None:
    async with site(dev=False) as s:
        secret = await made(s, "runs:read")
        page = browser(s, await opened(s, secret))
        s.clock.advance(30 * 60)
        await asyncio.gather(*(page("GET", "/v1/runs") for _ in range(5)))
        _, history = await s.bt.engine.store.history(tenant_stream("acme"), 0, 100)
        events = [event["type"] for segment in history for event in msgspec.json.decode(segment.events)]
        assert events.count("SessionKept") == 1


async def test_sessions_take_no_room_from_keys() -> None:
    """And a key that made room for another is not taken for it when the creation is asked for again."""
    async with site(dev=False) as s:
        secret = await made(s, "admin")
        await opened(s, secret)
        admin = s.with_key(secret)
        asked = {"name": "k", "scopes": ["tick"]}
        keys = [await admin("POST", "/v1/keys", asked) for _ in range(KEYS_MAX - 1)]
        assert {key.status for key in keys} == {201}
        assert (await admin("POST", "/v1/keys", asked)).json["code"] == "TOO_MANY_KEYS"
        await admin("DELETE", f"/v1/keys/{keys[0].json['key_id']}")
        made_room = await admin("POST", "/v1/keys", asked, idempotency_key="k-1")
        again = await admin("POST", "/v1/keys", asked, idempotency_key="k-1")
        assert (again.json["key_id"], again.json["secret"]) == (made_room.json["key_id"], None)


async def test_nobody_goes_by_the_time_of_a_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that come together share one look at their keys, so that must not be one a year ahead."""
    async with site(dev=False) as s:
        secret = await made(s, "runs:read")
        page = browser(s, await opened(s, secret))
        identities: Identities = s.application.state.process.identities
        look, engines = identities.of, []

        async def of(engine: Engine, token: str) -> Identity | None:
            engines.append(engine)
            return await look(engine, token)

        monkeypatch.setattr(identities, "of", of)
        headers = {"betimes_dry_run": "true", "betimes_at": "2026-01-05T09:30:00Z"}
        tried = await page("POST", "/v1/sessions/current/operate", {"key": secret}, **headers)
        assert (tried.status, tried.json["status"]) == (200, 200)
        assert {*engines} == {s.bt.engine}


async def test_a_session_that_is_only_tried_leaves_the_cookie_as_it_is() -> None:
    async with site(dev=False) as s:
        secret = await made(s, "runs:read")
        tried = await s.with_key(secret)("POST", "/v1/sessions", {}, betimes_dry_run="true")
        assert (tried.status, tried.json["status"]) == (200, 201)
        closed = await browser(s, await opened(s, secret))("DELETE", "/v1/sessions/current", betimes_dry_run="true")
        assert (closed.status, closed.json["status"]) == (200, 204)
        assert not {"set-cookie"} & {*tried.headers, *closed.headers}
