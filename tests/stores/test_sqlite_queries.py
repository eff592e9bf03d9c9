"""The SQL of the SQLite store: rows bound whole in any number, and indexes where there may be millions of rows."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from betimes.core.streams import KeyId
from betimes.engine.store import LedgerQuery, LockRequest
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.sqlite import SqliteStore
from betimes.stores.sqlite.migrations import known_migrations
from betimes.stores.sqlite.queries import ALIKE_ROWS_MAX, ROWS_MAX, chunks, query, query_for
from betimes.testing.conformance.pairs import commit
from betimes.testing.conformance.samples import keyed, moved, stream, together

STATEMENT_BYTES_MAX = 16_384
"""apsw keeps no longer ones prepared."""


@pytest.fixture
def empty() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    for migration in known_migrations():
        connection.execute(migration.text)
    return connection


@pytest.mark.parametrize("count", [0, 1, 3, 255, 256, 257, 1000])
def test_rows_are_cut_into_powers_of_two_that_cover_them(count: int) -> None:
    cut = list(chunks(count))
    assert [number for start, size in cut for number in range(start, start + size)] == list(range(count))
    assert all(size & (size - 1) == 0 and size <= ROWS_MAX for _, size in cut)


@pytest.mark.parametrize("count", [1, 255, 257, 700])
async def test_a_batch_of_any_size_is_written_and_read_back_in_order(tmp_path: Path, count: int) -> None:
    store = SqliteStore(tmp_path / "betimes.db", clock=VirtualClock())
    await store.open()
    now = await store.now()
    streams = [stream(f"s{number:04}") for number in range(count)]
    keys = [KeyId("acme", "triggers", f"k{number}") for number in range(count)]
    await commit(store, together(*(keyed(key, of, 1, now) for key, of in zip(keys, streams, strict=True))))
    async with store.begin(LockRequest(locks=dict.fromkeys(streams, 1), keys=keys)) as tx:
        assert tx.unchanged == set(streams)
        assert [tx.seen[key].segment.stream for key in keys] == streams
    listed = await store.ledger(LedgerQuery(limit=1_000))
    assert [segment.stream for segment in listed] == streams
    await store.close()


def test_statements_for_many_rows_stay_prepared() -> None:
    many = [
        "find_streams",
        "insert_streams",
        "update_streams",
        "append_segments",
        "seen_keys",
        "use_keys",
        "insert_effects",
        "settle_effects",
    ]
    sizes = {name: len(query_for(name, ROWS_MAX)) for name in many}
    sizes |= {name: len(query_for(name, ALIKE_ROWS_MAX)) for name in ("reschedule_streams", "append_alike_segments")}
    assert {name: size for name, size in sizes.items() if size > STATEMENT_BYTES_MAX} == {}


def test_optional_lines_are_left_out_unless_their_parameter_is_given() -> None:
    assert ":tenant" not in query("ledger", frozenset({"by_seq"}))
    assert "+tenant = :tenant" in query("ledger", frozenset({"by_seq", "tenant"}))


MANY_ALARMS = """
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
    INSERT INTO stream (tenant, kind, id, version, schema, owner, status, created_at, at, alarm_at, digest, state)
    SELECT 'acme', 'thing', 's-' || i, 1, 1, '', '', 1, 1, 1000 + i / 5, '', '{}' FROM n
