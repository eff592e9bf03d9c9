"""`verify` finds what is missing, changed or damaged in the database as a whole, and always ends with a report."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from betimes.app import Betimes
from betimes.catalogue import DECIDERS
from betimes.core.errors import BetimesError
from betimes.core.segments import Head
from betimes.engine.audit import Audits, parse_head
from betimes.engine.codecs import Kinds
from betimes.engine.pruning import Retention, prune
from betimes.engine.replay import VerifyReport, verify
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.sqlite import SqliteStore
from betimes.stores.sqlite.migrations import known_migrations
from tests.http.damage import Database, opened

STORES = [pytest.param("sqlite"), pytest.param("postgres", marks=pytest.mark.postgres)]
KINDS = Kinds(DECIDERS)
DAY_S = 86_400
FLIPS = 40


async def fill(bt: Betimes, count: int = 20) -> None:
    """Triggers of many accounts, a schedule whose call waits, a score."""
    for number in range(count):
        await bt.runs.trigger(
            {"account_id": f"a{number:03}", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": f"k-{number:03}"}
        )
    await bt.schedules.create({"schedule_id": "hourly", "cron": "0 * * * *", "target": {"kind": "sweep"}})
    await bt.schedules.trigger("hourly")
    await bt.scores.create({"user_id": "u"})


async def verified(bt: Betimes, expected: Head | None = None) -> VerifyReport:
    return await verify(bt.engine.store, bt.engine.kinds, key_retention_s=7 * DAY_S, expected=expected)


async def remove_since(database: Database, seq: int) -> None:
    """Take out everything that was written after a place in the ledger, as a copy that ends there would."""
    kept = f"(tenant, kind, id) IN (SELECT tenant, kind, id FROM ledger WHERE seq <= {seq})"
    await database.execute(f"DELETE FROM stream WHERE NOT {kept}")
    await database.execute(f"DELETE FROM effect WHERE NOT {kept}")
    await database.execute(f"DELETE FROM key WHERE key IN (SELECT key FROM ledger WHERE seq > {seq})")
    await database.execute(f"DELETE FROM ledger WHERE seq > {seq}")


@pytest.mark.parametrize("store", STORES)
async def test_a_copy_that_lacks_the_last_triggers_is_cut_off(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, VirtualClock()) as (bt, database):
        await fill(bt)
        sound = await verified(bt)
        assert (sound.findings, sound.notes) == ([], [])
        [[seq]] = await database.rows("SELECT min(seq) - 1 FROM ledger WHERE id = 'a012'")
        await remove_since(database, seq)
        told = [str(found) for found in (await verified(bt)).findings]
        assert any("cut off at segment" in line and "are missing" in line for line in told), told


@pytest.mark.parametrize("store", STORES)
async def test_a_whole_earlier_database_is_told_from_a_head_noted_elsewhere(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, VirtualClock()) as (bt, _):
        await fill(bt, 2)
        earlier = (await verified(bt)).head
        assert earlier is not None
        assert parse_head(str(earlier))[:2] == earlier[:2]
        assert (await verified(bt, earlier)).is_sound
        await bt.scores.create({"user_id": "later"})
        assert (await verified(bt, earlier)).is_sound
        later = Head(earlier.segments + 776, 1)
        [found] = (await verified(bt, later)).findings
        assert "775 are missing" in str(found)


KEPT = ("policy", "key", "effect", "head")
"""The head last: PostgreSQL counts every effect that is put back."""
DAMAGES = {
    "a policy that was changed": ("UPDATE policy SET body = '{}'", "does not match its fingerprint"),
    "a policy that was removed": ("DELETE FROM policy", "segments name it"),
    "a key that was removed": ("DELETE FROM key WHERE key = 'k-001'", "idempotency key is missing"),
    "a key that leads elsewhere": ("UPDATE key SET version = 77 WHERE key = 'k-001'", "no segment has this"),
    "an effect that was removed": ("DELETE FROM effect WHERE kind = 'schedule'", "effects were recorded"),
    "an effect of no segment": ("UPDATE effect SET version = 99 WHERE kind = 'schedule'", "its segment is missing"),
    "an effect that stands wrong": ("UPDATE effect SET status = 'done' WHERE kind = 'schedule'", "contradict"),
    "a schema": ("UPDATE stream SET schema = 0 WHERE kind = 'score'", "the row's schema"),
    "an instant of creation": ("UPDATE stream SET created_at = 1 WHERE kind = 'score'", "the row's created_at"),
}


@pytest.mark.parametrize("store", STORES)
async def test_changed_keys_effects_policies_and_columns_are_found(store: str, tmp_path: Path) -> None:
    clock = VirtualClock()
    async with opened(store, tmp_path, clock) as (bt, database):
        await fill(bt, 3)
        for table in KEPT:
            await database.execute(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
        for what, (statement, told) in DAMAGES.items():
            if store == "postgres" and what == "an effect that was removed":
                continue  # the database counts every removal; a copy that lacks one is found
            await database.execute(statement)
            findings = [str(found) for found in (await verified(bt)).findings]
            assert any(told in line for line in findings), (what, findings)
            for table in KEPT:
                await database.execute(f"DELETE FROM {table}")
                await database.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")
            await database.execute("UPDATE stream SET schema = 1, created_at = at WHERE kind = 'score'")
        assert (await verified(bt)).findings == []
        for table in KEPT:
            await database.execute(f"DROP TABLE kept_{table}")


@pytest.mark.parametrize("store", STORES)
async def test_pruning_and_forgetting_leave_the_head_right(store: str, tmp_path: Path) -> None:
    clock = VirtualClock()
    async with opened(store, tmp_path, clock) as (bt, _):
        await fill(bt, 3)
        for _ in range(3):
            clock.advance(3 * DAY_S)
            await bt.tick()
        pruned = await prune(bt.engine.store, bt.engine.kinds, Retention(history_days=1, effects_days=1))
        assert pruned.segments > 0
        assert pruned.forgotten > 0
        assert (await verified(bt)).findings == []


async def test_a_database_from_before_heads_is_verified_and_says_so(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with opened("sqlite", tmp_path, clock) as (bt, database):
        await fill(bt, 3)
        await database.execute("DROP TABLE head")
        [migration] = [known for known in known_migrations() if known.name.endswith("_head")]
        await database.execute(migration.text)
        await bt.scores.create({"user_id": "later"})
        report = await verified(bt)
        assert report.is_sound
        assert [note for note in report.notes if "no head was recorded before segment" in note]


async def test_flipped_bytes_end_in_a_report_or_a_typed_error(tmp_path: Path) -> None:
    async with opened("sqlite", tmp_path, VirtualClock()) as (bt, _):
        await fill(bt, 10)
    whole = (tmp_path / "betimes.db").read_bytes()
    random, found = Random(20260105), 0
    for number in range(FLIPS):
        data = bytearray(whole)
        for _ in range(1 + number % 8):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        copy = tmp_path / f"copy{number}.db"
        copy.write_bytes(data)
        store = SqliteStore(copy, clock=VirtualClock("2026-01-06T00:00:00Z"))
        assert isinstance(store, Audits)
        try:
            await store.open()
            found += not (await verify(store, KINDS)).is_sound
        except BetimesError:
            found += 1
        finally:
            await store.close()
        copy.unlink()
    assert found > FLIPS // 4
    shutil.rmtree(tmp_path)
