"""The yardstick: what somebody would write by hand for this one domain, without betimes' engine.

A batch of knocks is decided under lock and written in one transaction: states loaded and decoded, the same `decide`,
`fold`, verdict, digest and JSON as the engine's, a row per stream, per segment and per key, plain SQL, full durability.
There is no alarm, no effect, no change of policy, no other process to share with and no handling of failures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import apsw
import asyncpg
import msgspec

from benchmarks.places import TENANT, Place
from betimes.core.canonical import digest, encode, fingerprint
from betimes.core.deciders import Decision, View
from betimes.core.policies import PolicyBook
from betimes.core.streams import StreamId
from betimes.testing.sample import GATE, SECTIONS, GateState, Knock

KEY_US = 7 * 86_400 * 1_000_000
POLICY = PolicyBook(SECTIONS).effective({"gates": {"cooldown_s": 0, "per_hour": 100_000}})
_states = msgspec.json.Decoder(GateState)


class Written(NamedTuple):
    """The columns of one decision, in the order the statements below take them."""

    id: str
    version: int
    state: str
    at: int
    alarm_at: int | None
    digest: str
    status: str
    due_at: int | None
    command: str
    events: str
    verdict: str
    prev: str
    key: str
    request: str


class Stored(NamedTuple):
    version: int
    state: str | None
    digest: str


class Loop(Protocol):
    """Decides a batch of (gate, key) knocks durably."""

    async def run(self, knocks: Sequence[tuple[str, str]]) -> None: ...

    async def close(self) -> None: ...


def decided(knocks: Sequence[tuple[str, str]], stored: dict[str, Stored], now: int) -> list[Written]:
    """What the batch writes; a gate knocked at twice goes on from where it was."""
    written = []
    for gate, key in knocks:
        before = stored.get(gate, Stored(0, None, ""))
        state = _states.decode(before.state) if before.state else None
        command = Knock("visitor")
        stream = StreamId(TENANT, "gate", gate)
        decision = GATE.decide(View(stream, state, before.version, {}, key), command, POLICY, now)
        assert isinstance(decision, Decision)
        for event in decision.events:
            state = GATE.fold(state, event)
        assert state is not None
        asked, events, verdict = encode(command), encode(decision.events), encode(decision.verdict)
        request = fingerprint((stream, command))
        own = digest(before.digest, TENANT, "gate", gate, before.version + 1, now, asked, events, verdict, key)
        index = GATE.index(state)
        row = Written(
            gate,
            before.version + 1,
            encode(state),
            now,
            GATE.alarm(state),
            own,
            index.status,
            index.due_at,
            asked,
            events,
            verdict,
            before.digest,
            key,
            request,
        )
        stored[gate] = Stored(row.version, row.state, own)
        written.append(row)
    return written


class SqliteLoop:
    """Plain statements on one connection."""

    def __init__(self, place: Place) -> None:
        self._connection = apsw.Connection(place.path, statementcachesize=64)
        self._connection.pragma("synchronous", "FULL")
        self._connection.pragma("cache_size", -64 * 1024)
        self._connection.wal_autocheckpoint(4_000)

    async def run(self, knocks: Sequence[tuple[str, str]]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        stored = {gate: found for gate, _ in knocks if (found := self._find(gate))}
        for _, key in knocks:
            seen = connection.execute(
                "SELECT 1 FROM key WHERE tenant = ? AND collection = 'gate' AND key = ?", (TENANT, key)
            )
            assert seen.get is None
        self._write(decided(knocks, stored, time.time_ns() // 1_000))
        connection.execute("COMMIT")

    def _find(self, gate: str) -> Stored | None:
        row = self._connection.execute(
            "SELECT version, state, digest FROM stream WHERE tenant = ? AND kind = 'gate' AND id = ?", (TENANT, gate)
        ).get
        return Stored(*row) if row else None

    def _write(self, rows: list[Written]) -> None:
        self._connection.executemany(
            "INSERT INTO stream "
            "(tenant, kind, id, version, schema, owner, status, created_at, at, alarm_at, due_at, digest, state) "
            "VALUES (?, 'gate', ?, ?, 1, '', ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, kind, id) DO UPDATE SET "
            "version = excluded.version, status = excluded.status, at = excluded.at, alarm_at = excluded.alarm_at, "
            "due_at = excluded.due_at, digest = excluded.digest, state = excluded.state",
            [(TENANT, r.id, r.version, r.status, r.at, r.at, r.alarm_at, r.due_at, r.digest, r.state) for r in rows],
        )
        self._connection.executemany(
            "INSERT INTO ledger (tenant, kind, id, version, turn, at, schema, command, events, policy, prev, digest, "
            "collection, key, verdict, actor, correlation, cause, stream_n) "
            "VALUES (?1, 'gate', ?2, ?, 'loop', ?, 1, ?, ?, ?, ?, ?, 'gate', ?, ?, '', '', '', "
            "(SELECT n FROM stream WHERE tenant = ?1 AND kind = 'gate' AND id = ?2))",
            [
                (
                    TENANT,
                    r.id,
                    r.version,
                    r.at,
                    r.command,
                    r.events,
                    POLICY.fingerprint,
                    r.prev,
                    r.digest,
                    r.key,
                    r.verdict,
                )
                for r in rows
            ],
        )
        self._connection.executemany(
            "INSERT INTO key "
            "(tenant, collection, key, request, stream_tenant, stream_kind, stream_id, version, expires_at) "
            "VALUES (?, 'gate', ?, ?, ?, 'gate', ?, ?, ?)",
            [(TENANT, r.key, r.request, TENANT, r.id, r.version, r.at + KEY_US) for r in rows],
        )

    async def close(self) -> None:
        self._connection.close()


class PostgresLoop:
    """Array statements in one transaction."""

    def __init__(self, connection: asyncpg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema

    @classmethod
    async def connect(cls, place: Place) -> PostgresLoop:
        return cls(await asyncpg.connect(place.path), place.schema)

    async def run(self, knocks: Sequence[tuple[str, str]]) -> None:
        connection, schema = self._connection, self._schema
        gates, keys = sorted({gate for gate, _ in knocks}), [key for _, key in knocks]
        async with connection.transaction():
            await connection.execute(
                f"INSERT INTO {schema}.stream (tenant, kind, id) SELECT $1, 'gate', unnest($2::text[]) "
                "ON CONFLICT DO NOTHING",
                TENANT,
                gates,
            )
            rows = await connection.fetch(
                f"SELECT id, version, state, digest FROM {schema}.stream "
                "WHERE tenant = $1 AND kind = 'gate' AND id = ANY($2::text[]) ORDER BY id FOR UPDATE",
                TENANT,
                gates,
            )
            seen = await connection.fetch(
                f"SELECT key FROM {schema}.key WHERE tenant = $1 AND collection = 'gate' AND key = ANY($2::text[])",
                TENANT,
                keys,
            )
            assert not seen
            now = time.time_ns() // 1_000
            stored = {row["id"]: Stored(row["version"], row["state"], row["digest"]) for row in rows}
            await self._write(decided(knocks, stored, now))

    async def _write(self, rows: list[Written]) -> None:
        connection, schema = self._connection, self._schema
        last = {row.id: row for row in rows}.values()
        await connection.execute(
            f"UPDATE {schema}.stream s SET version = w.version, schema = 1, state = w.state, at = w.at, "
            "created_at = coalesce(s.created_at, w.at), alarm_at = w.alarm_at, digest = w.digest, status = w.status, "
            "due_at = w.due_at "
            "FROM unnest($2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], "
            "$9::bigint[]) w(id, version, state, at, alarm_at, digest, status, due_at) "
            "WHERE s.tenant = $1 AND s.kind = 'gate' AND s.id = w.id",
            TENANT,
            *map(list, zip(*(row[:8] for row in last), strict=True)),
        )
        await connection.execute(
            f"INSERT INTO {schema}.ledger (tenant, kind, id, version, turn, at, schema, command, events, policy, prev, "
            "digest, collection, key, verdict, actor, correlation, cause) "
            "SELECT $1, 'gate', w.id, w.version, 'loop', w.at, 1, w.command, w.events, $2, w.prev, w.digest, 'gate', "
            "w.key, w.verdict, '', '', '' "
            "FROM unnest($3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[], "
            "$10::text[], $11::text[]) w(id, version, at, command, events, prev, digest, key, verdict)",
            TENANT,
            POLICY.fingerprint,
            *map(
                list,
                zip(
                    *((r.id, r.version, r.at, r.command, r.events, r.prev, r.digest, r.key, r.verdict) for r in rows),
                    strict=True,
                ),
            ),
        )
        await connection.execute(
            f"INSERT INTO {schema}.key (tenant, collection, key, request, kind, id, version, expires_at, expires_hour) "
            "SELECT $1, 'gate', w.key, w.request, 'gate', w.id, w.version, w.at, w.at / 3600000000 "
            "FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[]) "
            "w(key, request, id, version, at)",
            TENANT,
            *map(list, zip(*((r.key, r.request, r.id, r.version, r.at + KEY_US) for r in rows), strict=True)),
        )

    async def close(self) -> None:
        await self._connection.close()


async def hand_written(place: Place) -> Loop:
    return SqliteLoop(place) if place.kind == "sqlite" else await PostgresLoop.connect(place)
