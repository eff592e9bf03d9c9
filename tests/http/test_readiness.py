"""Ready means that a write can be made now; and paths that are not there stay that."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import msgspec
import pytest

from betimes.app import Betimes
from betimes.app.routes import ROUTES
from betimes.engine.store import LedgerQuery
from betimes.engine.virtual_clock import VirtualClock
from betimes.http import health, process
from betimes.http.server import serve
from tests.http.served import Client, Reply, site
from tests.stores.backends import BACKENDS, Backend


@pytest.fixture(autouse=True)
def _looked_at_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "READINESS_S", -1.0)


@asynccontextmanager
async def ready_of(path: Path) -> AsyncIterator[Client]:
    bt = Betimes(f"sqlite:///{path}", workers=False)
    async with bt:
        yield Client(serve(bt, ROUTES))


def demand_unready(reply: Reply, folder: Path) -> None:
    assert (reply.status, reply.json["code"], reply.json["errors"][0]["path"]) == (503, "NOT_READY", "store")
    assert str(folder).encode() not in reply.raw


async def test_it_is_not_ready_while_somebody_holds_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "STORE_S", 0.2)
    async with ready_of(tmp_path / "betimes.db") as client:
        assert (await client("GET", "/readyz")).status == 200
        other = apsw.Connection(str(tmp_path / "betimes.db"))
        other.execute("BEGIN IMMEDIATE")
        demand_unready(await client("GET", "/readyz"), tmp_path)
        other.execute("ROLLBACK")
        monkeypatch.setattr(health, "STORE_S", 30.0)
        assert (await client("GET", "/readyz")).status == 200


async def test_it_is_not_ready_when_the_file_may_not_grow(tmp_path: Path) -> None:
    async with ready_of(tmp_path / "betimes.db"):
        pass
    apsw.Connection(str(tmp_path / "betimes.db")).execute("VACUUM")  # pages that are free could be written
    made: list[apsw.Connection] = []
    apsw.connection_hooks.append(made.append)
    try:
        async with ready_of(tmp_path / "betimes.db") as client:
            assert (await client("GET", "/readyz")).status == 200
            for connection in made[1:]:
                connection.pragma("max_page_count", connection.pragma("page_count"))
            demand_unready(await client("GET", "/readyz"), tmp_path)
    finally:
        apsw.connection_hooks.remove(made.append)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB, where one may be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("mounting a file system is not allowed here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


async def test_it_is_not_ready_while_the_disk_is_full(disk: Path) -> None:
    async with ready_of(disk / "betimes.db") as client:
        assert (await client("GET", "/readyz")).status == 200
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(shutil.disk_usage(disk).free))
        demand_unready(await client("GET", "/readyz"), disk)
        ballast.unlink()
        assert (await client("GET", "/readyz")).status == 200


async def test_many_who_ask_look_at_the_store_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "READINESS_S", 3_600.0)
    count = 0

    async def check() -> None:
        nonlocal count
        count += 1

    async with site() as s:
        monkeypatch.setattr(s.bt.engine.store, "check_writable", check)
        replies = await asyncio.gather(*(s.client("GET", "/readyz") for _ in range(20)))
        assert ({reply.status for reply in replies}, count) == ({200}, 1)


@pytest.mark.parametrize("backend", [pytest.param(one, id=one.id, marks=one.marks) for one in BACKENDS])
async def test_checking_that_a_store_is_writable_changes_nothing(backend: Backend, tmp_path: Path) -> None:
    async with backend.pair(VirtualClock("2026-01-05T09:00:00Z"), tmp_path) as pair:
        for store in (pair.one, pair.two, pair.one):
            await store.check_writable()
        assert await pair.two.ledger(LedgerQuery(limit=10)) == []


async def test_a_slash_too_many_is_not_found_and_redirects_nobody() -> None:
    async with site() as s:
        for route in ROUTES:
            reply = await s.client(
                route.method, route.path.replace("{", "").replace("}", "") + "/", host="evil.example"
            )
            assert (reply.status, reply.headers.get("location")) in ((404, None), (405, None)), route.path


async def test_reading_the_body_is_within_the_time_limit() -> None:
    async with site() as s:
        hurried = [msgspec.structs.replace(route, time_limit_s=0.05) for route in ROUTES]
        application = serve(s.bt, hurried, dev=True)
        sent: list[int] = []

        async def receive() -> dict[str, object]:
            await asyncio.Event().wait()
            return {}

        async def send(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                sent.append(int(str(message["status"])))

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/triggers",
            "raw_path": b"/v1/triggers",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
        }
        await application(scope, receive, send)  # type: ignore[arg-type]
        assert sent == [504]
