"""A batch with a healthy provider is scored to the last of it, in virtual time."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from betimes.app.betimes import Betimes
from betimes.engine.virtual_clock import VirtualClock
from betimes.testing.simulator.loop import SeededLoop
from tests.notifications.people import request


class BusyLoop(SeededLoop):
    """A loop on which every callback takes a fifth of a millisecond, and timers wait for the callbacks before them."""

    def _count_step(self) -> None:
        super()._count_step()
        self._now_s += 0.000_2


@pytest.mark.parametrize("loop", [SeededLoop, BusyLoop])
@pytest.mark.parametrize("seed", range(2))
def test_all_of_a_batch_of_500_are_scored_by_a_provider_that_answers_in_5_ms(seed: int, loop: type[SeededLoop]) -> None:
    async def main() -> None:
        bt = Betimes("memory://", clock=VirtualClock())

        @bt.enrichment
        async def score(_: Any) -> float:
            await asyncio.sleep(0.005)
            return 0.9

        async with bt:
            sent = await bt.notifications.send_many([request(f"e{n}", f"user-{n}") for n in range(500)])
            assert [answer.ai_used for answer in sent if not isinstance(answer, BaseException)] == [True] * 500

    loop(Random(seed), steps_max=500_000).run(main())
