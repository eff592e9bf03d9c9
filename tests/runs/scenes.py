"""Accounts and runs as scenarios, with the quota folded along."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.core.deciders import Decision
from betimes.core.instants import Instant, parse
from betimes.core.streams import StreamId
from betimes.domain.hooks import Hooks
from betimes.runs.counters import quota_stream
from betimes.runs.decide import ACCOUNT
from betimes.runs.fold import fold_quota
from betimes.runs.model import AccountState, RequestRun, run_id_of, run_stream
from betimes.runs.policy import RunsPolicy
from betimes.testing.scenarios import Scenario, given

SECTIONS: dict[str, type[msgspec.Struct]] = {"runs": RunsPolicy, "hooks": Hooks}
NINE = parse("2026-01-05T09:00:00Z")
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
QUOTA = quota_stream("tenant")


def entry(**settings: Any) -> dict[str, Any]:
    return {"debounce_seconds": 0, "cooldown_seconds": 0, **settings}


def account(*, hooks: Any = (), stream: str = "acct", **runs: Any) -> Scenario[AccountState]:
    body = {"runs": runs, "hooks": list(hooks)}
    return given(ACCOUNT, sections=SECTIONS, policy=body, stream=StreamId("tenant", "account", stream))


def signal(**fields: Any) -> RequestRun:
    return RequestRun("SIGNAL_ARRIVED", **fields)


def brief(**fields: Any) -> RequestRun:
    return RequestRun("TIME_RITUAL_DAILY_BRIEF", **fields)


def run_of(key: str) -> StreamId:
    return run_stream("tenant", run_id_of("tenant", key))


def share_quota(scenario: Scenario[AccountState]) -> None:
    """Fold what the last decision said about the tenant's counters, so that later ones see it."""
    assert isinstance(scenario.outcome, Decision)
    for event in scenario.outcome.also.get(QUOTA, ()):
        scenario.others[QUOTA] = fold_quota(scenario.others.get(QUOTA), event)  # type: ignore[arg-type]


def at(offset: Instant) -> Instant:
    return NINE + offset
