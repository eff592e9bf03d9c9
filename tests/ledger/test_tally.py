"""The tally says what a count over the ledger says, whoever counts and however often that process dies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from betimes.app import Betimes
from betimes.app.routes import ROUTES
from betimes.core.errors import Unknown
from betimes.core.instants import DAY, HOUR, MINUTE, SECOND
from betimes.engine.read_model import LEVELS, TallyQuery
from betimes.engine.store import LedgerQuery, Store
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.server import serve
from betimes.ledger import tally
from betimes.ledger.outcomes import outcomes_of
from betimes.ledger.tally import TallyProjection
from betimes.stores.memory import MemoryStore
from tests.http.populated import declare, populate
from tests.http.served import Client

FOREVER = 2**61
Counts = Counter[tuple[str, str, str]]


async def counted(store: Store, level: int, tenant: str = "default") -> Counts:
    found: Counts = Counter()
    for cell in await store.tally_counts(TallyQuery(tenant, level, 0, FOREVER), FOREVER, 10_000):
        found[cell.kind, cell.outcome, cell.reasons] += cell.total
    return found


async def in_ledger(bt: Betimes, tenant: str = "default") -> Counts:
    """Count the outcomes of whole segments, as explanations and live events show them."""
    found: Counts = Counter()
    after = 0
    while page := await bt.engine.store.ledger(LedgerQuery(after=after, tenant=tenant, limit=1_000)):
        for segment in page:
            for outcome in outcomes_of(bt.engine.kinds, segment):
                found[segment.stream.kind, outcome.outcome, ",".join(outcome.reasons)] += 1
        after = page[-1].seq
    return found


async def populated(url: str, clock: VirtualClock) -> Betimes:
    bt = Betimes(url, clock=clock, workers=False)
    declare(bt)
    await bt.open()
    await populate(Client(serve(bt, ROUTES, dev=True)), bt, clock)
    return bt


@pytest.mark.parametrize("place", ["memory://", "sqlite"])
async def test_the_tally_equals_a_count_over_the_ledger(place: str, tmp_path: Path) -> None:
    bt = await populated(place if place != "sqlite" else f"sqlite:///{tmp_path}/b.db", VirtualClock())
    await bt.tick()
    expected = await in_ledger(bt)
    assert len(expected) > 5
    for level in LEVELS:
        assert await counted(bt.engine.store, level) == expected
    await bt.engine.store.reset_tally()
    await bt.tally_projection().catch_up()
    assert await counted(bt.engine.store, DAY) == expected
    await bt.close()


class Stumbling(MemoryStore):
    """Loses answers at random: before the counts are added, or after."""

    random = Random(7)
    stumbles = 0

    async def add_tally(self, *args: object, **kwargs: object) -> None:
        kind = self.random.random()
        if kind < 0.3:
            self.stumbles += 1
            raise Unknown("nobody knows")
        await super().add_tally(*args, **kwargs)  # type: ignore[arg-type]
        if kind > 0.7:
            self.stumbles += 1
            raise Unknown("nobody knows, and it was written")


async def test_answers_that_are_lost_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "PAGE", 3)
    clock = VirtualClock()
    bt = await populated("memory://", clock)
    store = Stumbling(clock, bt.engine.store.database)  # type: ignore[attr-defined]
    await store.reset_tally()
    real, bt.engine.store = bt.engine.store, store
    for attempt in range(2_000):
        clock.advance_to(clock() + SECOND)
        await TallyProjection(bt.engine, f"p-{attempt // 7 % 3}").count_page()
    assert store.stumbles > 10
    assert await counted(store, MINUTE) == await in_ledger(bt)
    bt.engine.store = real
    await bt.close()


async def test_two_processes_count_everything_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "PAGE", 5)
    clock = VirtualClock()
    bt = await populated(f"sqlite:///{tmp_path}/b.db", clock)
    await bt.engine.store.reset_tally()
    one, two = (TallyProjection(bt.engine, name) for name in ("one", "two"))
    totals = Counter[str]()
    for turn in range(400):
        totals["one"] += await one.count_page()
        totals["two"] += await two.count_page()
        if turn % 20 == 0:  # whoever holds the lease is silent for longer than it lasts
            clock.advance_to(clock() + 11 * SECOND)
            totals["two"] += await two.count_page()
            clock.advance_to(clock() + 11 * SECOND)
    assert min(totals["one"], totals["two"]) > 0
    assert await counted(bt.engine.store, HOUR) == await in_ledger(bt)
    await bt.close()


async def test_minutes_go_after_two_days_and_hours_after_ninety() -> None:
    clock = VirtualClock()
    bt = await populated("memory://", clock)
    await bt.tick()
    store = bt.engine.store
    before = await counted(store, DAY)
    clock.advance_to(clock() + 100 * DAY)
    await Client(serve(bt, ROUTES, dev=True))("POST", "/v1/scores", {"user_id": "late"})
    await bt.tick()
    position = await store.tally_position()
    assert (position.minutes_from % HOUR, position.hours_from % DAY) == (0, 0)
    assert position.minutes_from <= clock() - 2 * DAY < position.minutes_from + HOUR
    assert before.total() > (await counted(store, MINUTE)).total()
    assert (await counted(store, DAY)).total() >= before.total()
    await bt.close()
