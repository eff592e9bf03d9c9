"""More questions than a provider may be asked at once, and batches of them, in virtual time."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from random import Random

import pytest

from betimes.notifications.enrichment import Enrichment, EnrichmentSettings, Notification
from betimes.testing.simulator.loop import SeededLoop
from tests.outbound.test_enrichment import NOTIFICATION, enrichment
from tests.patience import HANGS_S


class Timed:
    """A provider that takes its time, and how often it was asked."""

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s
        self.asked = 0

    async def __call__(self, _: Notification) -> float:
        self.asked += 1
        await asyncio.sleep(self.takes_s)
        return 0.7


async def _scored(asking: Enrichment, count: int) -> int:
    """How many of so many questions at once have an answer."""
    scores = await asyncio.gather(*(asking.score(NOTIFICATION) for _ in range(count)))
    return sum(score is not None for score in scores)


@pytest.mark.parametrize("seed", range(5))
def test_five_hundred_at_once_are_all_scored_by_a_provider_that_answers_in_5_ms(seed: int) -> None:
    async def main() -> None:
        asking = Enrichment(Timed(0.005))
        assert await _scored(asking, 500) == 500
        assert asking.absences == {}
        await asking.close()

    SeededLoop(Random(seed)).run(main())


@pytest.mark.parametrize("seed", range(5))
def test_what_finds_no_place_in_time_falls_back_and_nobody_failed(seed: int) -> None:
    async def main() -> None:
        provider = Timed(0.02)
        asking = Enrichment(provider, settings=EnrichmentSettings(under_way_max=1, wait_s=0.1))
        scored = await _scored(asking, 100)
        assert 4 <= scored <= 6
        assert asking.absences == {"busy": 100 - scored}
        assert await asking.score(NOTIFICATION), "the breaker is closed"
        await asking.close()

    SeededLoop(Random(seed)).run(main())


@pytest.mark.parametrize("seed", range(5))
def test_what_waits_for_a_place_at_a_provider_that_fails_is_not_asked(seed: int) -> None:
    async def main() -> None:
        provider = Timed(60.0)
        asking = Enrichment(provider)
        assert await _scored(asking, 500) == 0
        assert provider.asked < 100
        assert set(asking.absences) == {"too_slow", "left_alone"}
        assert asyncio.get_running_loop().time() < 0.2, "nobody waited longer than one budget or two"
        await asking.close()

    SeededLoop(Random(seed)).run(main())


async def test_places_that_are_lost_are_not_waited_for() -> None:
    release = threading.Event()

    def blocking(_: Notification) -> float:
        release.wait(HANGS_S)
        return 1.0

    settings = EnrichmentSettings(budget_s=0.001, under_way_max=1, wait_s=10.0)
    async with enrichment(blocking, settings) as asking:
        await asking.score(NOTIFICATION)
        busy = asyncio.ensure_future(asking.score(NOTIFICATION))
        await asyncio.sleep(0)
        assert busy.done(), "it is told at once"
        assert asking.last_absence == "busy"
        release.set()


@pytest.mark.parametrize("seed", range(3))
def test_a_pause_of_our_own_is_not_the_providers_time(seed: int) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SeededLoop)
        asking = Enrichment(Timed(0.005))
        question = asyncio.ensure_future(asking.score(NOTIFICATION))
        await asyncio.sleep(0.001)
        loop._now_s += 60
        assert await question
        assert asking.absences == {}
        await asking.close()

    SeededLoop(Random(seed)).run(main())


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_is_answered_in_its_order_and_asks_no_more_at_once_than_there_are_places(seed: int) -> None:
    async def main() -> None:
        most = 0

        async def provider(notification: Notification) -> float:
            nonlocal most
            most = max(most, asking.under_way_count)
            await asyncio.sleep(0.001 * (notification["score"] % 7))
            return float(notification["score"]) / 100

        asking = Enrichment(provider, settings=EnrichmentSettings(under_way_max=4))
        scores = await asking.score_many([{"score": number} for number in range(100)])
        assert [score and score.value for score in scores] == [Decimal(number) / 100 for number in range(100)]
        assert most == 4
        assert await asking.score_many([]) == []
        await asking.close()

    SeededLoop(Random(seed)).run(main())


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_takes_a_bounded_time_and_what_was_not_asked_falls_back(seed: int) -> None:
    async def main() -> None:
        asking = Enrichment(Timed(0.02), settings=EnrichmentSettings(under_way_max=1, batch_s=1.0))
        scores = await asking.score_many([NOTIFICATION] * 100)
        assert [score is not None for score in scores] == [True] * 50 + [False] * 50
        assert asking.absences == {"busy": 50}
        await asking.close()

    SeededLoop(Random(seed)).run(main())
