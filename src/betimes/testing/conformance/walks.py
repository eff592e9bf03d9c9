"""Random walks that every store must come through; a longer one needs only another seed and more steps."""

from __future__ import annotations

from betimes.testing.conformance.pairs import Pair
from betimes.testing.conformance.random_walk import walk


async def a_first_random_walk_agrees_with_the_model(pair: Pair) -> None:
    await walk(pair, seed=1, steps=120)


async def a_second_random_walk_agrees_with_the_model(pair: Pair) -> None:
    await walk(pair, seed=2, steps=120)


async def a_third_random_walk_agrees_with_the_model(pair: Pair) -> None:
    await walk(pair, seed=3, steps=120)
