"""A store on PostgreSQL: any number of processes on any number of machines share nothing but the database.

**Time** is the database's, so that processes with skewed clocks agree, unless a clock is injected.

**The ledger is read in commit order.** Its numbers are drawn when a batch is written, so a batch with lower numbers may
commit after one with higher numbers, and a reader that goes on after the highest number it saw would never see it.
Two locks and a rule prevent that:

1. A batch draws its numbers while it holds its streams' rows, so that the numbers of one stream follow its versions.
2. Before it draws, it takes an advisory lock, shared and never waited for, that names the sequence's last value: all
   its numbers will be above that. PostgreSQL releases the lock after the commit has become visible.
3. A reader notes the sequence's last value, then looks up the announced locks, then reads, in a statement of its own
   and so with a later snapshot, nothing above that value or above the lowest announcement.

Take any number the reader may return. A batch that drew a lower one did so before the reader noted the last value, and
had announced itself before that. Either the announcement was still there, and the reader stops below that batch; or it
was gone, and the batch had committed or rolled back before the reader's snapshot was taken. So no number below one that
was returned can appear later. Transactions that are merely open, here or in other databases, hold up nobody.

(A horizon of transaction ids on each row does not do: `pg_snapshot_xmax` is one above the last transaction that has
*ended*, so a transaction with a higher id may be under way and hold lower numbers.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from betimes.core.errors import Fenced
from betimes.core.instants import Instant
from betimes.core.segments import Head, Segment
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.audit import FINDINGS_MAX, StoreAudit, policy_problems
from betimes.engine.clock_report import ClockReport
from betimes.engine.read_model import prefix_end
from betimes.engine.store import (
    LEASE_RAN_OUT,
    PAGE_MAX,
    Backlog,
    DueIndex,
    DueTenants,
    EffectQuery,
    EffectRow,
    Lease,
    LedgerQuery,
    LockRequest,
    OwedIndex,
    Reached,
    Row,
    SeenKey,
    SendBounds,
    StreamQuery,
    StreamRow,
    WaitingSend,
    is_presumable,
)
from betimes.stores.postgres import rows
from betimes.stores.postgres.driver import failures, refusal_of
from betimes.stores.postgres.due_transaction import DueTx, LastReads
from betimes.stores.postgres.functions import SCHEMA
from betimes.stores.postgres.ledger_pages import read_ledger
from betimes.stores.postgres.migrations import check_durable, check_writable, migrate
from betimes.stores.postgres.optimistic_commit import EstimatedClock, PresumedTx
from betimes.stores.postgres.read_model import PostgresReadModel
from betimes.stores.postgres.sessions import Durability, Sessions, SessionSettings, Transaction
from betimes.stores.postgres.statements import Prepared, checked_schema, prepare_statement, script
from betimes.stores.postgres.transaction import Dialect, PostgresTx

AUDIT_S = 3_600.0
"""A statement that looks at everything may take so long."""


class PostgresStore(PostgresReadModel):
    """A pool of connections to one database.

    `durability="relaxed"` lets the last moments before a crash of the server be lost, never torn. `behind_pooler` is
    for PgBouncer and its like in transaction mode: no prepared statements, settings with every transaction.
    """

    def __init__(
        self,
        dsn: str,
        *,
        clock: Callable[[], Instant] | None = None,
        durability: Durability = "full",
        schema: str = SCHEMA,
        pool_min: int = 0,
        pool_max: int = 10,
        behind_pooler: bool = False,
        lock_timeout_s: float = 5.0,
        idle_timeout_s: float = 5.0,
        connect_timeout_s: float = 10.0,
    ) -> None:
        self._clock = clock
        self._durability = durability
        self._held: list[str] | None = None
        self._schema = checked_schema(schema)
        self._time = EstimatedClock()
        self._dialect = Dialect(self._statement, self._script, clock, self._time.hear)
        self._last_reads = LastReads()
        self._sessions = Sessions(
            SessionSettings(
                dsn, durability, pool_min, pool_max, behind_pooler, lock_timeout_s, idle_timeout_s, connect_timeout_s
            )
        )

    async def open(self) -> None:
        await self._sessions.open()
        try:
            await self._prepare()
        except BaseException:
            await self._sessions.close()
            raise

    async def _prepare(self) -> None:
        server = self._sessions.server
        async with self._sessions.session() as session:
            try:
                await check_writable(session.connection, server)
                if self._durability == "full":
                    await check_durable(session.connection, server)
                await migrate(session.connection, self._schema, server)
            except failures() as error:
                raise refusal_of(error, server) from error

    def pass_over(self, held: Mapping[str, Sequence[str]]) -> None:
        self._held = [f"{tenant}/{kind}" for tenant, kinds in held.items() for kind in kinds] or None

    async def check_writable(self) -> None:
        async with self._sessions.session() as session:
            try:
                await check_writable(session.connection, self._sessions.server)
                # A process whose functions were dropped by a newer one cannot decide any more.
                await session.value(self._statement("now"))
                # a message in the log is flushed to disk like a commit and read by nobody
                await session.connection.execute("SELECT pg_logical_emit_message(true, 'betimes', '')")
            except failures() as error:
                raise refusal_of(error, self._sessions.server) from error

    async def close(self) -> None:
        await self._sessions.close()

    def _statement(self, name: str, **values: Any) -> Prepared:
        """A statement by its name; `now` is the injected clock's time, or nothing, which is the database's."""
        return prepare_statement(self._schema, name, values | {"now": self._clock() if self._clock else None})

    def _script(self, name: str, **values: Any) -> str | None:
        """The same with its values written out, to be sent with other statements; not every text can be."""
        return script(self._schema, name, values | {"now": self._clock() if self._clock else None})

    async def now(self) -> Instant:
        now = int(await self._sessions.value(self._statement("now")))
        if self._clock is None:
            self._time.hear(now)  # what was found due by this is decided no earlier
        return now

    def begin(self, ask: LockRequest) -> Transaction[PostgresTx]:
        tx = PostgresTx(self._dialect)
        return self._sessions.transaction(tx.asks(ask), tx.start)

    def presume(self, ask: LockRequest) -> PresumedTx | None:
        sent_at = self._time.now()
        if sent_at is None or not is_presumable(ask):
            return None
        return PresumedTx(self._dialect, sessions=self._sessions, ask=ask, sent_at=sent_at)

    def begin_due(
        self,
        index: DueIndex,
        kinds: Sequence[str],
        limit: int,
        *,
        after: Reached | None = None,
        until_at: Instant | None = None,
        tenant: str | None = None,
        shares: Mapping[str, int] | None = None,
    ) -> Transaction[DueTx]:
        tx = DueTx(self._dialect, self._last_reads)
        among = {tenant: limit} if tenant is not None else shares
        asked: dict[str, Any] = {
            "index": index,
            "kinds": list(kinds),
            "held": self._held,
            "tenants": None if among is None else list(among),
            "shares": None if among is None else list(among.values()),
            "from_at": after and after.at,
            "until_at": until_at,
            "limit": limit,
        }
        return self._sessions.transaction(tx.asks_due(asked), tx.start)

    async def due_tenants(self, index: OwedIndex, names: Sequence[str], *, after: str = "", limit: int) -> DueTenants:
        statement = self._statement(
            _OWED_STATEMENTS[index], names=list(names), after=after, limit=limit, held=self._held
        )
        looked_at = await self._sessions.rows(statement)
        due = tuple(record[0] for record in looked_at if record[1])
        return DueTenants(due, looked_at[-1][0] if len(looked_at) == limit else "", len(looked_at))

    async def next_due(
        self, index: DueIndex, kinds: Sequence[str], executors: Sequence[str] = (), *, tenant: str | None = None
    ) -> Instant | None:
        name = "next_alarm" if index == "alarm" else "next_due"
        at: Instant | None = await self._sessions.value(
            self._statement(name, kinds=list(kinds), executors=sorted(set(executors)), tenant=tenant, held=self._held)
        )
        return at

    async def snooze(self, stream: StreamId, version: int, until: Instant, error: str = "") -> None:
        asked = {**stream._asdict(), "version": version, "until": until, "error": error}
        await self._sessions.write(self._statement("snooze", **asked))

    async def lease_calls(
        self, executors: Sequence[str], limit: int, *, shares: Mapping[str, int] | None = None
    ) -> list[Lease]:
        asked = {"executors": sorted(set(executors)), "limit": limit, "ran_out": LEASE_RAN_OUT, "held": self._held}
        if shares is None:
            statement = self._statement("lease_calls", **asked)
        else:
            statement = self._statement(
                "lease_calls_in_shares", **asked, tenants=list(shares), shares=list(shares.values())
            )
        records = await self._sessions.write(statement)
        # A statement that writes returns its rows in no order.
        return [rows.lease(record) for record in sorted(records, key=lambda record: tuple(record[:6]))]

    async def renew_lease(self, effect: EffectId, fence: int) -> None:
        if not await self._sessions.write(self._statement("renew_lease", **effect._asdict(), fence=fence)):
            raise Fenced(f"the lease on effect {effect.handle} was lost")

    async def waiting_sends(self, limit: int, **bounds: Unpack[SendBounds]) -> list[WaitingSend]:
        after = bounds.get("after")
        statement = self._statement(
            "waiting_sends",
            created_before=bounds["created_before"],
            limit=limit,
            tenant=bounds.get("tenant"),
            kinds=bounds.get("kinds"),
            held=self._held,
            after_created_at=after.created_at if after else None,
            **_name_values("after", after.id if after else None, EffectId),
        )
        return [rows.waiting_send(record) for record in await self._sessions.rows(statement)]

    async def effects(self, query: EffectQuery) -> list[EffectRow]:
        narrowed: dict[str, Any] = {
            "tenant": query.tenant,
            "version": query.version,
            "executor": query.executor,
            "status": query.status,
            "limit": min(query.limit, PAGE_MAX),
            **_name_values("source", query.source, StreamId),
            **_name_values("after", query.after, EffectId),
        }
        if query.newest_first or query.oldest_first:
            narrowed["after_created_at"] = (query.after_created_at or 0) if query.after else None
            narrowed["dead"] = query.status == "dead" or None
            narrowed["any_source"] = query.source is None or None
            narrowed["same_source"] = (query.after is not None and query.after.source == query.source) or None
        name = "newest_effects" if query.newest_first else "oldest_effects" if query.oldest_first else "effects"
        statement = self._statement(name, **narrowed)
        return [rows.effect_row(record) for record in await self._sessions.rows(statement)]

    async def revive_effect(self, effect: EffectId) -> bool:
        return bool(await self._sessions.write(self._statement("revive_effect", **effect._asdict())))

    async def discard_effect(self, effect: EffectId) -> bool:
        return bool(await self._sessions.write(self._statement("discard_effect", **effect._asdict())))

    async def revive_effects(self, effects: Sequence[EffectId]) -> list[EffectId]:
        return await self._change_dead_letters("revive_effects", effects)

    async def discard_effects(self, effects: Sequence[EffectId]) -> list[EffectId]:
        return await self._change_dead_letters("discard_effects", effects)

    async def _change_dead_letters(self, name: str, effects: Sequence[EffectId]) -> list[EffectId]:
        tenants, kinds, ids, versions, places = zip(*effects, strict=True) if effects else [()] * 5
        columns = {"tenants": tenants, "kinds": kinds, "ids": ids, "versions": versions, "places": places}
        statement = self._statement(name, **{column: list(values) for column, values in columns.items()})
        return [EffectId(*record) for record in await self._sessions.write(statement)]

    async def load(self, streams: Sequence[StreamId]) -> dict[StreamId, Row]:
        return rows.rows_by_stream(await self._sessions.rows(self._statement("load", streams=list(streams))))

    async def seen(self, key: KeyId) -> SeenKey | None:
        found = await self._sessions.rows(self._statement("seen", **key._asdict()))
        return rows.seen_key(found[0]) if found else None

    async def streams(self, query: StreamQuery) -> list[StreamRow]:
        narrowed: dict[str, Any] = {
            "tenant": query.tenant,
            "kind": query.kind,
            "owner": query.owner,
            "status": query.status,
            "prefix": query.prefix,
            "prefix_end": None if query.prefix is None else prefix_end(query.prefix),
            "among": list(query.among) or None,
            "living": None if query.tombstones else True,
            "owned": True if query.owner else None,
            "limit": min(query.limit, PAGE_MAX),
            **_name_values("after", query.after, StreamId),
        }
        name, is_of_kind = "streams", bool(query.among) and query.kind is not None
        if query.due_before is not None:
            name = "due_streams_among" if is_of_kind else "due_streams"
            narrowed["due_before"] = query.due_before
            narrowed["after_due_at"] = (query.after_due_at or 0) if query.after else None
        elif query.listed_before is not None:
            name, narrowed["listed_before"] = "listed_streams", query.listed_before
            narrowed["after_listed_at"] = (query.after_listed_at or 0) if query.after else None
        elif query.newest_first:
            name, narrowed["any_status"] = "newest_streams", not query.among
            if query.tenant is not None and query.kind is not None and query.owner != "":
                name = "newest_streams_of_kind" if query.owner is None else "newest_streams_of_owner"
            narrowed["after_created_at"] = (query.after_created_at or 0) if query.after else None
        statement = self._statement(name, **narrowed)
        return [rows.stream_row(record) for record in await self._sessions.rows(statement)]

    async def history(self, stream: StreamId, after_version: int, limit: int) -> tuple[StreamRow | None, list[Segment]]:
        statement = self._statement(
            "history", **stream._asdict(), after_version=after_version, limit=min(limit, PAGE_MAX)
        )
        return rows.history(stream, await self._sessions.rows(statement))

    async def ledger(self, query: LedgerQuery) -> list[Segment]:
        async with self._sessions.session() as session:
            return await read_ledger(session, self._statement, query)

    async def policy(self, fingerprint: str) -> str | None:
        body: str | None = await self._sessions.value(self._statement("policy", fingerprint=fingerprint))
        return body

    async def replace_history(self, checkpoint: Segment) -> int:
        statement = self._statement("replace_history", checkpoint=rows.segment_values(checkpoint))
        return int((await self._sessions.write(statement))[0][0])

    async def forget(self, *, before_at: Instant, limit: int) -> int:
        return int((await self._sessions.write(self._statement("forget", before_at=before_at, limit=limit)))[0][0])

    def watch_clock(self, step_max_s: float, hold_s: float) -> None:
        """The clock is the database's; it is not ours to hold."""

    async def clock_report(self) -> ClockReport:
        [(now, high_water_at)] = await self._sessions.rows(self._statement("high_water"))
        return ClockReport(now, high_water_at)

    async def audit(self, *, keys_since: Instant | None) -> StoreAudit:
        [heads] = await self._sessions.rows(self._statement("heads"), AUDIT_S)
        unrecorded, until, last_at = heads[6:]
        report = StoreAudit(Head(*heads[:3]), Head(*heads[3:6]), unrecorded, until, last_at)
        astray = self._statement("astray", since_at=keys_since, limit=FINDINGS_MAX)
        report.problems += [(row, what) for row, what in await self._sessions.rows(astray, AUDIT_S)]
        policies = await self._sessions.rows(self._statement("policies"))
        report.problems += policy_problems((name, body) for name, body in policies)
        return report

    async def backlog(self, kinds: Sequence[str]) -> Backlog:
        [record] = await self._sessions.rows(self._statement("backlog", kinds=list(kinds), held=self._held))
        return rows.backlog(record)


_OWED_STATEMENTS: Mapping[OwedIndex, str] = {
    "alarm": "tenants_with_alarms",
    "due": "tenants_with_due",
    "call": "tenants_with_calls",
}


def _name_values(prefix: str, value: StreamId | EffectId | None, kind: type[StreamId | EffectId]) -> dict[str, Any]:
    """The parts of an id as parameters, or as many that are not given."""
    parts = value or (None,) * len(kind._fields)
    return {f"{prefix}_{field}": part for field, part in zip(kind._fields, parts, strict=True)}
