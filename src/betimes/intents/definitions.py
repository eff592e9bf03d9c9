"""Definitions of intents: as their authors write them (`Draft`) and as they are kept (`Definition`).

In what is kept every instant is absolute.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from betimes.core.instants import HOUR, Instant
from betimes.core.names import Id

CONDITION_BASED = frozenset({"price", "silence", "portfolio"})

TriggerType: TypeAlias = Literal["cron", "interval", "once", "price", "silence", "portfolio"]
ActionType: TypeAlias = Literal["notify", "check_in", "briefing", "analysis", "reminder"]
ActionPriority: TypeAlias = Literal["low", "normal", "high", "critical"]
Operator: TypeAlias = Literal["<", "<=", ">", ">=", "=="]
Metric: TypeAlias = Literal["any_holding_change", "total_value"]
FireMode: TypeAlias = Literal["recurring", "once"]
WorkerChoice: TypeAlias = Literal["any", "builtin", "outside"]
Minutes = Annotated[int, msgspec.Meta(ge=5, le=525_600)]
LocalInstant = Annotated[str, msgspec.Meta(max_length=64, extra_json_schema={"format": "date-time"})]
"""ISO 8601; without an offset it is read in the intent's zone."""
ChannelName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
ActionChannels = Annotated[tuple[ChannelName, ...], msgspec.Meta(min_length=1, max_length=8)]


class Condition(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """When a condition-based intent may fire; an expression wins over the structured fields."""

    expression: Annotated[str, msgspec.Meta(min_length=1, max_length=500)] | None = None
    ticker: Annotated[str, msgspec.Meta(min_length=1, max_length=20)] | None = None
    metric: Metric | None = None
    operator: Operator | None = None
    value: Decimal | None = None
    threshold_hours: Decimal | None = None
    cooldown_hours: Annotated[int, msgspec.Meta(ge=1, le=168)] = 24
    fire_mode: FireMode = "recurring"


class Gate(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Ask the run gate of this account first."""

    trigger_type: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^[A-Z][A-Z0-9_]{0,63}$",
            description="a name of A–Z, 0–9 and _, at most 64, beginning with a letter",
        ),
    ]
    account_id: Id | None = None
    """Left out: the intent's user."""


class DraftSchedule(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    cron: Annotated[str, msgspec.Meta(min_length=1, max_length=120)] | None = None
    interval_minutes: Minutes | None = None
    trigger_at: LocalInstant | None = None
    check_interval_minutes: Minutes | None = None
    timezone: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] = "UTC"


class Draft(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """An intent as its author writes it. Instants are ISO 8601; a naive one is read in the intent's zone."""

    intent_id: Id | None = None
    user_id: Id
    trigger_type: TriggerType
    enabled: bool = True
    expires_at: LocalInstant | None = None
    max_executions: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    metadata: dict[str, Any] = {}
    schedule: DraftSchedule = DraftSchedule()
    condition: Condition | None = None
    action_type: ActionType
    action_context: Annotated[str, msgspec.Meta(min_length=1, max_length=4_000)]
    action_priority: ActionPriority = "normal"
    action_channels: ActionChannels | None = None
    """By preference; left out: the policy's."""
    gate: Gate | None = None
    worker: WorkerChoice = "any"
    """Who may claim it: the built-in worker, workers outside, or both."""


class Schedule(msgspec.Struct, frozen=True):
    cron: str | None = None
    interval_minutes: int | None = None
    trigger_at: Instant | None = None
    check_interval_minutes: int | None = None
    timezone: str = "UTC"


class Definition(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an intent is, apart from whether it is enabled and what became of it."""

    user_id: str
    trigger_type: TriggerType
    expires_at: Instant | None = None
    max_executions: int | None = None
    metadata: dict[str, Any] = {}
    schedule: Schedule = Schedule()
    condition: Condition | None = None
    action_type: ActionType
    action_context: str
    action_priority: ActionPriority = "normal"
    action_channels: tuple[str, ...] | None = None
    gate: Gate | None = None
    worker: WorkerChoice = "any"
    sources: tuple[str, ...] = ()
    """What its expression is evaluated against, where that is not just what its type stands for."""

    @property
    def is_condition_based(self) -> bool:
        return self.trigger_type in CONDITION_BASED

    @property
    def cooldown(self) -> int:
        """In microseconds; none for what goes by the clock."""
        if not self.is_condition_based or self.condition is None:
            return 0
        return self.condition.cooldown_hours * HOUR


class Problem(msgspec.Struct, frozen=True, array_like=True):
    """One thing that is wrong with a definition, or worth a warning."""

    path: str
    message: str
