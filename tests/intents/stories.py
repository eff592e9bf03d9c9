"""Intents to tell stories about, and the instants they happen at."""

from __future__ import annotations

from typing import Any

from betimes.core.instants import parse
from betimes.core.streams import StreamId
from betimes.intents.decide import INTENT, SECTIONS
from betimes.intents.model import DefineIntent, FireIntent, IntentState, OwnerState
from betimes.testing.scenarios import Scenario, given

NINE = parse("2026-01-05T09:00:00Z")
MINUTE = 60_000_000
HOUR = 60 * MINUTE
STREAM = StreamId("tenant", "intent", "subject")
OWNER = StreamId("tenant", "owner", "ann")


def body(trigger_type: str = "price", **fields: Any) -> dict[str, Any]:
    """An intent in which nothing is wrong."""
    usual: dict[str, Any] = {
        "user_id": "ann",
        "trigger_type": trigger_type,
        "action_type": "notify",
        "action_context": "Tell me.",
    }
    match trigger_type:
        case "cron":
            usual["schedule"] = {"cron": "0 8 * * *"}
        case "interval":
            usual["schedule"] = {"interval_minutes": 30}
        case "once":
            usual["schedule"] = {"trigger_at": "2026-01-06T08:00:00Z"}
        case "price":
            usual["condition"] = {"ticker": "NVDA", "operator": "<", "value": 130}
        case "silence":
            usual["condition"] = {"threshold_hours": 48}
        case _:
            usual["condition"] = {"metric": "any_holding_change", "operator": ">", "value": 5}
    return {**usual, **fields}


def nothing(**policy: Any) -> Scenario[IntentState]:
    return given(INTENT, stream=STREAM, sections=SECTIONS, policy={"intents": policy}).with_others(
        {OWNER: OwnerState()}
    )


def made(trigger_type: str = "price", policy: dict[str, Any] | None = None, **fields: Any) -> Scenario[IntentState]:
    """An intent that was made at nine."""
    scenario = nothing(**(policy or {})).when(DefineIntent(body(trigger_type, **fields)))
    assert scenario.state, scenario.outcome
    return scenario


def fired(status: str, token: int | None = None, **fields: Any) -> FireIntent:
    return FireIntent(status=status, claim_token=token, **fields)  # type: ignore[arg-type]