"""


def test_statistics_of_one_large_tenant_do_not_lead_past_all_tenants(empty: apsw.Connection) -> None:
    """After an ANALYZE SQLite skipped over tenants, read every alarm to come and sorted them for one page."""
    empty.execute(MANY_ALARMS)
    empty.execute("ANALYZE")
    asked = {"tenant": "acme", "since_at": 1200, "until_at": 2**61, "limit": 200}
    after = {"at_after": 1200, "kind_after": "thing", "id_after": "s"}
    text = query("upcoming_streams", frozenset({"id_after"}))
    told = " ".join(row[3] for row in empty.execute(f"EXPLAIN QUERY PLAN {text}", asked | after))
    assert "stream_tenant_alarm (tenant=? AND wake_at>? AND wake_at<?)" in told
    assert "TEMP B-TREE" not in told


PAGE = {"existing", "tenant", "kind", "id_after", "same_tenant", "same_kind"}
OF_ONE = PAGE | {"owner"}
NEWER = {"tenant", "id_after", "same_tenant"}


def plan_of(empty: apsw.Connection, name: str, given: set[str]) -> list[str]:
    text = query(name, frozenset(given))
    names = re.findall(r":(\w+)", text)
    bindings = dict.fromkeys(names) if names else [None] * text.count("?")
    return [row[3] for row in empty.execute(f"EXPLAIN QUERY PLAN {text}", bindings)]


@pytest.mark.parametrize(
    ("name", "given", "index"),
    [
        ("find_streams", (), "stream_1 (tenant=? AND kind=? AND id=?)"),
        ("update_streams", (), "INTEGER PRIMARY KEY (rowid=?)"),
        ("due_alarms", (), "stream_alarm (kind=? AND wake_at<?)"),
        ("alarms_in_shares", (), "stream_tenant_alarm (tenant=? AND wake_at<?)"),
        ("due_in_shares", (), "stream_tenant_due (tenant=? AND kind=? AND due_at<?)"),
        ("calls_in_shares", (), "effect_tenant_open (tenant=? AND executor=? AND next_attempt_at<?)"),
        ("tenants_with_alarms", (), "stream_tenant_alarm (tenant>?)"),
        ("tenants_with_alarms", (), "stream_tenant_alarm (tenant=? AND wake_at<?)"),
        ("tenants_with_due", (), "stream_tenant_due (tenant>?)"),
        ("tenants_with_due", (), "stream_tenant_due (tenant=? AND kind=? AND due_at<?)"),
        ("tenants_with_calls", (), "effect_tenant_open (tenant>?)"),
        ("tenants_with_calls", (), "effect_tenant_open (tenant=? AND executor=? AND next_attempt_at<?)"),
        ("alarms_in_shares", ("held",), "stream_tenant_alarm (tenant=? AND wake_at<?)"),
        ("due_in_shares", ("held",), "stream_tenant_due (tenant=? AND kind=? AND due_at<?)"),
        ("calls_in_shares", ("held",), "effect_tenant_open (tenant=? AND executor=? AND next_attempt_at<?)"),
        ("tenants_with_alarms", ("held",), "stream_tenant_alarm (tenant=? AND wake_at<?)"),
        ("tenants_with_due", ("held",), "stream_tenant_due (tenant=? AND kind=? AND due_at<?)"),
        ("tenants_with_calls", ("held",), "effect_tenant_open (tenant=? AND executor=? AND next_attempt_at<?)"),
        ("next_due", ("held",), "stream_alarm (kind=? AND wake_at>?)"),
        ("due_streams", (), "stream_due (kind=? AND due_at<?)"),
        ("due_streams", ("tenant",), "stream_tenant_due (tenant=? AND kind=? AND due_at<?)"),
        ("next_due", (), "stream_alarm (kind=? AND wake_at>?)"),
        ("next_due", (), "effect_open (executor=? AND next_attempt_at>?)"),
        ("next_due", ("tenant",), "stream_alarm (kind=? AND wake_at>?)"),
        ("next_due", ("tenant",), "stream_tenant_due (tenant=? AND kind=? AND due_at>?)"),
        ("next_due", ("tenant",), "effect_tenant_open (tenant=? AND executor=? AND next_attempt_at>?)"),
        ("due_calls", (), "effect_open (executor=? AND next_attempt_at<?)"),
        ("first_sends", (), "effect_send (tenant=? AND kind=? AND id=?)"),
        ("waiting_sends", ("all",), "effect_send_age (created_at<?)"),
        ("waiting_sends", ("all", "kinds", "id_after"), "effect_send_age ((created_at,tenant,kind,id,version,place)>("),
        ("waiting_sends", ("tenant",), "effect_send (tenant=?)"),
        ("seen_keys", (), "key_1 (tenant=? AND collection=? AND key=?)"),
        ("settle_effects", (), "effect_1 (tenant=? AND kind=? AND id=? AND version=? AND place=?)"),
        ("forget_keys", (), "key_expiry (expires_at<?)"),
        ("forget_effects", (), "effect_ended (status=? AND finished_at>? AND finished_at<?)"),
        ("streams_by_name", PAGE, "stream_1 (tenant=? AND kind=? AND id>?)"),
        ("streams_by_name", PAGE | {"no_owner", "status"}, "stream_1 (tenant=? AND kind=? AND id>?)"),
        ("streams_of_owner", PAGE | {"status"}, "stream_owner (tenant=? AND kind=? AND owner=?)"),
        ("streams_newest", {"existing", "tenant", "kind"}, "stream_created (tenant=? AND kind=?)"),
        ("streams_newest_among", PAGE, "stream_status (tenant=? AND kind=? AND status=? AND (created_at,id)<(?,?))"),
        ("streams_newest", OF_ONE, "stream_owner (tenant=? AND kind=? AND owner=? AND (created_at,id)<(?,?))"),
        ("streams_newest", OF_ONE | {"status"}, "stream_owner (tenant=? AND kind=? AND owner=? AND (created_at,id)<"),
        ("streams_by_due", PAGE, "stream_tenant_due (tenant=? AND kind=? AND due_at>? AND due_at<?)"),
        (
            "streams_by_due_among",
            PAGE,
            "stream_tenant_work (tenant=? AND kind=? AND status=? AND due_at>? AND due_at<?)",
        ),
        (
            "streams_by_due_among",
            {"id_after", "any_tenant"},
            "stream_work (kind=? AND status=? AND due_at>? AND due_at<?)",
        ),
        (
            "streams_by_listed",
            OF_ONE | {"by_owner_listed"},
            "stream_owner_listed (tenant=? AND kind=? AND owner=? AND listed_at>?",
        ),
        (
            "ledger_of_tenant",
            ("forwards", "kind", "by_seq"),
            "ledger_kind (tenant=? AND kind=? AND rowid>? AND rowid<?)",
        ),
        ("ledger_of_tenant", ("forwards", "any_kind", "since_at", "by_seq"), "ledger_kind (tenant=? AND kind>?)"),
        (
            "ledger_of_tenant",
            ("backwards", "kind", "until_at", "by_seq_back"),
            "ledger_kind (tenant=? AND kind=? AND rowid",
        ),
        ("ledger_span", ("forwards", "since_at"), "SEARCH b USING INTEGER PRIMARY KEY (rowid>?)"),
        ("ledger_span", ("backwards", "until_at"), "SEARCH g USING INTEGER PRIMARY KEY (rowid<?)"),
        ("history", (), "ledger_1 (stream_n=? AND version>?)"),
        ("ledger", ("forwards", "tenant", "by_seq"), "INTEGER PRIMARY KEY (rowid>?)"),
        ("ledger", ("forwards", "one_stream", "by_version"), "ledger_1 (stream_n=? AND version>?)"),
        (
            "ledger",
            ("backwards", "one_stream", "by_version_back"),
            "ledger_1 (stream_n=? AND version<?)",
        ),
        (
            "ledger",
            ("forwards", "correlation", "correlation_of_tenant", "by_seq"),
            "correlation=? AND tenant=? AND rowid>?)",
        ),
        (
            "ledger",
            ("forwards", "tenant", "key", "key_of_tenant", "by_seq"),
            "ledger_key (key=? AND tenant=? AND rowid>?)",
        ),
        (
            "ledger",
            ("backwards", "tenant", "key", "key_of_tenant", "since_at", "by_seq_back"),
            "ledger_key (key=? AND tenant=? AND rowid<?",
        ),
        (
            "ledger_between",
            ("forwards", "since_at", "by_seq"),
            "SEARCH l USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        ),
        ("streams_by_name", PAGE | {"prefix"}, "stream_1 (tenant=? AND kind=? AND id>? AND id<?)"),
        ("tally_source", (), "INTEGER PRIMARY KEY (rowid>?)"),
        (
            "tally_counts",
            ("by_reasons", "kinds", "outcomes", "reason"),
            "PRIMARY KEY (level=? AND tenant=? AND at>? AND at<?)",
        ),
        ("tally_ranges", ("reason",), "PRIMARY KEY (level=? AND tenant=? AND at>? AND at<?)"),
        ("segments_within", (), "ledger_kind (tenant=? AND kind=? AND rowid>? AND rowid<?)"),
        ("trim_tally", (), "tally_age (level=? AND at<?)"),
        ("upcoming", ("exact",), "stream_tenant_alarm (tenant=? AND wake_at>? AND wake_at<?)"),
        ("upcoming", ("sampled",), "stream_alarm_sample (tenant=? AND wake_at>? AND wake_at<?)"),
        ("upcoming_due", ("exact",), "stream_tenant_due (tenant=? AND kind=? AND due_at>? AND due_at<?)"),
        ("upcoming_due", ("sampled",), "stream_due_sample (tenant=? AND kind=? AND due_at>? AND due_at<?)"),
        ("upcoming_streams", ("id_after",), "stream_tenant_alarm (tenant=? AND wake_at>? AND wake_at<?)"),
        ("snoozed_streams", ("id_after",), "stream_tenant_snoozed (tenant=? AND (kind,id)>(?,?))"),
        ("names_like", (), "stream_1 (tenant=? AND kind=? AND id>? AND id<?)"),
        ("keys_like", (), "key_1 (tenant=? AND collection=? AND key>? AND key<?)"),
        ("tenant_backlog", (), "stream_tenant_alarm (tenant=? AND wake_at<?)"),
        ("tenant_backlog", (), "stream_tenant_snoozed (tenant=?)"),
        ("tenant_backlog", (), "effect_tenant_open (tenant=?)"),
        ("tenant_backlog", (), "effect_send (tenant=?)"),
        ("tenant_backlog", (), "effect_dead (tenant=?)"),
        ("executor_backlog", (), "effect_tenant_open (tenant=? AND executor>?)"),
        ("executor_backlog", (), "effect_tenant_open (tenant=? AND executor=?)"),
        ("executor_backlog", (), "effect_send (tenant=?)"),
        ("alarm_lags", (), "PRIMARY KEY (tenant=? AND at>? AND at<?)"),
        ("forget_alarm_lags", (), "alarm_lag_age (at<?)"),
        ("forget_processes", (), "process_seen (seen_at<?)"),
        ("effects", ("tenant", "id_after", "same_tenant"), "(tenant=? AND (kind,id,version,place)>(?,?,?,?))"),
        ("effects_newest", {"tenant", "any_source"}, "effect_created (tenant=?)"),
        ("effects_newest", NEWER | {"any_source", "executor"}, "effect_created (tenant=? AND (created_at,kind,id,"),
        ("effects_newest", NEWER | {"dead", "status"}, "effect_dead (tenant=? AND (created_at,kind,id,version,place)<"),
        ("effects_newest", {"id_source"}, "effect_1 (tenant=? AND kind=? AND id=?)"),
        ("effects_newest", NEWER | {"id_source", "same_source"}, "AND id=? AND (version,place)<(?,?))"),
    ],
)
def test_a_query_uses_its_index(empty: apsw.Connection, name: str, given: set[str], index: str) -> None:
    plan = plan_of(empty, name, given)
    assert any(index in step for step in plan), plan
    assert not [step for step in plan if "LAST" in step], "rows due at one instant are sorted"
    assert not [step for step in plan if re.match(r"SCAN (stream|ledger|key|effect)\b", step)], plan


@pytest.mark.parametrize("asked", [{"since_at"}, {"until_at", "tenant"}, {"since_at", "until_at", "kind", "turn"}])
@pytest.mark.parametrize("way", [{"forwards", "by_seq"}, {"backwards", "by_seq_back"}])
def test_instants_are_looked_for_block_by_block_in_commit_order(
    empty: apsw.Connection, asked: set[str], way: set[str]
) -> None:
    plan = plan_of(empty, "ledger_between", asked | way)
    blocks, segments, *rest = [step for step in plan if step.split()[0] in ("SEARCH", "SCAN") or "TEMP" in step]
    assert blocks.startswith(("SEARCH b USING INTEGER PRIMARY KEY", "SCAN b"))
    assert segments == "SEARCH l USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"
    assert not [step for step in rest if step != "SCAN l"], "it is read in the order of its numbers"


def test_a_list_of_the_newest_is_read_in_the_order_of_its_index(empty: apsw.Connection) -> None:
    for given in (PAGE, OF_ONE, OF_ONE | {"status"}):
        assert not [step for step in plan_of(empty, "streams_newest", given) if "TEMP B-TREE" in step]


def take_back(path: Path) -> None:
    """Make of a database one that has the first tables only, with what they had of its rows."""
    newer = path.rename(path.with_suffix(".newer"))
    shell = apsw.Connection(str(path))
    shell.execute(query("create_migrations"))
    shell.execute(known_migrations()[0].text)
    shell.execute("ATTACH ? AS newer", (str(newer),))
    for table in ("stream", "ledger", "key", "effect", "policy", "migration"):
        columns = ", ".join(row[1] for row in shell.execute(f"PRAGMA main.table_info({table})"))
        now_called = columns.replace("lease_s", "leased_for_s")
        shell.execute(f"INSERT INTO main.{table} ({columns}) SELECT {now_called} FROM newer.{table}")
    shell.execute("UPDATE sqlite_sequence SET seq = n.seq FROM newer.sqlite_sequence AS n WHERE n.name = 'ledger'")
    shell.execute("DELETE FROM migration WHERE number > 1")
    shell.close()


@pytest.mark.parametrize("count", [0, 10, 1_024, 2_500])
async def test_a_ledger_written_before_there_were_blocks_is_searched_too(tmp_path: Path, count: int) -> None:
    store = SqliteStore(tmp_path / "betimes.db", clock=VirtualClock())
    await store.open()
    now = await store.now()
    keys = [KeyId("acme", "triggers", f"k{number}") for number in range(count)]
    written = [keyed(key, stream(f"s{number}"), 1, now + number) for number, key in enumerate(keys)]
    for start in range(0, count, 500):
        await commit(store, together(*written[start : start + 500]))
    await store.close()
    take_back(tmp_path / "betimes.db")
    await store.open()
    await commit(store, keyed(KeyId("acme", "triggers", "later"), stream("later"), 1, now + count))
    for since in {0, count // 2, count}:
        found = await store.ledger(LedgerQuery(since_at=now + since, backwards=True, limit=1_000))
        assert [segment.at - now for segment in found] == list(range(count, since - 1, -1))[:1_000]
    for name in ("later", *(f"k{number}" for number in range(0, count, 499))):
        assert len(await store.ledger(LedgerQuery(tenant="acme", key=name))) == 1
    await store.close()


async def test_history_written_before_it_was_found_by_row_is_found_and_lost_streams_keep_theirs(tmp_path: Path) -> None:
    path = tmp_path / "betimes.db"
    store = SqliteStore(path, clock=VirtualClock())
    await store.open()
    now = await store.now()
    whole, lost, gone = stream("whole"), stream("lost"), stream("gone")
    for version in (1, 2):
        await commit(store, together(*(moved(of, version, now) for of in (lost, whole))))
    await commit(store, moved(gone, 1, now))
    await store.close()
    take_back(path)
    shell = apsw.Connection(str(path))
    shell.execute("DELETE FROM stream WHERE id IN ('lost', 'gone'); DELETE FROM ledger WHERE id = 'gone'")
    shell.close()
    await store.open()
    _, history = await store.history(whole, 0, 10)
    assert [(segment.seq, segment.version) for segment in history] == [(2, 1), (4, 2)]
    assert [segment.seq for segment in await store.ledger(LedgerQuery())] == [1, 2, 3, 4]
    await commit(store, moved(stream("new"), 1, now))
    assert [segment.seq for segment in await store.ledger(LedgerQuery(after=4))] == [6], "5 was given before"
    await store.close()
