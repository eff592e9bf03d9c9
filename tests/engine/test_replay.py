"""Verify, replay, explain, prune: the ledger is the truth, and it says when it is not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from betimes.core.errors import Invalid, NotFound
from betimes.core.streams import StreamId
from betimes.engine.explanation import explain
from betimes.engine.pruning import PART_MAX, Retention, prune
from betimes.engine.replay import replay, verify
from betimes.stores.memory import MemoryStore
from betimes.testing.sample import Knock, Shut
from tests.engine.worlds import GATE, World, world
from tests.stores.backends import BACKENDS, Backend


async def busy(w: World, visitors: int = 30) -> None:
    for n in range(visitors):
        await w.knock(f"v{n}", StreamId("acme", "gate", f"g{n % 3}"), key=f"k{n}")
        w.clock.advance(40)
    await w.engine.tick()


async def check(w: World) -> list[str]:
    report = await verify(w.store, w.engine.kinds)
    assert report.streams > 1
    return [str(finding) for finding in report.findings]


async def test_replaying_the_ledger_gives_every_state_byte_for_byte(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"tenant_per_hour": 20, "tally": True}) as w:
        await busy(w)
        assert await check(w) == []


async def test_a_stream_can_be_replayed_to_any_version_or_instant(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        start = w.clock()
        await w.knock("ann")
        await w.knock("bob")
        w.clock.advance(60)
        await w.engine.tick()
        assert (await replay(w.store, w.engine.kinds, GATE, version=1)).state.admitted_count == 1
        assert len((await replay(w.store, w.engine.kinds, GATE, until_at=start + 1)).state.waiting) == 1
        assert (await replay(w.store, w.engine.kinds, GATE)).state == await w.state()
        with pytest.raises(NotFound):
            await replay(w.store, w.engine.kinds, GATE, until_at=start)


async def test_a_verdict_is_explained_rule_by_rule(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"tenant_per_hour": 9}) as w:
        await w.knock("ann")
        w.clock.advance(20)
        await w.knock("bob")
        why = await explain(w.store, w.engine.kinds, GATE, 2)
        assert why.summary == (
            "LATER because of COOLDOWN, until 2026-01-05T09:01:00Z, at 2026-01-05T09:00:20Z. "
            "20 seconds of a cooldown of 1 minute have passed."
        )
        assert [(step.rule, step.matched) for step in why.steps] == [("shut", False), ("cooldown", True)]
        assert why.policy
        assert why.policy["gates"]["tenant_per_hour"] == 9
        first = await explain(w.store, w.engine.kinds, GATE, 1)
        assert [one.handle for one in first.same_turn] == ["quota:all:1"]
        with pytest.raises(NotFound, match="gate:front:9"):
            await explain(w.store, w.engine.kinds, GATE, 9)


@pytest.mark.parametrize("part", [PART_MAX, 3])
async def test_pruned_history_is_one_checkpoint_and_still_verifies(
    part: int, backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("betimes.engine.pruning.PART_MAX", part)
    async with world(backend, tmp_path, policy={"tally": True}) as w:
        await busy(w)
        w.clock.advance(30 * 86_400)
        await w.knock("later", StreamId("acme", "gate", "g0"))
        states = {id: await w.state(StreamId("acme", "gate", id)) for id in ("g0", "g1")}
        report = await prune(w.store, w.engine.kinds, Retention(history_days=1))
        assert report.findings == []
        assert report.segments > 30
        assert report.streams == 4
        assert report.forgotten >= 30, "keys that had expired"
        assert await check(w) == []
        _, history = await w.store.history(StreamId("acme", "gate", "g0"), 0, 100)
        assert len(history) == 2
        assert (history[0].command or "").startswith('{"type":"Checkpoint"')
        for id, state in states.items():
            assert (await replay(w.store, w.engine.kinds, StreamId("acme", "gate", id))).state == state
        again = await prune(w.store, w.engine.kinds, Retention(history_days=1))
        assert (again.segments, again.streams) == (0, 0)
        await w.knock("after", StreamId("acme", "gate", "g1"))
        assert await check(w) == []


async def test_a_segment_a_live_key_answers_from_is_not_pruned(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await w.knock("ann")
        await w.knock("bob", key="k")
        w.clock.advance(3 * 86_400)
        report = await prune(w.store, w.engine.kinds, Retention(history_days=1))
        assert (await w.knock("bob", key="k")).replayed
        assert report.findings == []
        assert await check(w) == []


async def test_retention_cannot_be_negative(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        with pytest.raises(Invalid, match="negative"):
            await prune(w.store, w.engine.kinds, Retention(history_days=-1))


CORRUPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "events": ("gate:g1 at version 2", {"events": '[{"type":"Admitted","visitor":"eve","at":1}]'}),
    "command": ("its digest does not match", {"command": '{"type":"Knock","visitor":"eve"}'}),
    "verdict": ("its digest does not match", {"verdict": '{"answer":"NOW","reasons":["WELCOME"]}'}),
    "reply": ("its digest does not match", {"reply": "1"}),
    "actor": ("its digest does not match", {"actor": "eve"}),
    "at": ("its digest does not match", {"at": 1}),
    "prev": ("its link to the segment before it is broken", {"prev": "0" * 64}),
    "digest": ("its link to the segment before it is broken", {"digest": "0" * 64}),
    "stream": ("it is of evil/gate/g1, not of this stream", {"stream": StreamId("evil", "gate", "g1")}),
    "unreadable": ("it cannot be read", {"events": "{"}),
}


@pytest.mark.parametrize("column", CORRUPTIONS)
async def test_a_corrupted_segment_is_named(column: str, tmp_path: Path) -> None:
    async with world(BACKENDS[0], tmp_path) as w:
        await busy(w)
        assert isinstance(w.store, MemoryStore)
        _, change = CORRUPTIONS[column]
        history = w.store.database.histories[StreamId("acme", "gate", "g1")]
        history[1] = replace(history[1], **change)
        findings = await check(w)
        assert findings
        assert all(finding.startswith("acme/gate/g1 at version") for finding in findings)
        assert any(" at version 2: " in finding or " at version 3: " in finding for finding in findings)
        if column != "events":
            assert any(CORRUPTIONS[column][0] in finding for finding in findings)


@pytest.mark.parametrize("column", ["state", "alarm_at", "status", "owner", "due_at", "digest", "at"])
async def test_a_corrupted_row_is_named(column: str, tmp_path: Path) -> None:
    async with world(BACKENDS[0], tmp_path) as w:
        await w.knock("ann")
        await w.knock("bob")
        await w.knock("ann", StreamId("acme", "gate", "back"))
        await w.submit(Shut(), StreamId("acme", "gate", "back"))
        assert isinstance(w.store, MemoryStore)
        row = w.store.database.rows[GATE]
        wrong: Any = {"state": '{"shut":true}', "status": "x", "owner": "x", "digest": "x"}.get(column, 1)
        w.store.database.rows[GATE] = replace(row, **{column: wrong})
        report = await verify(w.store, w.engine.kinds)
        assert [str(finding) for finding in report.findings] == [
            f"acme/gate/front at version 2: the row's {column} differs from what its history gives"
        ]


async def test_missing_segments_are_named(tmp_path: Path) -> None:
    async with world(BACKENDS[0], tmp_path) as w:
        await busy(w)
        assert isinstance(w.store, MemoryStore)
        del w.store.database.histories[StreamId("acme", "gate", "g1")][1]
        findings = await check(w)
        assert "acme/gate/g1 at version 3: it follows version 1; segments are missing" in findings


async def test_streams_are_verified_while_they_are_written_to(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 0, "per_hour": 100_000}) as w:
        writing = asyncio.gather(*(w.submit(Knock(f"v{n}"), StreamId("acme", "gate", f"g{n % 5}")) for n in range(500)))
        while not writing.done():
            await asyncio.sleep(0)
            report = await verify(w.store, w.engine.kinds)
            assert report.findings == []
        await writing
