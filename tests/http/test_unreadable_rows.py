"""A row that cannot be read is shown as one that cannot be read, in every list; it takes no other row with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_origin

import pytest

from betimes.app.routes import ROUTES
from betimes.core.errors import MalformedRow
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.routes import Route
from betimes.http.server import serve
from betimes.ledger.lake.export import export
from betimes.ledger.lake.views import open_lake
from tests.http.damage import DAMAGES, fill, opened, restore, unsettle_states
from tests.http.extremes import INTENT, SKIPPED
from tests.http.populated import OF_ONE_REPORT, ask
from tests.http.served import Client

STORES = [pytest.param("sqlite"), pytest.param("postgres", marks=pytest.mark.postgres)]
EMPTY = ["/v1/schedules/call/backfills", "/v1/policy/history"]
"""Lists with nothing in them: no rows to damage."""
TYPED = {"MALFORMED_ROW", "NEWER_VERSION"}
IDS = {"schedule_id": ("brief", "call"), "sensor_id": ("orders",), "user_id": ("u-1",), "intent_id": ("i-1",)}


def is_list(route: Route) -> bool:
    """Whether the route's answer is a page of rows."""
    fields = getattr(get_origin(route.reply) or route.reply, "__struct_fields__", ())
    return route.method == "GET" and {"items", "unreadable"} <= {*fields} and route.path not in OF_ONE_REPORT


def paths_of(route: Route) -> list[str]:
    """The route's path for everything that was written."""
    name = route.path[route.path.index("{") + 1 : route.path.index("}")] if "{" in route.path else ""
    return [route.path.replace(f"{{{name}}}", id) for id in IDS.get(name, ("a",))] if name else [ask(route.path)]


LISTS = [path for route in ROUTES if is_list(route) for path in paths_of(route)]
READS = [
    path
    for route in ROUTES
    if route.method == "GET" and route.path.startswith("/v1") and route.path not in SKIPPED and not is_list(route)
    for path in paths_of(route)
]


def count_of(page: Any) -> int:
    return len(page["items"]) + len(page["unreadable"])


@pytest.mark.parametrize("store", STORES)
async def test_no_list_fails_because_of_a_row(store: str, tmp_path: Path) -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    async with opened(store, tmp_path, clock) as (bt, database):
        client = Client(serve(bt, ROUTES, dev=True), {"x-tenant": "default"})
        await fill(bt, client, clock, database)
        sound = {path: count_of((await client("GET", path)).json) for path in LISTS}
        assert [path for path, count in sound.items() if not count] == EMPTY
        for what, statements in {**DAMAGES, "instants in states beyond the calendar": ()}.items():
            for statement in statements:
                await database.execute(statement)
            if not statements:
                await unsettle_states(database)
            marked = []
            for path in LISTS:
                reply = await client("GET", path)
                assert reply.status == 200, (what, path, reply.raw)
                marked += reply.json["unreadable"]
            assert all(row["row"] and row["code"] in TYPED and row["unreadable"] for row in marked), (what, marked)
            assert bool(marked) == what.startswith(("states", "segments", "effects")), (what, marked)
            for path in READS:
                reply = await client("GET", path)
                assert reply.status < 500 or reply.json["code"] in TYPED, (what, path, reply.raw)
            await restore(database)
        assert {path: count_of((await client("GET", path)).json) for path in LISTS} == sound


async def test_text_that_is_not_utf8_takes_no_other_row_with_it(tmp_path: Path) -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    async with opened("sqlite", tmp_path, clock) as (bt, database):
        for user_id in ("sound", "bad"):
            await bt.scores.create({"user_id": user_id})
        await database.execute("UPDATE stream SET state = CAST(x'7bff7d' AS TEXT) WHERE id = 'bad'")
        await database.execute("UPDATE ledger SET events = CAST(x'5bff5d' AS TEXT) WHERE id = 'bad'")
        page = await bt.scores.list()
        assert [score.user_id for score in page.items] == ["sound"]
        assert [row.row for row in page.unreadable] == ["score:bad"]
        history = await bt.scores.history("bad")
        assert (history.items, [row.row for row in history.unreadable]) == ([], ["score:bad:1"])
        with pytest.raises(MalformedRow, match="score/bad"):
            await bt.scores.get("bad")


@pytest.mark.parametrize("store", STORES)
async def test_workers_go_on_past_rows_they_cannot_read(store: str, tmp_path: Path) -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    async with opened(store, tmp_path, clock) as (bt, database):
        client = Client(serve(bt, ROUTES, dev=True), {"x-tenant": "default"})
        await fill(bt, client, clock, database)
        for statement in DAMAGES["states that are no JSON"] + DAMAGES["effects that are no JSON"]:
            await database.execute(statement)
        await bt.schedules.create({"schedule_id": "sound", "cron": "0 * * * *", "target": {"kind": "sweep"}})
        await bt.intents.create({**INTENT, "intent_id": "sound", "worker": "outside"})
        await bt.scores.create({"user_id": "sound"})
        clock.advance(2 * 86_400)
        for _ in range(2):
            await bt.tick()
        assert (await bt.schedules.ticks("sound")).items
        assert [claim.intent.intent_id for claim in (await bt.intents.claim_many(limit=1)).items] == ["sound"]
        assert (await bt.scores.history("sound", event_type="decay")).items


async def test_an_export_marks_what_it_cannot_read(tmp_path: Path) -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    async with opened("sqlite", tmp_path, clock) as (bt, database):
        for schedule_id in ("sound", "bad"):
            await bt.schedules.create({"schedule_id": schedule_id, "cron": "0 * * * *", "target": {"kind": "sweep"}})
        await database.execute("UPDATE ledger SET events = '{' WHERE id = 'bad'")
        report = await export(bt.engine.store, bt.engine.kinds, str(tmp_path / "lake"))
        assert report.unreadable == 1
        lake = open_lake(str(tmp_path / "lake"))
        marked = lake.execute("SELECT id, unreadable IS NOT NULL FROM segments WHERE kind = 'schedule'").fetchall()
        assert dict(marked) == {"sound": False, "bad": True}
        states = lake.execute("SELECT id, status FROM schedule_state").fetchall()
        assert dict(states) == {"sound": "active", "bad": "unreadable"}
