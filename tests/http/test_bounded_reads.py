"""What a route reads does not grow with what it was not asked for: the database counts its work, on both stores.

Every list is asked for under every filter and pair of filters, and every pass is run, in a database that is filled up
twice with copies of all that is in it. The statements are those that were really sent; one whose work follows the size
of the database is named.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import asyncpg
import pytest

from betimes.app import Betimes
from betimes.app.routes import ROUTES
from betimes.core.instants import DAY
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.server import serve
from betimes.stores.postgres import PostgresStore
from betimes.stores.postgres.statements import Prepared
from tests.http.populated import declare, populate
from tests.http.question_paths import LISTS, QUESTIONS, UNASKED, unasked_routes
from tests.http.served import Client
from tests.postgres import PATIENCE, TABLES, fresh_schema, raw_connection, server_dsn
from tests.stores.sqlite_files import end_blocks

COPIES = (300, 1_200, 310, 1_210)
"""How many more of each kind of row there are each time: more than a page has."""
PAGE = 100
"""Rows that a service reads at once here, and looks at twice that many, so that the lists can be short."""
PAGED = (
    "domain.paging",
    "ledger.effects",
    "ledger.effect_actions",
    "ledger.service",
    "scores.service",
    "notifications.inboxes",
)
GROWTH_MAX = 1.5
STEPS_MIN = 8_000
"""Steps of SQLite's machine that nobody minds."""
PAGES_MIN = 500
"""Pages of PostgreSQL that nobody minds."""
COUNTS = "count(*)"
"""In what counts all that is owed, by its nature."""
PASSES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/tick", {"limit": 5}),
    ("/v1/tick", {"limit": 5, "kinds": ["intent"]}),
    ("/v1/scores/sweep", {"limit": 5}),
    ("/v1/intents/claim?limit=2", {}),
    ("/v1/intents/claim?limit=2", {"trigger_type": "price"}),
    ("/v1/intents/claim?limit=2", {"user_id": "u-1"}),
    ("/v1/runs/claim?limit=2", {}),
    ("/v1/runs/claim?limit=2", {"account_id": "a"}),
)
Work: TypeAlias = dict[str, int]
"""By what was asked and the statement that was sent for it: the most that it took."""


async def _ask_for_lists(client: Client) -> AsyncIterator[str]:
    """Ask for every list, and for the page behind it; say what before each."""
    for path in (*LISTS, *QUESTIONS):
        yield path
        page = await client("GET", path)
        assert page.status == 200, (path, page.raw)
        if page.json.get("next_cursor") and path.count("&") < 2:
            yield f"{path}&cursor=…"
            assert (await client("GET", f"{path}&cursor={page.json['next_cursor']}")).status == 200


async def _ask_for_passes(client: Client) -> AsyncIterator[str]:
    """Do something of everything that is due; say what before each."""
    for path, body in PASSES:
        yield f"{path} {body}"
        assert (await client("POST", path, body)).status == 200, path


def _grown(before: Work, after: Work, least: int) -> dict[str, tuple[int, int]]:
    return {
        asked: (work, after[asked])
        for asked, work in before.items()
        if after.get(asked, 0) > least and after[asked] > GROWTH_MAX * work and COUNTS not in asked
    }


# -- SQLite: its machine counts steps

NUMBERS = "WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < 2 * :copies)"


def _copy_sqlite(path: Path, copies: int) -> None:
    """Let there be so many more of everything, in the tenant and in another; deleted ones too."""
    shell = apsw.Connection(str(path))
    with shell:
        for table, unique in (("stream", "id"), ("ledger", "id"), ("effect", "id"), ("key", "key")):
            columns = [row[1] for row in shell.execute(f"PRAGMA table_info({table})") if row[1] not in ("n", "seq")]
            changed = {
                column: f"{column} || '~{copies}-' || i" for column in (unique, "key", "correlation", "stream_id")
            }
            changed |= {"tenant": "iif(i % 2, tenant, 'other')", "created_at": "created_at - i"}
            # Segments stand with the row of their stream; some copies have none.
            name = f"iif(i % 2, every.tenant, 'other'), every.kind, every.id || '~{copies}-' || i"
            row = f"SELECT n FROM stream AS s WHERE (s.tenant, s.kind, s.id) = ({name})"
            changed |= {"stream_n": f"ifnull(({row}), -abs(random()))"}
            if table == "stream":
                changed |= {column: f"iif(i % 5 = 0, NULL, {column})" for column in ("state", *_INSTANTS)}
                changed |= {column: f"iif(i % 5 = 0, '', {column})" for column in ("status", "owner")}
            told = ", ".join(changed.get(column, column) for column in columns)
            shell.execute(
                f"{NUMBERS}, every AS (SELECT *, count(*) OVER (PARTITION BY {_SORT[table]}) AS many FROM {table}"
                f" WHERE {unique} NOT LIKE '%~%') INSERT INTO {table} ({', '.join(columns)})"
                f" SELECT {told} FROM every CROSS JOIN numbers WHERE i <= max(2 * :copies / many, 2)",
                {"copies": copies},
            )
    end_blocks(shell)
    shell.close()


