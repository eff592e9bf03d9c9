"""What a run plays: a domain, its clients, and what must hold at the end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from betimes.core.deciders import Decider, Wake
from betimes.core.policies import Body
from betimes.engine.effects import Executor
from betimes.engine.tenants.model import EndHold, SetHold, SetPolicy

if TYPE_CHECKING:
    from betimes.testing.simulator.world import World


def nothing_due(world: World) -> bool:
    """No alarm has come, and nothing is owed to anybody."""
    database, now = world.server.database, world.now()
    alarms_due = any(row.alarm_at is not None and row.alarm_at <= now for row in database.rows.values())
    return not alarms_due and not world.effects_open()


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A domain under simulation."""

    name: str
    deciders: tuple[Decider[Any], ...]
    clients: Callable[[World], Iterable[Coroutine[Any, Any, None]]]
    """What the outside does; all of them end before the faults stop."""
    check: Callable[[World], Iterable[str]]
    """The domain's own oracle: a sentence for everything that is not as it must be."""
    sections: Mapping[str, type[msgspec.Struct]] = {}
    policy: Callable[[Random], Body] = lambda random: {}
    """The deployment's policy, drawn for the run."""
    executors: Mapping[str, Executor] = {}
    """What calls do when nothing goes wrong; the simulator makes them late, or fail."""
    is_settled: Callable[[World], bool] = nothing_due
    """When the run may end after the faults have stopped."""
    settle_s: float = 4 * 3600
    """How much virtual time that may take."""
    fails_on: tuple[type[msgspec.Struct], ...] = (Wake,)
    """Commands on which a decider may be made to raise."""
    may_write_nothing: tuple[type[msgspec.Struct], ...] = (SetPolicy, SetHold, EndHold)
    """Commands that may be answered without a segment."""
    settles: tuple[type[msgspec.Struct], ...] = ()
    """Commands that a refusal may leave on the ledger, because they were owed anyway."""
