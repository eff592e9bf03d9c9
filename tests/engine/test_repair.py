"""What cannot be read is named, mended by a segment everybody can see, or set aside; `verify` holds after it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import msgspec
import pytest

from betimes.app import Betimes
from betimes.catalogue import readable_areas
from betimes.core.errors import MalformedRow, NotFound
from betimes.core.instants import LAST
from betimes.core.segments import segment_digest
from betimes.core.streams import StreamId
from betimes.domain.service import Caller
from betimes.engine.pruning import Retention, prune
from betimes.engine.repair import Ailment, examine, mend
from betimes.engine.replay import replay, verify
from betimes.engine.store import NOT_CACHED, Changes, LockRequest, StreamWrite
from betimes.engine.virtual_clock import VirtualClock
from betimes.ledger.service import Ledger
from tests.cli.running_inside import command
from tests.http.damage import FAR, Database, opened

STORES = [pytest.param("sqlite"), pytest.param("postgres", marks=pytest.mark.postgres)]
SCORES = {
    "row": "a row that is no JSON",
    "past": "a segment with events nobody knows",
    "both": "both",
    "newer": "a newer version",
    "index": "a column that lists go by",
    "sound": "nothing",
}


async def damage(bt: Betimes, database: Database) -> None:
    """Scores with two segments each, damaged in every way."""
    for user_id in SCORES:
        await bt.scores.create({"user_id": user_id})
        await bt.scores.interact(user_id, {"type": "text"})
    await database.execute("UPDATE stream SET state = '{' WHERE id IN ('row', 'both')")
    broken = """UPDATE ledger SET events = '[{"type":"FromTomorrow"}]' WHERE id IN ('past', 'both') AND version = 2"""
    await database.execute(broken)
    await database.execute("UPDATE stream SET schema = 999 WHERE id = 'newer'")
    await database.execute("UPDATE stream SET due_at = 1, status = 'x' WHERE id = 'index'")


async def plant_far_instant(bt: Betimes) -> StreamId:
    """Write a stream as it was written before instants were checked: whole, and with one that no calendar has."""
    store, source = bt.engine.store, StreamId("default", "score", "sound")
    far = source._replace(id="far")
    _, [first, *_] = await store.history(source, 0, 10)
    events, reply = re.sub(r"\b1[78]\d{14}\b", str(FAR), first.events), first.reply
    bare = msgspec.structs.replace(first, stream=far, events=events, reply=reply, key=None, turn="t-far", seq=0)
    segment = msgspec.structs.replace(bare, digest=segment_digest(bare))
    kind = bt.engine.kinds.of(far)
    state = None
    for event in kind.events(segment):
        state = kind.decider.fold(state, event)
    index = kind.decider.index(state)
    text = msgspec.json.encode(state, order="deterministic").decode()
    row = StreamWrite(
        far,
        0,
        1,
        segment.schema,
        text,
        segment.at,
        kind.decider.alarm(state),
        segment.digest,
        index.status,
        index.owner,
        index.due_at,
        index.listed_at,
    )
    async with store.begin(LockRequest({far: NOT_CACHED})) as tx:
        await tx.commit(Changes(streams=[row], segments=[segment]))
    return far


async def found_in(bt: Betimes, *, repair: bool) -> dict[str, Ailment]:
    walk = (mend if repair else examine)(bt.engine.store, bt.engine.kinds)
    return {ailment.stream.id: ailment async for ailment in walk}


@pytest.mark.parametrize("store", STORES)
async def test_a_repair_is_named_before_and_seen_in_history_after(store: str, tmp_path: Path) -> None:
    clock = VirtualClock()
    async with opened(store, tmp_path, clock) as (bt, database):
        await damage(bt, database)
        told = {id: one.remedy or "" for id, one in (await found_in(bt, repair=False)).items()}
        assert told.keys() == {"row", "past", "both", "newer", "index"}
        assert ("rebuilt from its history" in told["row"], "rebuilt from its history" in told["index"]) == (True, True)
        assert ("continues from the state" in told["past"], "set aside" in told["both"]) == (True, True)
        assert told["newer"] == ""
        before = {id: await bt.scores.get(id) for id in ("past", "index", "sound")}

        assert (await found_in(bt, repair=True)).keys() == told.keys()
        report = await verify(bt.engine.store, bt.engine.kinds)
        assert {found.stream.id for found in report.findings if found.stream} == {"newer"}
        assert len([note for note in report.notes if "was mended" in note]) == 2
        assert {id: (await bt.scores.get(id)).score for id in before} == {id: one.score for id, one in before.items()}
        assert (await bt.scores.interact("row", {"type": "text"})).user_id == "row"
        assert (await bt.scores.interact("past", {"type": "text"})).user_id == "past"
        with pytest.raises(NotFound):
            await bt.scores.get("both")
        ledger = Ledger(bt.engine, Caller("default"), readable_areas(("admin",), "read"))
        page = await ledger.segments({"kind": "score", "id": "past"}, order="desc")
        shown = [segment.command for segment in page.items if segment.command]
        assert {"type": "Repair", "lost": [2]}.items() <= next(one for one in shown if one["type"] == "Repair").items()
        assert (await found_in(bt, repair=True)).keys() == {"newer"}
        past = StreamId("default", "score", "past")
        assert (await replay(bt.engine.store, bt.engine.kinds, past)).state is not None
        with pytest.raises(MalformedRow):
            await replay(bt.engine.store, bt.engine.kinds, past, version=2)
        clock.advance(86_400)
        pruned = await prune(bt.engine.store, bt.engine.kinds, Retention(history_days=0.1))
        assert (pruned.segments > 0, pruned.findings) == (True, [])
        assert len((await bt.engine.store.history(past, 0, 10))[1]) == 1


@pytest.mark.parametrize("store", STORES)
async def test_an_instant_beyond_the_calendar_is_put_to_its_end(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, VirtualClock()) as (bt, _):
        await bt.scores.create({"user_id": "sound"})
        far = await plant_far_instant(bt)
        assert (await verify(bt.engine.store, bt.engine.kinds)).is_sound
        assert list(await found_in(bt, repair=True)) == ["far"]
        row = (await bt.engine.store.load([far]))[far]
        assert (str(FAR) in (row.state or ""), str(LAST) in (row.state or "")) == (False, True)
        assert (await verify(bt.engine.store, bt.engine.kinds)).is_sound
        assert await found_in(bt, repair=False) == {}


def test_the_command_says_what_is_wrong_mends_it_and_exits_accordingly(tmp_path: Path) -> None:
    async def make() -> None:
        async with opened("sqlite", tmp_path, VirtualClock()) as (bt, database):
            await bt.scores.create({"user_id": "u"})
            await database.execute("UPDATE stream SET state = '{' WHERE id = 'u'")

    asyncio.run(make())
    words = ("doctor", "--db", f"sqlite:///{tmp_path}/betimes.db")
    looked = command(*words, "--json", folder=tmp_path)
    assert (looked.code, looked.json["wrong"], looked.json["mended"]) == (65, 1, 0)
    assert looked.json["rows"][0]["stream"] == "default/score/u"
    assert "rebuilt from its history" in command(*words, folder=tmp_path).out
    mended = command(*words, "--repair", "--json", folder=tmp_path)
    assert (mended.code, mended.json["mended"], mended.json["left"]) == (0, 1, 0)
    assert command(*words, folder=tmp_path).code == 0
    assert command("verify", *words[1:], folder=tmp_path).code == 0
