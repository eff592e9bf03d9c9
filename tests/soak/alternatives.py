"""The verdicts of a recorded town, decided again: reproduced, and every alternative as good as its word."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import structlog

from tests.domains.recorded_town import examine, recorded_town
from tests.soak.rounds import Order, Round

PEOPLE = 200
STEPS = 576
"""Four days of a town so large give more than ten thousand verdicts."""


def find_alternatives(order: Order) -> Round:
    """Record four days of a town, and look for alternatives to so many of its verdicts."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

    async def look() -> Round:
        async with recorded_town(f"sqlite:///{order.folder}/town.db", PEOPLE, STEPS) as bt:
            found = await examine(bt, Random(order.seed), order.count)
        wrong = [f"neither reproduced nor told why: {one}" for one in found.unexplained] + found.broken
        if found.reproduced < 0.99 * found.verdicts:
            wrong.append(f"{found.reproduced:,} of {found.verdicts:,} are reproduced")
        counts = {"reproduced": found.reproduced, "alternatives applied": found.changes.total()}
        return Round(found.verdicts, wrong, counts)

    return asyncio.run(look())
