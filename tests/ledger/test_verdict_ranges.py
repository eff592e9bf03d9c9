"""The ranges that a list of verdicts is read by: all that was counted, the last first, whatever the clock did."""

from __future__ import annotations

from random import Random

import pytest

from betimes.core.instants import DAY, HOUR, MINUTE
from betimes.engine.read_model import LEVELS, KindRange, TallyEntry, TallyQuery
from betimes.engine.virtual_clock import VirtualClock
from betimes.ledger import verdict_ranges
from betimes.ledger.verdict_ranges import SEQ_MAX, VerdictRanges
from betimes.stores.memory import MemoryStore

START = 20_000 * DAY
KINDS = ("account", "inbox")


async def _count(store: MemoryStore, counted: list[tuple[int, int, str, str]]) -> None:
    await store.take_tally("a", 1_000.0)
    for seq, at, kind, reason in counted:
        entries = [
            TallyEntry(level, "acme", at // level * level, kind, "LATER", reason, 1, seq, seq) for level in LEVELS
        ]
        await store.add_tally("a", 1_000.0, entries, after=(await store.tally_position()).seq, upto=seq, at=at)


async def _walk(store: MemoryStore, query: TallyQuery, wanted: int) -> list[list[KindRange]]:
    """Return all ranges as they are taken together; after every second time a new page goes on from there."""
    before, pages, taken = (await store.tally_position()).seq + 1, list[list[KindRange]](), list[KindRange]()
    while before > 1:
        ranges = VerdictRanges(store, query, await store.tally_position(), before)
        await ranges.load()
        for _ in range(2):
            if taken := await ranges.take(wanted):
                assert all(ranges.next_last < one.first <= one.last < before for one in taken)
                pages.append(taken)
                before = ranges.next_last + 1
        if not taken:
            assert ranges.next_last == 0
            break
    return pages


@pytest.mark.parametrize("seed", range(20))
async def test_every_counted_position_is_taken_once_and_the_last_first(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_ranges, "SHORT", 2)
    monkeypatch.setattr(verdict_ranges, "TAKEN_MAX", 3)
    monkeypatch.setattr(verdict_ranges, "OPENED_MAX", 5)
    random, store = Random(seed), MemoryStore(VirtualClock(START))
    await store.open()
    at, counted = START, []
    for seq in range(1, 300):
        at += random.choice((0, 0, 20 * MINUTE // 60, MINUTE, 2 * HOUR, -3 * MINUTE, -HOUR if seed % 2 else 0))
        counted.append((seq, at, random.choice(KINDS), "RARE" if random.random() < 0.1 else "OFTEN"))
    await _count(store, counted)
    for reason in ("RARE", "OFTEN", None):
        query = TallyQuery("acme", 0, 0, 2**61, KINDS, reason=reason)
        pages = await _walk(store, query, wanted=4)
        spans = [(one.first, one.last, one.kind) for page in pages for one in page]
        expected = [(seq, kind) for seq, _, kind, given in counted if reason in (None, given)]
        for seq, kind in expected:
            holding = [number for number, page in enumerate(pages) for one in page if _holds(one, seq, kind)]
            assert len(set(holding)) == 1, (reason, seq, spans)
        assert [min(one.first for one in page) for page in pages] == sorted(
            (min(one.first for one in page) for page in pages), reverse=True
        )


def _holds(one: KindRange, seq: int, kind: str) -> bool:
    return one.kind == kind and one.first <= seq <= one.last


async def test_a_day_without_a_match_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(VirtualClock(START))
    await store.open()
    counted = [(n, START + n * MINUTE, "inbox", "RARE" if n in (9, 3_000) else "OFTEN") for n in range(1, 4_000)]
    await _count(store, counted)
    looks: list[int] = []
    find = store.tally_ranges

    async def note(query: TallyQuery, before_seq: int, limit: int) -> object:
        looks.append(query.level)
        return await find(query, before_seq, limit)

    monkeypatch.setattr(store, "tally_ranges", note)
    query = TallyQuery("acme", 0, 0, 2**61, KINDS, reason="RARE")
    ranges = VerdictRanges(store, query, await store.tally_position(), SEQ_MAX)
    await ranges.load()
    found = await ranges.take(10)
    assert [(one.first, one.last) for one in found if one.last < SEQ_MAX - 1] == [(3_000, 3_000), (9, 9)]
    assert looks == [DAY]  # one of each day: it is where it is
