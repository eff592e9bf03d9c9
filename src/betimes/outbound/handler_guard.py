"""Handlers and evaluators in Python, for the tenants that may use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from betimes.core.deciders import EffectCall
from betimes.domain.deployment import Deployment
from betimes.domain.outside_calls import not_permitted, permits_handler
from betimes.engine.effects import Executor, GiveUp
from betimes.engine.engine import Engine


def guard_handlers(
    engine: Callable[[], Engine], deployment: Callable[[], Deployment], executors: Mapping[str, Executor]
) -> dict[str, Executor]:
    """Return the executors, each of which refuses calls of tenants that may not use it.

    Those without a name of their own, such as evaluators over HTTP, are nobody's in particular.
    """

    def guard(name: str, executor: Executor) -> Executor:
        async def execute(call: EffectCall) -> Any:
            # Asked at every call, since what was permitted when a definition was saved may not be any more.
            if not await permits_handler(engine(), deployment(), call.id.tenant, name):
                raise GiveUp(not_permitted(name))
            return await executor(call)

        return execute

    named = {executor: executor.partition(":")[2] for executor in executors}
    return {name: guard(named[name], run) if named[name] else run for name, run in executors.items()}
