"""The executor `sweep`: what a schedule, sensor or hook with the target `sweep` causes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from betimes.core.deciders import EffectCall
from betimes.domain.service import Caller
from betimes.engine.effects import Executor
from betimes.engine.engine import Engine
from betimes.scores.service import Scores

SWEEP = "sweep"


def sweeper(engine: Callable[[], Engine]) -> Executor:
    """Sweeps the scores of the tenant that asked, to the end; asked for again after a crash, it goes on."""

    async def sweep(call: EffectCall) -> dict[str, Any]:
        scores = Scores(engine(), Caller(call.id.tenant, actor=f"sweep:{call.id.handle}"))
        result: dict[str, Any] = msgspec.to_builtins(await scores.sweep(unbounded=True))
        return result

    return sweep
