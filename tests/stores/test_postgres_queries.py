"""The SQL of the PostgreSQL store: lists and what is due of one tenant are read along an index, in its order."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.core.streams import EffectId, StreamId
from betimes.stores.postgres.functions import qualify_names
from betimes.stores.postgres.statements import prepare_statement
from tests.postgres import opened_stores, raw_connection, server_dsn

pytestmark = pytest.mark.postgres

WORK = {"among": ["open"], "due_before": 9, "after_due_at": 5}
NO_STREAM = {f"after_{part}": None for part in StreamId._fields}
STREAMS: dict[str, Any] = {
    "tenant": "acme",
    "kind": "thing",
    "owner": None,
    "owned": None,
    "status": None,
    "among": None,
    "any_status": True,
    "living": True,
    "limit": 50,
    "after_created_at": 9,
    "after_tenant": "acme",
    "after_kind": "thing",
    "after_id": "m",
}
EFFECTS: dict[str, Any] = {
    "tenant": "acme",
    "version": None,
    "executor": None,
    "status": None,
    "dead": None,
    "limit": 50,
    **{f"source_{part}": None for part in StreamId._fields},
    "any_source": True,
    "same_source": None,
    "after_created_at": 9,
    **{f"after_{part}": value for part, value in EffectId("acme", "thing", "m", 1, 0)._asdict().items()},
}
DUE: dict[str, Any] = {"tenant": "acme", "executors": ["handler:a"], "limit": 5, "now": 9, "ran_out": "", "held": None}


LEDGER: dict[str, Any] = {
    "tenant": "acme",
    "kind": None,
    "id": None,
    "key": None,
    "turn": None,
    "correlation": None,
    "since_at": None,
    "until_at": None,
    "limit": 50,
    "settled": 10**9,
    "first": 10,
    "last": 10**9,
    "any_kind": None,
}
FORWARDS = {"forwards": True, "backwards": None, "after": 9, "before": None}
BACKWARDS = {"forwards": None, "backwards": True, "after": None, "before": 10**9}


WITHIN = {"settled": 9, "tenant": "acme", "kinds": ["thing"], "firsts": [1], "lasts": [5], "limit": 5}
COUNTED: dict[str, Any] = {
    "tenant": "acme",
    "level": 60_000_000,
    "since_at": 0,
    "until_at": 9,
    "kinds": ["thing"],
    "outcomes": None,
    "reason": "CAP",
    "limit": 50,
}
AFTER = {"after_kind": "thing", "after_id": "m"}
LIKE = {"tenant": "acme", "prefix": "a", "prefix_end": "b", "limit": 5}
MANY_TENANTS = """
    INSERT INTO {schema}.tally
    SELECT 60000000, 't' || n % 50, n / 50, 'thing', 'ALLOW', '', 1, 1, 1 FROM generate_series(1, 2000) n;
    ANALYZE {schema}.tally
"""
MANY_DUE = """
    INSERT INTO {schema}.stream (tenant, kind, id, version, due_at, owner)
    SELECT 't' || n % 50, 'thing', n, 1, n % 20, 'ann' FROM generate_series(1, 2000) n;
    ANALYZE {schema}.stream
