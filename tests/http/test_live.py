"""Verdicts as they happen, read by real clients over a socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
import uvicorn

from betimes.admin.service import NewKey
from betimes.app.settings import Settings
from betimes.domain.service import Caller
from betimes.engine.settings import EngineSettings
from betimes.http.process import STREAMS_PER_TENANT_MAX
from betimes.runs.views import TriggerRequest
from betimes.scores.service import NewScore
from tests.http.served import Site, site
from tests.patience import HANGS_S

FAST = Settings(engine=EngineSettings(poll_s=0.01))
PATH = "/v1/verdicts/stream"


def _asked(account_id: str, key: str) -> TriggerRequest:
    return TriggerRequest(account_id=account_id, trigger_type="SIGNAL_ARRIVED", idempotency_key=key)


class Live(msgspec.Struct):
    """A served site and a client of its socket."""

    site: Site
    url: str
    session: Any

    async def allow(self, *accounts: str, tenant: str = "default") -> None:
        runs = self.site.bt.for_caller(Caller(tenant)).runs
        for account in accounts:
            await runs.trigger(_asked(account, f"{tenant}-{account}-{self.site.clock()}"))

    @asynccontextmanager
    async def reading(self, query: str = "", **headers: str) -> AsyncIterator[Reader]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.get(f"{self.url}{PATH}{query}", headers=named) as reply:
            reader = Reader(reply)
            if reply.status == 200:
                assert await reader.block() == {"": "from here on"}
            yield reader

    @property
    def open_count(self) -> int:
        return len(self.site.application.state.process.streams)

    async def settled(self, count: int) -> None:
        """Wait until so many streams are open."""
        async with asyncio.timeout(HANGS_S):
            while self.open_count != count:  # noqa: ASYNC110 — nothing tells when a reader is gone
                await asyncio.sleep(0.005)


class Reader:
    def __init__(self, reply: Any) -> None:
        self.reply = reply

    async def block(self) -> dict[str, str]:
        """The next event or comment, as its fields; nothing when the stream ended."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(HANGS_S):
            while line := (await self.reply.content.readline()).decode():
                if line == "\n":
                    return fields
                name, _, value = line.rstrip("\n").partition(":")
                fields[name] = value.strip()
        return fields

    async def verdict(self) -> tuple[str, Any]:
        """The next verdict's position and data."""
        block = await self.block()
        assert block["event"] == "verdict"
        return block["id"], msgspec.json.decode(block["data"])


@asynccontextmanager
async def live(**settings: Any) -> AsyncIterator[Live]:
    async with site(settings=FAST, **settings) as s:
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(s.application, log_level="critical", lifespan="off", ws="none")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        port = listener.getsockname()[1]
        try:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
                yield Live(s, f"http://127.0.0.1:{port}", session)
        finally:
            s.application.state.process.streams.close()
            server.should_exit = True
            await serving


async def test_a_reader_sees_what_is_decided_from_now_on_as_in_the_contract() -> None:
    async with live() as served:
        await served.allow("before")
        async with served.reading() as reader:
            assert reader.reply.headers["content-type"].startswith("text/event-stream")
            assert reader.reply.headers["x-correlation-id"]
            await served.allow("a")
            _, told = await reader.verdict()
            assert list(told) == [
                "segment_id",
                "domain",
                "kind",
                "id",
                "at",
                "outcome",
                "reasons",
                "explanation",
                "defer_until",
            ]
            assert (told["segment_id"], told["domain"], told["outcome"]) == ("account:a:1", "runs", "ALLOW")
            assert (told["reasons"], told["defer_until"]) == (["WITHIN_LIMITS"], None)
            served.site.clock.advance(60)
            await served.allow("a")
            _, told = await reader.verdict()
            assert (told["outcome"], told["defer_until"]) == ("DEFER", "2026-01-05T09:05:00Z")


