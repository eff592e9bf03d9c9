"""The yardstick: notifications as somebody would write them by hand, without betimes' engine.

A batch is decided under lock and written in one transaction: states loaded and decoded, the same `decide`, `fold`,
verdict, reply, digest and JSON as the engine's, a row per inbox, per segment, per key and per delivery, plain SQL, full
durability. There is no alarm, no change of policy, no tenant's incident, no other process to share with and no handling
of failures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import apsw
import asyncpg
import msgspec

from benchmarks.places import TENANT, Place
from betimes.core.canonical import digest, encode
from betimes.core.deciders import Call, Decision, View
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.notifications.decide import INBOX
from betimes.notifications.model import InboxState, Notify

KEY_US = 7 * 86_400 * 1_000_000
Asked = tuple[str, str, Notify]
"""The person, the event id and the notification."""
_states = msgspec.json.Decoder(InboxState)


class Stored(NamedTuple):
    version: int
    state: str | None
    digest: str


class Written(NamedTuple):
    """The columns of one decision."""

    id: str
    version: int
    state: str
    at: int
    alarm_at: int | None
    digest: str
    status: str
    command: str
    events: str
    verdict: str
    reply: str
    prev: str
    key: str
    calls: tuple[tuple[int, str, str], ...]


class ByHand(Protocol):
    async def run(self, batch: Sequence[Asked]) -> None: ...

    async def close(self) -> None: ...


def decided(batch: Sequence[Asked], stored: dict[str, Stored], policy: Policy, now: int) -> list[Written]:
    """What the batch writes; a person told twice goes on from where they were."""
    written = []
    for person, key, command in batch:
        before = stored.get(person, Stored(0, None, ""))
        state = _states.decode(before.state) if before.state else None
        stream = StreamId(TENANT, "inbox", person)
        decision = INBOX.decide(View(stream, state, before.version, {}, key), command, policy, now)
        assert isinstance(decision, Decision)
        for event in decision.events:
            state = INBOX.fold(state, event)
        assert state is not None
        asked, events = encode(command), encode(decision.events)
        verdict, reply = encode(decision.verdict), encode(decision.reply)
        own = digest(
            before.digest, TENANT, "inbox", person, before.version + 1, now, asked, events, verdict, reply, key
        )
        calls = tuple(
            (place, call.executor, encode(call.payload))
            for place, call in enumerate(decision.effects)
            if isinstance(call, Call)
        )
        row = Written(
            person,
            before.version + 1,
            encode(state),
            now,
            INBOX.alarm(state),
            own,
            INBOX.index(state).status,
            asked,
            events,
            verdict,
            reply,
            before.digest,
            key,
            calls,
        )
        stored[person] = Stored(row.version, row.state, own)
        written.append(row)
    return written


class SqliteByHand:
    """Plain statements on one connection."""

    def __init__(self, place: Place, policy: Policy) -> None:
        self._policy = policy
        self._connection = apsw.Connection(place.path, statementcachesize=64)
        self._connection.pragma("synchronous", "FULL")
        self._connection.pragma("cache_size", -64 * 1024)
        self._connection.wal_autocheckpoint(4_000)

    async def run(self, batch: Sequence[Asked]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        stored = {person: found for person, _, _ in batch if (found := self._find(person))}
        for _, key, _ in batch:
            asked = "SELECT 1 FROM key WHERE tenant = ? AND collection = 'notifications' AND key = ?"
            assert self._connection.execute(asked, (TENANT, key)).get is None
        self._write(decided(batch, stored, self._policy, time.time_ns() // 1_000))
        self._connection.execute("COMMIT")

    def _find(self, person: str) -> Stored | None:
        row = self._connection.execute(
            "SELECT version, state, digest FROM stream WHERE tenant = ? AND kind = 'inbox' AND id = ?", (TENANT, person)
        ).get
        return Stored(*row) if row else None

    def _write(self, rows: list[Written]) -> None:
        self._connection.executemany(
            "INSERT INTO stream "
            "(tenant, kind, id, version, schema, owner, status, created_at, at, alarm_at, digest, state) "
            "VALUES (?, 'inbox', ?, ?, 1, '', ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, kind, id) DO UPDATE SET "
            "version = excluded.version, status = excluded.status, at = excluded.at, alarm_at = excluded.alarm_at, "
            "digest = excluded.digest, state = excluded.state",
            [(TENANT, r.id, r.version, r.status, r.at, r.at, r.alarm_at, r.digest, r.state) for r in rows],
        )
        self._connection.executemany(
            "INSERT INTO ledger (tenant, kind, id, version, turn, at, schema, command, events, policy, prev, digest, "
            "collection, key, verdict, reply, actor, correlation, cause, stream_n) "
            "VALUES (?1, 'inbox', ?2, ?, 'loop', ?, 1, ?, ?, ?, ?, ?, 'notifications', ?, ?, ?, '', '', '', "
            "(SELECT n FROM stream WHERE tenant = ?1 AND kind = 'inbox' AND id = ?2))",
            [
                (
                    TENANT,
                    r.id,
                    r.version,
                    r.at,
                    r.command,
                    r.events,
                    self._policy.fingerprint,
                    r.prev,
                    r.digest,
                    r.key,
                    r.verdict,
                    r.reply,
                )
                for r in rows
            ],
        )
        self._connection.executemany(
            "INSERT INTO key "
            "(tenant, collection, key, request, stream_tenant, stream_kind, stream_id, version, expires_at) "
            "VALUES (?, 'notifications', ?, ?, ?, 'inbox', ?, ?, ?)",
            [(TENANT, r.key, r.id, TENANT, r.id, r.version, r.at + KEY_US) for r in rows],
        )
        self._connection.executemany(
            "INSERT INTO effect (tenant, kind, id, version, place, executor, created_at, next_attempt_at, "
            "at_most_once, attempts_max, leased_for_s, to_tenant, to_kind, to_id, payload) "
            "VALUES (?, 'inbox', ?, ?, ?, ?, ?, ?, 0, 3, 60, ?, 'inbox', ?, ?)",
            [
                (TENANT, r.id, r.version, place, executor, r.at, r.at, TENANT, r.id, payload)
                for r in rows
                for place, executor, payload in r.calls
            ],
        )

    async def close(self) -> None:
        self._connection.close()


class PostgresByHand:
    """Array statements in one transaction."""

    def __init__(self, connection: asyncpg.Connection[Any], schema: str, policy: Policy) -> None:
        self._connection = connection
        self._schema = schema
        self._policy = policy

    async def run(self, batch: Sequence[Asked]) -> None:
        connection, schema = self._connection, self._schema
        people, keys = sorted({person for person, _, _ in batch}), [key for _, key, _ in batch]
        async with connection.transaction():
            await connection.execute(
                f"INSERT INTO {schema}.stream (tenant, kind, id) SELECT $1, 'inbox', unnest($2::text[]) "
                "ON CONFLICT DO NOTHING",
                TENANT,
                people,
            )
            rows = await connection.fetch(
                f"SELECT id, version, state, digest FROM {schema}.stream "
                "WHERE tenant = $1 AND kind = 'inbox' AND id = ANY($2::text[]) ORDER BY id FOR UPDATE",
                TENANT,
                people,
            )
            seen = await connection.fetch(
                f"SELECT key FROM {schema}.key WHERE tenant = $1 AND collection = 'notifications' "
                "AND key = ANY($2::text[])",
                TENANT,
                keys,
            )
            assert not seen
            stored = {row["id"]: Stored(row["version"], row["state"], row["digest"]) for row in rows}
            await self._write(decided(batch, stored, self._policy, time.time_ns() // 1_000))

    async def _write(self, rows: list[Written]) -> None:
        connection, schema = self._connection, self._schema
        last = {row.id: row for row in rows}.values()
        await connection.execute(
            f"UPDATE {schema}.stream s SET version = w.version, schema = 1, state = w.state, at = w.at, "
            "created_at = coalesce(s.created_at, w.at), alarm_at = w.alarm_at, digest = w.digest, status = w.status "
            "FROM unnest($2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[]) "
            "w(id, version, state, at, alarm_at, digest, status) "
            "WHERE s.tenant = $1 AND s.kind = 'inbox' AND s.id = w.id",
            TENANT,
            *_columns(row[:7] for row in last),
        )
        await connection.execute(
            f"INSERT INTO {schema}.ledger (tenant, kind, id, version, turn, at, schema, command, events, policy, prev, "
            "digest, collection, key, verdict, reply, actor, correlation, cause) "
            "SELECT $1, 'inbox', w.id, w.version, 'loop', w.at, 1, w.command, w.events, $2, w.prev, w.digest, "
            "'notifications', w.key, w.verdict, w.reply, '', '', '' FROM unnest($3::text[], $4::bigint[], "
            "$5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[]) "
            "w(id, version, at, command, events, prev, digest, key, verdict, reply)",
            TENANT,
            self._policy.fingerprint,
            *_columns(
                (r.id, r.version, r.at, r.command, r.events, r.prev, r.digest, r.key, r.verdict, r.reply) for r in rows
            ),
        )
        await connection.execute(
            f"INSERT INTO {schema}.key (tenant, collection, key, request, kind, id, version, expires_at, expires_hour) "
            "SELECT $1, 'notifications', w.key, w.id, 'inbox', w.id, w.version, w.at, w.at / 3600000000 "
            "FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) w(key, id, version, at)",
            TENANT,
            *_columns((r.key, r.id, r.version, r.at + KEY_US) for r in rows),
        )
        calls = [
            (r.id, r.version, place, executor, r.at, payload) for r in rows for place, executor, payload in r.calls
        ]
        if calls:
            await connection.execute(
                f"INSERT INTO {schema}.effect (tenant, kind, id, version, place, executor, created_at, "
                "next_attempt_at, at_most_once, attempts_max, lease_s, to_tenant, to_kind, to_id, payload) "
                "SELECT $1, 'inbox', w.id, w.version, w.place, w.executor, w.at, w.at, false, 3, 60, $1, 'inbox', "
                "w.id, w.payload FROM unnest($2::text[], $3::bigint[], $4::int[], $5::text[], $6::bigint[], "
                "$7::text[]) w(id, version, place, executor, at, payload)",
                TENANT,
                *_columns(calls),
            )

    async def close(self) -> None:
        await self._connection.close()


def _columns(rows: Any) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


async def by_hand(place: Place, policy: Policy) -> ByHand:
    if place.kind == "sqlite":
        return SqliteByHand(place, policy)
    return PostgresByHand(await asyncpg.connect(place.path), place.schema, policy)