"""
"""Rows of many at the same instants: in an empty table, one index is as good as another."""
SHARES = {"tenants": ["acme"], "shares": [3]}
TURN = {"names": ["thing"], "after": "", "limit": 10, "now": None, "held": None}
HELD = {"held": ["acme/thing"]}


@pytest.mark.parametrize("way", [FORWARDS, BACKWARDS], ids=["forwards", "backwards"])
@pytest.mark.parametrize(
    ("name", "asked", "index"),
    [
        ("ledger", {"key": "k"}, "using ledger_key"),
        ("ledger", {"key": "k", "since_at": 5}, "using ledger_key"),
        ("ledger_of_stream", {"kind": "thing", "id": "s7"}, "using ledger_history"),
        ("ledger_of_tenant", {"kind": "thing"}, "using ledger_kind"),
        ("ledger_of_tenant", {"kind": "thing", "since_at": 5_000}, "using ledger_kind"),
        ("ledger_between", {"since_at": 5_000_000}, "using ledger_pkey"),
        ("ledger_between", {"until_at": 900}, "using ledger_pkey"),
        ("ledger_between", {"since_at": 900, "until_at": 2_000}, "using ledger_pkey"),
    ],
)
async def test_the_ledger_is_searched_without_being_read(
    name: str, asked: dict[str, Any], index: str, way: dict[str, Any]
) -> None:
    """With rows and statistics, so that the plan is the one that the planner prefers."""
    async with opened_stores(server_dsn()) as [store], raw_connection() as connection:
        await _fill_ledger(connection, store._schema, 20_000)
        sql, arguments = prepare_statement(store._schema, name, LEDGER | asked | way)
        plan = [row[0] for row in await connection.fetch(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {sql}", *arguments)]
        [scan] = [step for step in plan if "on ledger " in step and "on ledger place" not in step]
        assert index in scan, plan
        assert not [step for step in plan if "Seq Scan on ledger " in step], plan


async def test_a_page_of_a_long_history_is_read_without_sorting_all_of_it() -> None:
    async with opened_stores(server_dsn()) as [store], raw_connection() as connection:
        await _fill_ledger(connection, store._schema, 5_000)
        await connection.execute(f"UPDATE {store._schema}.ledger SET id = 'long', version = seq; ANALYZE")
        for way in (FORWARDS, BACKWARDS):
            asked = LEDGER | {"kind": "thing", "id": "long"} | way
            sql, arguments = prepare_statement(store._schema, "ledger_of_stream", asked)
            plan = [row[0] for row in await connection.fetch(f"EXPLAIN (COSTS OFF) {sql}", *arguments)]
            assert not [step for step in plan if "Sort" in step], plan


@pytest.mark.parametrize("way", [FORWARDS | {"after": 4_900}, BACKWARDS | {"before": 100}])
async def test_a_page_deep_in_a_long_history_passes_over_nothing(way: dict[str, Any]) -> None:
    async with opened_stores(server_dsn()) as [store], raw_connection() as connection:
        await _fill_ledger(connection, store._schema, 5_000)
        await connection.execute(f"UPDATE {store._schema}.ledger SET id = 'long', version = seq; ANALYZE")
        sql, arguments = prepare_statement(
            store._schema, "ledger_of_stream", LEDGER | {"kind": "thing", "id": "long"} | way
        )
        plan = [row[0] for row in await connection.fetch(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {sql}", *arguments)]
        assert not [step for step in plan if "Removed by Filter" in step], plan


@pytest.mark.parametrize("name", ["newest_streams_of_kind", "due_streams_among"])
async def test_of_many_statuses_only_those_are_searched_for_that_streams_have(name: str) -> None:
    among = [f"s{n:03}" for n in range(0, 150, 2)]
    asked = STREAMS | NO_STREAM | {"after_created_at": None, "after_due_at": None, "due_before": 9}
    asked |= {"among": among, "any_status": False}
    async with opened_stores(server_dsn()) as [store], raw_connection() as connection:
        await connection.execute(f"""
            INSERT INTO {store._schema}.stream (tenant, kind, id, version, created_at, due_at, owner, status, state)
            SELECT 'acme', 'thing', n, 1, n, n % 7, 'ann', (ARRAY['s001', 's004', 's005', 's100'])[1 + n % 4], '{{}}'
            FROM generate_series(1, 2000) n
        """)
        await connection.execute(
            f"ANALYZE {store._schema}.stream; SET enable_seqscan = off; SET enable_bitmapscan = off"
        )
        sql, arguments = prepare_statement(store._schema, name, asked)
        found = await connection.fetch(sql, *arguments)
        assert len(found) == STREAMS["limit"]
        assert {record["status"] for record in found} == {"s004", "s100"}
        explain = "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF)"
        plan = [row[0] for row in await connection.fetch(f"{explain} {sql}", *arguments)]
        searches = sum(int(step.partition(": ")[2]) for step in plan if "Index Searches:" in step)
        assert 0 < searches <= 6, plan


async def test_an_audit_seeks_no_row_among_all_of_its_kind() -> None:
    """Without statistics, as in a copy that was just restored, 8,000 messages of one sensor took over half a minute."""
    async with opened_stores(server_dsn()) as [store], raw_connection() as connection:
        sql, arguments = prepare_statement(store._schema, "astray", {"since_at": 0, "limit": 20, "now": None})
        plan = [row[0] for row in await connection.fetch(f"EXPLAIN (COSTS OFF) {sql}", *arguments)]
        assert not [step for step in plan if "using ledger_kind" in step], plan


async def _fill_ledger(connection: Any, schema: str, count: int) -> None:
    await connection.execute(f"""
        INSERT INTO {schema}.ledger (version, at, schema, tenant, kind, id, turn, command, events, policy, prev, digest,
            collection, key, actor, correlation, cause)
        SELECT 1, n * 1000, 1, 'acme', 'thing', 's' || n, 't' || n, repeat('x', 300), '[]', 'p', '', 'd', 'c', 'k' || n,
            '', '', ''
        FROM generate_series(1, {count}) n
    """)
    await connection.execute(qualify_names(schema, f"SELECT betimes.end_ledger_blocks({count // 1024 * 1024})"))
    await connection.execute(f"ANALYZE {schema}.ledger; ANALYZE {schema}.ledger_block")


@pytest.mark.parametrize(
    ("name", "values", "index"),
    [
        ("newest_streams_of_kind", STREAMS, "Backward using stream_created"),
        ("newest_streams_of_kind", STREAMS, "Backward using stream_status"),
        ("newest_streams_of_kind", STREAMS | {"among": ["open"], "any_status": False}, "Backward using stream_status"),
        ("due_streams_among", STREAMS | WORK, "using stream_tenant_work"),
        ("due_streams_among", STREAMS | WORK | {"tenant": None}, "using stream_work"),
        ("newest_streams_of_kind", {**STREAMS, **NO_STREAM, "after_created_at": None}, "Backward using stream_status"),
        ("newest_streams_of_owner", STREAMS | {"owner": "u-1"}, "Backward using stream_owner on"),
        ("newest_streams_of_owner", STREAMS | {"owner": "u-1"}, "using stream_owner_listed"),
        ("newest_effects", EFFECTS, "Backward using effect_created"),
        ("newest_effects", EFFECTS | {"status": "dead", "dead": True}, "Backward using effect_dead"),
        ("lease_calls_in_shares", DUE | SHARES, "using effect_tenant_call"),
        ("tenants_with_calls", TURN, "using effect_tenant_call"),
        ("tenants_with_alarms", TURN, "using stream_tenant_wake"),
        ("tenants_with_due", TURN, "using stream_tenant_due"),
        ("lease_calls_in_shares", DUE | SHARES | HELD, "using effect_tenant_call"),
        ("tenants_with_calls", TURN | HELD, "using effect_tenant_call"),
        ("tenants_with_alarms", TURN | HELD, "using stream_tenant_wake"),
        ("tenants_with_due", TURN | HELD, "using stream_tenant_due"),
        ("next_alarm", DUE | {"kinds": ["thing"]}, "using effect_tenant_call"),
        ("tally_source", {"settled": 9, "after": 0, "limit": 5, "by_events": []}, "using ledger_pkey"),
        ("tally_counts", COUNTED | {"step": 60, "by_reasons": True, "any_reasons": None}, "using tally_pkey"),
        ("tally_ranges", COUNTED | {"before_seq": 9}, "using tally_pkey"),
        ("segments_within", WITHIN, "using ledger_kind"),
        ("trim_tally", {"minutes_from": 9, "hours_from": 9, "limit": 5}, "using tally_age"),
        ("upcoming", COUNTED | {"step": 60, "sampled": None}, "using stream_tenant_wake"),
        ("upcoming", COUNTED | {"step": 60, "sampled": True}, "using stream_wake_sample"),
        ("upcoming_streams", COUNTED | {**AFTER, "after_at": 5}, "using stream_tenant_wake"),
        ("upcoming_due", COUNTED | {"due_kind": "thing", "step": 60, "sampled": None}, "using stream_tenant_due"),
        ("upcoming_due", COUNTED | {"due_kind": "thing", "step": 60, "sampled": True}, "using stream_due_sample"),
        ("snoozed_streams", COUNTED | AFTER, "using stream_tenant_snoozed"),
        ("names_like", LIKE | {"kinds": ["thing"]}, "using stream_pkey"),
        ("keys_like", LIKE | {"collections": ["thing"], "now": None, "looked_at": 9}, "using key_pkey"),
        ("tenant_backlog", LIKE | {"now": None, "held": None}, "using stream_tenant_snoozed"),
        ("tenant_backlog", LIKE | {"now": None, "held": None}, "using effect_dead"),
        ("executor_backlog", LIKE | {"executors_max": 50}, "using effect_tenant_call"),
        ("executor_backlog", LIKE | {"executors_max": 50}, "using effect_send"),
        ("alarm_lags", {"tenant": "acme", "since_at": 0, "until_at": 9}, "using alarm_lag_pkey"),
    ],
)
async def test_a_query_uses_its_index(name: str, values: dict[str, Any], index: str) -> None:
    async with opened_stores(server_dsn()) as [store], raw_connection() as connection:
        sql, arguments = prepare_statement(store._schema, name, values)
        await connection.execute(MANY_TENANTS.format(schema=store._schema))
        if name == "upcoming_due":
            await connection.execute(MANY_DUE.format(schema=store._schema))
        await connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        plan = [row[0] for row in await connection.fetch(f"EXPLAIN (COSTS OFF) {sql}", *arguments)]
        assert any(index in step for step in plan), plan