async def test_a_reader_that_comes_back_misses_nothing_and_sees_nothing_twice() -> None:
    async with live() as served:
        async with served.reading() as reader:
            await served.allow("a", "b")
            position, first = await reader.verdict()
        assert first["id"] == "a"
        await served.allow("c")
        async with served.reading(last_event_id=position) as reader:
            assert [(await reader.verdict())[1]["id"] for _ in range(2)] == ["b", "c"]
            await served.allow("d")
            assert (await reader.verdict())[1]["id"] == "d"
        async with served.reading(last_event_id="yesterday") as reader:
            assert reader.reply.status == 422
            assert (await reader.reply.json(content_type=None))["errors"][0]["path"] == "header.last-event-id"


@pytest.mark.parametrize(
    ("query", "seen"),
    [
        ("?outcome=DEFER", ["a"]),
        ("?outcome=DEFER,ALLOW", ["a", "b", "a"]),
        ("?reason=COOLDOWN", ["a"]),
        ("?id=b", ["b"]),
        ("?domain=runs", ["a", "b", "a"]),
        ("?domain=scores", []),
        ("?domain=runs&outcome=ALLOW", ["a", "b"]),
    ],
)
async def test_a_reader_asks_for_what_it_wants(query: str, seen: list[str]) -> None:
    async with live() as served, served.reading(query) as reader:
        await served.allow("a", "b")
        served.site.clock.advance(120)
        await served.allow("a")
        assert [(await reader.verdict())[1]["id"] for _ in seen] == seen
        served.site.application.state.process.streams.close()
        assert await reader.block() == {}


async def test_a_decay_is_an_outcome_too() -> None:
    async with live() as served, served.reading("?domain=scores") as reader:
        scores = served.site.bt.for_caller(Caller("default")).scores
        await scores.create(NewScore(user_id="ann"))
        served.site.clock.advance(40 * 86_400)
        await scores.sweep()
        _, told = await reader.verdict()
        assert (told["outcome"], told["kind"], told["id"]) == ("decay", "score", "ann")


async def test_a_key_hears_of_its_domains_and_its_tenant_alone() -> None:
    async with live(dev=False) as served:

        async def key(*scopes: Any) -> str:
            made = await served.site.bt.for_caller(Caller("acme")).tenants.create_key(NewKey(name="k", scopes=scopes))
            return f"Bearer {made.secret}"

        async with served.reading() as nobody:
            assert nobody.reply.status == 401
        async with served.reading(authorization=await key("tick")) as wrong:
            assert wrong.reply.status == 403
        async with (
            served.reading(authorization=await key("runs:read")) as runs,
            served.reading(authorization=await key("scores:read")) as scores,
        ):
            await served.allow("theirs", tenant="other")
            await served.allow("ours", tenant="acme")
            await served.site.bt.for_caller(Caller("acme")).scores.create(NewScore(user_id="ann"))
            served.site.clock.advance(40 * 86_400)
            await served.site.bt.for_caller(Caller("acme")).scores.sweep()
            assert (await runs.verdict())[1]["id"] == "ours"
            assert (await scores.verdict())[1]["id"] == "ann"


async def test_an_idle_stream_says_that_it_is_there() -> None:
    async with live() as served:
        served.site.application.state.process.streams.comment_s = 0.02
        async with served.reading() as reader:
            assert await reader.block() == {"": "still here"}


@pytest.mark.parametrize("is_busy", [False, True])
async def test_a_stream_ends_when_its_key_is_revoked(is_busy: bool) -> None:
    async with live(dev=False) as served:
        served.site.application.state.process.streams.comment_s = 0.02
        tenants = served.site.bt.for_caller(Caller("acme")).tenants
        kept, lost = [await tenants.create_key(NewKey(name=name, scopes=("runs:read",))) for name in ("kept", "lost")]
        async with (
            served.reading(authorization=f"Bearer {kept.secret}") as stays,
            served.reading(authorization=f"Bearer {lost.secret}") as goes,
        ):
            await tenants.revoke_key(lost.key_id)
            async with asyncio.timeout(HANGS_S):
                number = 0
                while await goes.block():
                    number += 1
                    if is_busy:
                        await served.allow(f"a-{number}", tenant="acme")
            assert await stays.block()
            await served.settled(1)


