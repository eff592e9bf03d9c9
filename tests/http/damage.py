"""A database with rows of every kind, and every way in which a stored row may not be readable.

Rows are damaged with SQL, past everything that would refuse to write them: text that is no JSON, tags nobody knows, a
newer schema, instants that no calendar has.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import apsw
import asyncpg

from betimes.app import Betimes
from betimes.engine.virtual_clock import VirtualClock
from tests.http.extremes import INTENT, NOTE, SWEEP
from tests.http.served import Client
from tests.postgres import empty_schema, patient_store, raw_connection, server_dsn

FAR = 2**62
COLUMNS = {
    "stream": "state schema created_at at",
    "ledger": "command events verdict reply schema at",
    "effect": "payload history created_at next_attempt_at",
    "policy": "body",
}
NAMES = {"stream": "tenant kind id", "ledger": "seq", "effect": "tenant kind id version place", "policy": "fingerprint"}
_STATES = "kind <> 'tenant'"
DAMAGES: dict[str, tuple[str, ...]] = {
    "states that are no JSON": (f"UPDATE stream SET state = '{{' WHERE {_STATES}",),
    "states of another shape": (f"UPDATE stream SET state = '[7]' WHERE {_STATES}",),
    "states of a newer version": (f"UPDATE stream SET schema = 999 WHERE {_STATES}",),
    "segments that are no JSON": (
        "UPDATE ledger SET events = '{', command = substr(command, 1, 24), verdict = '{', reply = '{'",
    ),
    "segments with tags nobody knows": (
        """UPDATE ledger SET events = '[{"type":"FromTomorrow"}]', command = '{"type":"FromTomorrow"}'""",
    ),
    "segments of a newer version": ("UPDATE ledger SET schema = 999",),
    "instants beyond the calendar": (
        f"UPDATE stream SET created_at = {FAR}, at = {FAR} WHERE {_STATES}",
        f"UPDATE ledger SET at = {FAR}",
        f"UPDATE effect SET created_at = {FAR}, next_attempt_at = {FAR}",
    ),
    "effects that are no JSON": ("UPDATE effect SET payload = '{', history = '[7]'",),
    "effects of another shape": ("UPDATE effect SET payload = '[7]', history = '{}'",),
    "policies that are no JSON": ("UPDATE policy SET body = '{'",),
}


class Database(Protocol):
    """The tables as they are stored."""

    async def execute(self, statement: str) -> None: ...

    async def rows(self, statement: str) -> list[tuple[Any, ...]]: ...


class SqliteFile:
    """The file, opened beside the store by the same library: another one's locks would not be known to it."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.set_busy_timeout(60_000)

    async def execute(self, statement: str) -> None:
        self._connection.execute(statement)

    async def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return list(self._connection.execute(statement))

    def close(self) -> None:
        self._connection.close()


class PostgresSchema:
    """The schema, through a connection of its own."""

    def __init__(self, connection: asyncpg.Connection[Any]) -> None:
        self._connection = connection

    async def execute(self, statement: str) -> None:
        await self._connection.execute(statement)

    async def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._connection.fetch(statement)]


@asynccontextmanager
async def opened(store: str, folder: Path, clock: VirtualClock) -> AsyncIterator[tuple[Betimes, Database]]:
    """An application on SQLite or PostgreSQL, and its tables."""
    if store == "sqlite":
        async with Betimes(f"sqlite:///{folder}/betimes.db", clock=clock, workers=False) as bt:
            file = SqliteFile(folder / "betimes.db")
            yield bt, file
            file.close()
        return
    async with empty_schema() as schema, raw_connection() as connection:
        application = Betimes(server_dsn(), clock=clock, workers=False)
        application._store = patient_store(server_dsn(), schema=schema, clock=clock)
        async with application as bt:
            await connection.execute(f"SET search_path = {schema}")
            yield bt, PostgresSchema(connection)
            await connection.execute(f"DROP TABLE IF EXISTS {', '.join(f'kept_{table}' for table in COLUMNS)}")


REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/triggers", {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "t-1"}),
    ("/v1/notifications", {**NOTE, "event_id": "n-1"}),
    ("/v1/notifications", {**NOTE, "event_id": "n-2", "user_id": "u-2", "channels": ["push"]}),
    ("/v1/intents", {**INTENT, "intent_id": "i-1"}),
    ("/v1/schedules", {"schedule_id": "brief", "cron": "0 7 * * *", "target": SWEEP}),
    (
        "/v1/schedules",
        {"schedule_id": "call", "cron": "0 7 * * *", "target": {"kind": "webhook", "url": "https://example.com/x"}},
    ),
    ("/v1/schedules/call/trigger", {}),
    ("/v1/schedules/brief/backfills", {"from": "2026-01-01T00:00:00Z", "to": "2026-01-05T00:00:00Z"}),
    ("/v1/sensors", {"sensor_id": "orders", "sensor_type": "push", "target": SWEEP}),
    ("/v1/sensors/orders/messages", {"message_id": "m", "data": {"a": 1}}),
    ("/v1/scores", {"user_id": "u-1"}),
    ("/v1/scores/u-1/interactions", {"type": "text"}),
    ("/v1/incidents", {"ttl_seconds": 600_000, "reason": "fire"}),
    ("/v1/incidents", {"ttl_seconds": 600_000, "reason": "fire", "user_id": "u-1"}),
    ("/v1/keys", {"name": "k", "scopes": ["runs:read"]}),
)


async def fill(bt: Betimes, client: Client, clock: VirtualClock, database: Database) -> None:
    """Write rows of every kind, let some of them become due, and keep a copy of every column that is damaged."""
    for path, body in REQUESTS:
        reply = await client("POST", path, body)
        assert reply.status < 300, (path, reply.raw)
    for _ in range(2):
        await bt.tick()
        clock.advance(3_600)
    assert (await client("POST", "/v1/backtests", {"policy": {}, "domain": "runs"})).status < 300
    for table in COLUMNS:
        await database.execute(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")


async def restore(database: Database) -> None:
    """Put every column back as it was."""
    for table, columns in COLUMNS.items():
        put = ", ".join(f"{column} = k.{column}" for column in columns.split())
        same = " AND ".join(f"{table}.{name} = k.{name}" for name in NAMES[table].split())
        await database.execute(f"UPDATE {table} SET {put} FROM kept_{table} AS k WHERE {same}")


async def unsettle_states(database: Database) -> None:
    """Put instants that no calendar has into every state."""
    for tenant, kind, id, state in await database.rows("SELECT tenant, kind, id, state FROM stream"):
        if state and kind != "tenant":
            text = re.sub(r"\b1[78]\d{14}\b", str(FAR), state).replace("'", "''")
            where = f"tenant = '{tenant}' AND kind = '{kind}' AND id = '{id}'"
            await database.execute(f"UPDATE stream SET state = '{text}' WHERE {where}")
