"""The SQL of the PostgreSQL store: lists and what is due of one tenant are read along an index, in its order."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.core.streams import EffectId, StreamId
from betimes.stores.postgres.statements import prepared
from tests.postgres import opened_stores, raw_connection, server_dsn

pytestmark = pytest.mark.postgres

NO_STREAM = {f"after_{part}": None for part in StreamId._fields}
STREAMS: dict[str, Any] = {
    "tenant": "acme", "kind": "thing", "owner": None, "owned": None, "status": None, "living": True, "limit": 50,
    "after_created_at": 9, "after_tenant": "acme", "after_kind": "thing", "after_id": "m",
}  # fmt: skip
EFFECTS: dict[str, Any] = {
    "tenant": "acme", "version": None, "executor": None, "status": None, "dead": None, "limit": 50,
    **{f"source_{part}": None for part in StreamId._fields}, "after_created_at": 9,
    **{f"after_{part}": value for part, value in EffectId("acme", "thing", "m", 1, 0)._asdict().items()},
}  # fmt: skip
DUE: dict[str, Any] = {"tenant": "acme", "executors": ["handler:a"], "limit": 5, "now": 9, "ran_out": ""}


@pytest.mark.parametrize(
    ("name", "values", "index"),
    [
        ("newest_streams", STREAMS, "Backward using stream_created"),
        ("newest_streams", STREAMS | {"status": "open"}, "Backward using stream_created"),
        ("newest_streams", {**STREAMS, **NO_STREAM, "after_created_at": None}, "Backward using stream_created"),
        ("newest_streams", STREAMS | {"owner": "u-1", "owned": True}, "Backward using stream_owner"),
        ("newest_effects", EFFECTS, "Backward using effect_created"),
        ("newest_effects", EFFECTS | {"status": "dead", "dead": True}, "Backward using effect_dead"),
        ("lease_calls", DUE, "using effect_tenant_call"),
        ("next_alarm", DUE | {"kinds": ["thing"]}, "using effect_tenant_call"),
    ],
)
async def test_a_query_uses_its_index(name: str, values: dict[str, Any], index: str) -> None:
    async with opened_stores(server_dsn()) as [store], raw_connection() as connection:
        sql, arguments = prepared(store._schema, name, values)
        await connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        plan = [row[0] for row in await connection.fetch(f"EXPLAIN (COSTS OFF) {sql}", *arguments)]
        assert any(index in step for step in plan), plan
        if name == "newest_streams":
            assert not [step for step in plan if "Sort" in step], "it is read in the order of its index"
