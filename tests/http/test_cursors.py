"""Cursors of every list: taken only as they were given, whatever is done to them, on every store."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from betimes.app.routes import ROUTES
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.server import serve
from tests.http.populated import ask, declare, list_paths, populate, write_report
from tests.http.served import Client
from tests.http.stores import STORES, StoreName, application_on

WRONG: tuple[Any, ...] = (-1, 2**62 + 1, 2**63, 10**30, 1.5, None, True, "", "a\0b", [], "x" * 5_000)
"""In place of a number or a text of a place."""


def spell(value: Any) -> str:
    return urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


def read(cursor: str) -> Any:
    return msgspec.json.decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))


def tampered(cursor: str) -> Iterator[str]:
    """Yield a cursor as it comes from people who guess, cut, join and forge."""
    yield from ("", "W10", "bnVsbA", "!", "ü", "\0", "%00", "\udcff", cursor[:-1], cursor[1:], cursor + "A", cursor * 2)
    yield from (cursor + "=", cursor + "\n", f" {cursor}", spell("[" * 900), urlsafe_b64encode(b"[" * 9_000).decode())
    yield urlsafe_b64encode(b"\xff\xfe").decode().rstrip("=")
    yield urlsafe_b64encode(b'[[],"\\ud800"]').decode().rstrip("=")
    yield urlsafe_b64encode(b"[[]," + b"9" * 6_000 + b"]").decode().rstrip("=")
    under, place = read(cursor)
    yield urlsafe_b64encode(msgspec.json.encode([under, place]).replace(b",", b", ", 1)).decode().rstrip("=")
    yield from (spell(other) for other in ([under], [under, place, 0], {"a": place}, [place, under], [[], place]))
    yield from (
        spell([under, other]) for other in (*WRONG, [*place, 0], [*place, *place], place[:0], dict(enumerate("ab")))
    )
    for at in range(len(place)):
        yield from (spell([under, [*place[:at], other, *place[at + 1 :]]]) for other in WRONG if other != place[at])


async def refused_nowhere(client: Client, report: str) -> list[str]:
    """Return where a cursor that nobody was given is not refused, and which list has none."""
    given: dict[str, str] = {}
    for path in list_paths(ROUTES, report):
        page = (await client("GET", ask(path, "limit=1"), x_tenant="default")).json
        given[path] = page["next_cursor"] or ""
        assert given[path], f"{path} has a single page"
    wrong = []
    for path, cursor in given.items():
        others = [other for name, other in given.items() if name != path]
        for bad in (*tampered(cursor), *others):
            cursors = "cursor=" + quote(bad, errors="surrogateescape")
            query = ask(path, cursors).partition("?")[2].encode()
            reply = await client.send("GET", path, query, {"x-tenant": "default"}, b"")
            told = reply.json.get("errors") or [{"path": ""}]
            if (reply.status, told[0]["path"]) != (422, "query.cursor"):
                wrong.append(f"{reply.status} {path} {bad[:200]} {reply.raw[:200]!r}")
        elsewhere = await client("GET", ask(path, f"cursor={cursor}"), x_tenant="other")
        if elsewhere.status not in (404, 422):
            wrong.append(f"{elsewhere.status} {path} of another tenant")
        again = await client("GET", ask(path, "limit=1", f"cursor={cursor}"), x_tenant="default")
        if again.status != 200:
            wrong.append(f"{again.status} {path} refuses its own cursor")
    return wrong


@pytest.mark.parametrize("store", STORES)
async def test_a_cursor_that_nobody_was_given_is_refused(store: StoreName, tmp_path: Path) -> None:
    clock = VirtualClock("2026-01-05T06:00:00Z")
    async with application_on(store, tmp_path, clock, declare) as bt:
        client = Client(serve(bt, ROUTES, dev=True))
        await populate(client, bt, clock)
        assert await refused_nowhere(client, await write_report(client, bt)) == []
