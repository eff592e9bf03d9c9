"""Definitions of intents: as their authors write them (`Draft`) and as they are kept (`Definition`).

A field that authors decide is one line of `IntentFields` or `IntentScheduleFields`. The draft has it with its bounds;
the definition and the answer (`intents.intent_view`) are derived without them. The type of an instant is `At`: text in
a draft, an absolute instant in a definition, a datetime in an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from betimes.core.instants import HOUR, Instant
from betimes.core.names import Id
from betimes.domain.struct_forms import placed, stored

At = TypeVar("At")
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
ActionChannels = Annotated[Sequence[ChannelName], msgspec.Meta(min_length=1, max_length=8)]


class Condition(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The condition of an intent; an expression takes precedence over the structured fields."""

    expression: Annotated[str, msgspec.Meta(min_length=1, max_length=500)] | None = None
    ticker: Annotated[str, msgspec.Meta(min_length=1, max_length=20)] | None = None
    metric: Metric | None = None
    operator: Operator | None = None
    value: Decimal | None = None
    threshold_hours: Decimal | None = None
    cooldown_hours: Annotated[int, msgspec.Meta(ge=1, le=168)] = 24
    fire_mode: FireMode = "recurring"


class Gate(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
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


class IntentScheduleFields(msgspec.Struct, Generic[At], frozen=True, kw_only=True):
    """The fields of a schedule, each once."""

    cron: Annotated[str, msgspec.Meta(min_length=1, max_length=120)] | None = None
    interval_minutes: Minutes | None = None
    trigger_at: At | None = None
    check_interval_minutes: Minutes | None = None
    timezone: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] = "UTC"


class DraftSchedule(IntentScheduleFields[LocalInstant], frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    __doc__ = None


@stored()
class Schedule(IntentScheduleFields[Instant], frozen=True, gc=False):
    """The schedule of an intent as it is kept."""


class IntentFields(msgspec.Struct, Generic[At], frozen=True, kw_only=True):
    """The fields of an intent that its author decides, each once; a new one is one line here."""

    user_id: Id
    trigger_type: TriggerType
    expires_at: At | None = None
    max_executions: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    metadata: dict[str, Any] = {}
    schedule: IntentScheduleFields[At]
    condition: Condition | None = None
    action_type: ActionType
    action_context: Annotated[str, msgspec.Meta(min_length=1, max_length=4_000)]
    action_priority: ActionPriority = "normal"
    action_channels: ActionChannels | None = None
    """In order of preference; default: the policy's."""
    gate: Gate | None = None
    worker: WorkerChoice = "any"
    """The workers that may claim it: the built-in one, your own, or both."""


@placed(intent_id=None, enabled="trigger_type")
class Draft(IntentFields[LocalInstant], frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """An intent as it is sent. Instants are ISO 8601; a naive one is read in the intent's zone."""

    intent_id: Id | None = None
    enabled: bool = True
    schedule: DraftSchedule = DraftSchedule()


@stored()
class Definition(IntentFields[Instant], frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """An intent as it is kept, apart from its id, its switch and its progress."""

    schedule: Schedule = Schedule()
    sources: tuple[str, ...] = ()
    """The sources of its expression, where they are not just what its type stands for."""

    @property
    def is_condition_based(self) -> bool:
        return self.trigger_type in CONDITION_BASED

    @property
    def cooldown(self) -> int:
        """Return the cooldown in microseconds; 0 for intents that go by the clock."""
        if not self.is_condition_based or self.condition is None:
            return 0
        return self.condition.cooldown_hours * HOUR


class DefinitionProblem(msgspec.Struct, frozen=True, array_like=True):
    """One thing that is wrong with a definition, or worth a warning."""

    path: str
    message: str