async def test_a_reader_that_keeps_up_gets_every_verdict_however_many() -> None:
    """700 at a time, as many times as needed to overrun any buffer; the next come when the reader has seen the last."""
    async with live() as served, served.reading() as reader:
        runs = served.site.bt.for_caller(Caller("default")).runs
        seen: list[str] = []
        for wave in range(18):
            asked = [_asked(f"a{wave}-{number}", f"k{wave}-{number}") for number in range(700)]
            await asyncio.gather(*(runs.trigger(request) for request in asked))
            wanted = {request.account_id for request in asked}
            seen = [(await reader.verdict())[1]["id"] for _ in asked]
            assert set(seen) == wanted


async def test_a_slow_reader_gets_sums_and_loses_count_of_nothing() -> None:
    """A reader that comes back after 1,001 verdicts and then after 12,000, more than are held in memory."""
    async with live() as served:
        async with served.reading() as reader:
            await served.allow("first")
            position, _ = await reader.verdict()
        runs = served.site.bt.for_caller(Caller("default")).runs
        many = [_asked(f"a{number}", f"k{number}") for number in range(12_001)]
        await asyncio.gather(*(runs.trigger(request) for request in many[:1_000]))
        async with served.reading(last_event_id=position) as reader:
            assert len([await reader.verdict() for _ in range(1_000)]) == 1_000
        await runs.trigger(many[1_000])
        async with served.reading(last_event_id=position) as reader:
            block = await reader.block()
            told = msgspec.json.decode(block["data"])
            assert (block["event"], told["count"]) == ("pulse", 1_001)
            assert told["outcomes"] == {"ALLOW": 1_001}
            assert told["reasons"] == {"WITHIN_LIMITS": 1_001}
            assert (told["since"], told["until"]) == ("2026-01-05T09:00:00Z", "2026-01-05T09:00:00Z")
            await served.allow("next")
            assert (await reader.verdict())[1]["id"] == "next"
        async with served.reading(last_event_id=block["id"]) as reader:
            assert (await reader.verdict())[1]["id"] == "next"
            for start in range(1_001, 12_001, 1_000):
                await asyncio.gather(*(runs.trigger(request) for request in many[start : start + 1_000]))
            count = 0
            while count < 11_000:
                told = await reader.block()
                count += msgspec.json.decode(told["data"])["count"] if told["event"] == "pulse" else 1
            assert count == 11_000
        await served.settled(0)


async def test_no_stream_outlives_its_reader_and_a_tenant_has_at_most_twenty() -> None:
    async with live() as served:
        replies = [await served.session.get(f"{served.url}{PATH}") for _ in range(STREAMS_PER_TENANT_MAX)]
        await served.settled(STREAMS_PER_TENANT_MAX)
        tasks = len(asyncio.all_tasks())
        async with served.reading() as refused:
            assert refused.reply.status == 429
            assert (await refused.reply.json(content_type=None))["code"] == "TOO_MANY_STREAMS"
        async with served.session.get(f"{served.url}{PATH}", headers={"X-Tenant": "other"}) as other:
            assert other.status == 200
        replies.pop().close()
        await served.settled(STREAMS_PER_TENANT_MAX - 1)
        async with served.reading() as room:
            assert room.reply.status == 200
        for reply in replies:
            reply.close()
        await served.settled(0)
        assert len(asyncio.all_tasks()) <= tasks - STREAMS_PER_TENANT_MAX


async def test_a_stream_ends_when_the_engine_closes() -> None:
    async with live() as served, served.reading() as reader:
        await served.site.bt.close()
        assert await reader.block() == {}


async def test_head_answers_without_a_stream() -> None:
    async with live() as served, served.session.head(f"{served.url}{PATH}") as reply:
        assert (reply.status, served.open_count) == (200, 0)
