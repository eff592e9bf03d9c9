"""Where it happens: the database all processes of a test share, the engine each has on it, and the policy in force."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from betimes.core.deciders import Call, Decider, Decision, EffectCall, Refusal
from betimes.engine.engine import Engine
from betimes.engine.reports import Reporter
from betimes.engine.settings import EngineSettings
from betimes.engine.store import Store
from betimes.stores.postgres import PostgresStore
from betimes.stores.sqlite import SqliteStore
from betimes.testing.sample import GATE, QUOTA, SECTIONS, TALLY, GatePolicy, GateState

CONNECTIONS_MAX = 4
TENANT = "acme"


class Place(msgspec.Struct, frozen=True):
    """A SQLite file, or a schema on a PostgreSQL server."""

    path: str = ""
    dsn: str = ""
    schema: str = ""

    def store(self) -> Store:
        if self.path:
            return SqliteStore(self.path)
        return PostgresStore(self.dsn, schema=self.schema, pool_max=CONNECTIONS_MAX)


class Rules(msgspec.Struct, frozen=True):
    """What the gates go by, and how long a call may be silent."""

    gates: GatePolicy = GatePolicy(cooldown_s=1, per_hour=6, waiting_max=4, greet=True, tally=True)
    lease_s: int = 1


def engine_on(
    store: Store,
    rules: Rules,
    name: str,
    greet: Callable[[EffectCall], Awaitable[Any]],
    report: Reporter,
    settings: EngineSettings | None = None,
) -> Engine:
    """An engine with the sample domain, whose calls have the lease of these rules."""
    return Engine(
        store,
        (with_lease(GATE, rules.lease_s), QUOTA, TALLY),
        name=name,
        sections=SECTIONS,
        policy={"gates": msgspec.to_builtins(rules.gates)},
        executors={"handler:greet": greet},
        settings=settings or EngineSettings(),
        report=report,
    )


def with_lease(decider: Decider[GateState], lease_s: int) -> Decider[GateState]:
    """The same gates, with another lease on their calls: here real time is what is tested."""

    def decide(*asked: Any) -> Decision | Refusal:
        decision = decider.decide(*asked)
        if isinstance(decision, Refusal):
            return decision
        effects = tuple(replace(e, lease_s=lease_s) if isinstance(e, Call) else e for e in decision.effects)
        return replace(decision, effects=effects)

    return replace(decider, decide=decide)