_INSTANTS = ("alarm_at", "due_at", "listed_at")
_SORT = {"stream": "kind, status", "ledger": "kind", "effect": "executor, status", "key": "collection"}


class _Steps:
    """Counts the steps of every statement that connections made meanwhile carry out."""

    def __init__(self) -> None:
        self.asked = ""
        self.most: Work = {}

    def __call__(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._count)

    def _count(self, event: dict[str, Any]) -> None:
        name = f"{self.asked}: {event['sql']}"
        self.most[name] = max(self.most.get(name, 0), event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PAGED:
        monkeypatch.setattr(f"betimes.{name}.PAGE_MAX", PAGE, raising=False)
    for name in ("verdict_list", "upcoming_items"):
        monkeypatch.setattr(f"betimes.ledger.{name}.READ_MAX", PAGE // 2)
        monkeypatch.setattr(f"betimes.ledger.{name}.LOOKED_AT_MAX", PAGE)
    monkeypatch.setattr("betimes.ledger.effect_actions.PAGE_MAX", PAGE // 4)  # there are few dead letters at first
    monkeypatch.setattr("betimes.ledger.verdict_ranges.DAYS_MAX", PAGE)
    monkeypatch.setattr("betimes.ledger.statistics.PAGE_MAX", PAGE)
    monkeypatch.setattr("betimes.domain.segment_lists.SEGMENTS_MAX", PAGE)
    monkeypatch.setattr("betimes.scores.service.READ_MAX", PAGE)
    monkeypatch.setattr("betimes.scores.service.SCORES_MAX", 2 * PAGE)
    for name in ("upcoming.COUNTED_MAX", "upcoming.SAMPLED_MAX", "upcoming.LATE_MAX", "fleet.COUNT_MAX"):
        monkeypatch.setattr(f"betimes.ledger.{name}", PAGE)
    for name in PAGED:
        monkeypatch.setattr(f"betimes.{name}.LOOKED_AT_MAX", 2 * PAGE, raising=False)


def test_every_route_that_reads_is_asked_or_says_why_not() -> None:
    assert unasked_routes() == UNASKED.keys()


async def test_no_statement_of_sqlite_reads_more_when_there_is_more(tmp_path: Path) -> None:
    clock, steps, path = VirtualClock(), _Steps(), tmp_path / "betimes.db"
    async with _opened(f"sqlite:///{path}", clock) as (bt, client):
        await populate(client, bt, clock)
        await bt.tick()
    apsw.connection_hooks.append(steps)
    found: list[Work] = []
    try:
        for copies, ask in zip(COPIES, (_ask_for_lists, _ask_for_lists, _ask_for_passes, _ask_for_passes), strict=True):
            _copy_sqlite(path, copies)
            steps.most = {}
            async with _opened(f"sqlite:///{path}", clock) as (bt, client):
                async for asked in ask(client):
                    steps.asked = asked
                steps.asked = "forget"
                await bt.engine.store.forget(before_at=clock() - DAY, limit=10)
            found.append(steps.most)
    finally:
        apsw.connection_hooks.remove(steps)
    lists, more_lists, passes, more_passes = found
    assert _grown(lists, more_lists, STEPS_MIN) == {}
    assert _grown(passes, more_passes, STEPS_MIN) == {}


# -- PostgreSQL: it says how many pages a statement touched


class _Recorded(PostgresStore):
    """Keeps the statements that are sent outside of commits, by what was asked."""

    asked = ""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sent: dict[str, Prepared] = {}

    def _statement(self, name: str, **values: Any) -> Prepared:
        prepared = super()._statement(name, **values)
        if name not in UNEXPLAINED:
            self.sent.setdefault(f"{self.asked}: {name} {prepared[0]}", prepared)
        return prepared


UNEXPLAINED = (
    "commit_batch",
    "commit_turn",
    "commit_presumed",
    "presume",
    "begin_batch",
    "begin_turn",
    "now",
    "settled_seq",
)
COLUMNS = """
    SELECT column_name FROM information_schema.columns
    WHERE table_schema = $1 AND table_name = $2 AND is_generated = 'NEVER' AND column_name <> 'seq'
"""


async def _copy_postgres(connection: asyncpg.Connection[Any], schema: str, copies: int) -> None:
    for table, unique in (("stream", "id"), ("ledger", "id"), ("effect", "id"), ("key", "key")):
        columns = [row[0] for row in await connection.fetch(COLUMNS, schema, table)]
        changed = {column: f"{column} || '~{copies}-' || i" for column in {unique, "key", "correlation", "id"}}
        changed |= {"tenant": "CASE WHEN i % 2 = 1 THEN tenant ELSE 'other' END", "created_at": "created_at - i"}
        if table == "stream":
            changed |= {column: f"CASE WHEN i % 5 > 0 THEN {column} END" for column in ("state", *_INSTANTS)}
            changed |= {column: f"CASE WHEN i % 5 > 0 THEN {column} ELSE '' END" for column in ("status", "owner")}
        told = ", ".join(changed.get(column, column) for column in columns)
        await connection.execute(
            f"INSERT INTO {schema}.{table} ({', '.join(columns)}) SELECT {told} FROM (SELECT *, count(*) OVER"
            f" (PARTITION BY {_SORT[table]}) AS many FROM {schema}.{table} WHERE {unique} NOT LIKE '%~%') every"
            f" CROSS JOIN LATERAL generate_series(1, greatest(2 * {copies} / many, 2)) i"
        )
        await connection.execute(f"ANALYZE {schema}.{table}")


async def _pages(connection: asyncpg.Connection[Any], sent: dict[str, Prepared]) -> Work:
    found = {}
    for asked, (sql, arguments) in sent.items():
        transaction = connection.transaction()
        await transaction.start()
        told = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {sql}", *arguments)
        await transaction.rollback()
        plan = json.loads(told)[0]["Plan"]
        found[asked] = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return found


@pytest.mark.postgres
async def test_no_statement_of_postgres_reads_more_when_there_is_more() -> None:
    clock = VirtualClock()
    async with fresh_schema() as schema, raw_connection() as connection:
        await connection.execute("SET enable_seqscan = off")
        store = _Recorded(server_dsn(), schema=schema, clock=clock, **PATIENCE)
        async with _opened(server_dsn(), clock, store) as (bt, client):
            for table in TABLES:  # or what is read depends on when a vacuum comes by
                await connection.execute(f"ALTER TABLE {schema}.{table} SET (autovacuum_enabled = off)")
            await populate(client, bt, clock)
            await bt.tick()
            await _copy_postgres(connection, schema, COPIES[0])
            store.sent = {}
            async for asked in _ask_for_lists(client):
                store.asked = asked
            await bt.engine.store.forget(before_at=clock() - DAY, limit=10)
            lists, store.sent = store.sent, {}
            before = await _pages(connection, lists)
            async for asked in _ask_for_passes(client):
                store.asked = asked
            passes, before_passes = store.sent, await _pages(connection, store.sent)
            await _copy_postgres(connection, schema, COPIES[1])
            assert _grown(before, await _pages(connection, lists), PAGES_MIN) == {}
            assert _grown(before_passes, await _pages(connection, passes), PAGES_MIN) == {}


@asynccontextmanager
async def _opened(url: str, clock: VirtualClock, store: Any = None) -> AsyncIterator[tuple[Betimes, Client]]:
    bt = Betimes(url, clock=clock, workers=False)
    bt._store = store or bt._store
    declare(bt)
    async with bt:
        yield bt, Client(serve(bt, ROUTES, dev=True))
