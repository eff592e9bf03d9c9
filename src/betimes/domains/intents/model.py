"""The streams of intents: what is asked, what happened, what is remembered.

`intent` is one stored wish: its definition, when it is looked at next, and who is at work on it. `owner` is one
person's limit: which of their intents are enabled. A definition comes as a `Draft`, as its author wrote it, and is kept
as a `Definition`, in which every instant is absolute.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from betimes.core.instants import HOUR, Instant
from betimes.core.streams import StreamId
from betimes.domains.names import Id

INTENTS = "intents"
"""The collection in which the idempotency keys of definitions, claims and fires live."""
CONDITION_BASED = frozenset({"price", "silence", "portfolio"})
RESERVED_IDS = frozenset({"pending", "claim", "check"})
CLAIM_EXPIRED = "CLAIM_EXPIRED"

TriggerType: TypeAlias = Literal["cron", "interval", "once", "price", "silence", "portfolio"]
ActionType: TypeAlias = Literal["notify", "check_in", "briefing", "analysis", "reminder"]
ActionPriority: TypeAlias = Literal["low", "normal", "high", "critical"]
Operator: TypeAlias = Literal["<", "<=", ">", ">=", "=="]
FireStatus: TypeAlias = Literal["success", "failed", "gate_blocked", "condition_not_met"]
DisabledReason: TypeAlias = Literal["ONCE_DONE", "FIRE_MODE_ONCE", "MAX_EXECUTIONS", "EXPIRED", "FAILURES"]
Minutes = Annotated[int, msgspec.Meta(ge=5, le=525_600)]


def intent_stream(tenant: str, intent_id: str) -> StreamId:
    return StreamId(tenant, "intent", intent_id)


def owner_stream(tenant: str, user_id: str) -> StreamId:
    return StreamId(tenant, "owner", user_id)


# -- definitions


class Condition(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """When a condition-based intent may fire; an expression wins over the structured fields."""

    expression: Annotated[str, msgspec.Meta(min_length=1, max_length=500)] | None = None
    ticker: Annotated[str, msgspec.Meta(min_length=1, max_length=20)] | None = None
    metric: Literal["any_holding_change", "total_value"] | None = None
    operator: Operator | None = None
    value: Decimal | None = None
    threshold_hours: Decimal | None = None
    cooldown_hours: Annotated[int, msgspec.Meta(ge=1, le=168)] = 24
    fire_mode: Literal["recurring", "once"] = "recurring"


class Gate(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Ask the run gate of this account first."""

    trigger_type: Annotated[str, msgspec.Meta(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
    account_id: Id | None = None
    """Left out: the intent's user."""


class DraftSchedule(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    cron: Annotated[str, msgspec.Meta(min_length=1, max_length=120)] | None = None
    interval_minutes: Minutes | None = None
    trigger_at: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    check_interval_minutes: Minutes | None = None
    timezone: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] = "UTC"


class Draft(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """An intent as its author writes it. Instants are ISO 8601; a naive one is read in the intent's zone."""

    intent_id: Id | None = None
    user_id: Id
    trigger_type: TriggerType
    enabled: bool = True
    expires_at: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    max_executions: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    metadata: dict[str, Any] = {}
    schedule: DraftSchedule = DraftSchedule()
    condition: Condition | None = None
    action_type: ActionType
    action_context: Annotated[str, msgspec.Meta(min_length=1, max_length=4_000)]
    action_priority: ActionPriority = "normal"
    gate: Gate | None = None


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
    gate: Gate | None = None

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


# -- commands


class DefineIntent(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Make an intent, or replace the definition of one. The body is checked when it is decided."""

    body: dict[str, Any]
    replaces: bool = False
    """Whether one that is there is replaced rather than in the way."""
    expected: int | None = None
    """The version its author saw."""
    only_new: bool = False
    """Refuse as a version mismatch if there is one."""


class ChangeIntent(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Lay a merge patch over the definition."""

    patch: dict[str, Any]
    user_id: str
    """Whose intent it is, so that their limit can be locked."""
    expected: int | None = None


class EnableIntent(msgspec.Struct, frozen=True, tag=True):
    user_id: str


class DisableIntent(msgspec.Struct, frozen=True, tag=True): ...


class DeleteIntent(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    expected: int | None = None


class ClaimIntent(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Reserve a due intent for a worker."""

    worker: str
    lease_s: int | None = None
    """Left out: the policy's."""
    among_many: bool = False
    """One of a bulk: leave cooling ones alone, and pass over what cannot be claimed instead of refusing."""


class RenewClaim(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    claim_token: int
    lease_s: int | None = None


class ReleaseClaim(msgspec.Struct, frozen=True, tag=True):
    """Give it back, unexecuted."""

    claim_token: int


class FireIntent(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """What became of a check."""

    status: FireStatus
    claim_token: int | None = None
    trigger_data: dict[str, Any] | None = None
    gate_result: dict[str, Any] | None = None
    message_id: str | None = None
    message_preview: str | None = None
    evaluation_ms: int | None = None
    generation_ms: int | None = None
    delivery_ms: int | None = None
    error_message: str | None = None


class ForgetIntent(msgspec.Struct, frozen=True, tag=True):
    """To an owner: this intent was disabled as this version; one enabled since still counts."""

    intent_id: str
    version: int


# -- events


class IntentDefined(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    definition: Definition
    version: int
    at: Instant
    enabled: bool = True
    next_check_at: Instant | None = None
    restarted: bool = False
    """Whether failures before do not count any more."""


class IntentEnabled(msgspec.Struct, frozen=True, tag=True):
    version: int
    at: Instant
    next_check_at: Instant | None


class IntentDisabled(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    version: int
    at: Instant
    reason: DisabledReason | None = None
    """Left out: somebody asked for it."""


class IntentDeleted(msgspec.Struct, frozen=True, tag=True):
    at: Instant


class IntentClaimed(msgspec.Struct, frozen=True, tag=True):
    token: int
    worker: str
    at: Instant
    expires_at: Instant


class ClaimRenewed(msgspec.Struct, frozen=True, tag=True):
    expires_at: Instant


class ClaimReleased(msgspec.Struct, frozen=True, tag=True):
    at: Instant


class IntentFired(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """An execution. What was reported with it is in the command of its segment."""

    status: FireStatus
    at: Instant
    next_check_at: Instant | None = None
    worker: str | None = None
    error: str | None = None


class FireCooled(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A report came within the cooldown: no execution, and the next check waits for its end."""

    at: Instant
    next_check_at: Instant | None = None


class RetryMoved(msgspec.Struct, frozen=True, tag=True):
    """The policy has a shorter pause after failures now, and what failed is checked again sooner."""

    next_check_at: Instant


class IntentCounted(msgspec.Struct, frozen=True, tag=True):
    intent_id: str
    version: int


class IntentUncounted(msgspec.Struct, frozen=True, tag=True):
    intent_id: str


# -- states


class Claim(msgspec.Struct, frozen=True, array_like=True):
    token: int
    worker: str
    claimed_at: Instant
    expires_at: Instant


class IntentState(msgspec.Struct, frozen=True, omit_defaults=True):
    definition: Definition
    version: int
    """Of the definition; it moves with every change, also an automatic disable."""
    created_at: Instant
    updated_at: Instant
    enabled: bool = True
    next_check_at: Instant | None = None
    occasion_at: Instant | None = None
    """The check that is owed: unlike `next_check_at` it stays while failures are tried again."""
    claim: Claim | None = None
    failure_count: int = 0
    execution_count: int = 0
    last_checked_at: Instant | None = None
    last_executed_at: Instant | None = None
    last_status: FireStatus | None = None
    last_error: str | None = None
    last_condition_fire_at: Instant | None = None
    was_disabled_reason: DisabledReason | None = None

    @property
    def cooldown_ends_at(self) -> Instant | None:
        """When the last fire of a condition has been long enough ago."""
        if self.last_condition_fire_at is None or not self.definition.cooldown:
            return None
        return self.last_condition_fire_at + self.definition.cooldown

    def is_cooling(self, now: Instant) -> bool:
        ends_at = self.cooldown_ends_at
        return ends_at is not None and now < ends_at

    @property
    def was_planned_anew(self) -> bool:
        """Whether the next check was chosen after the claim was granted: a report under it is about an older one."""
        return self.claim is not None and self.next_check_at is not None and self.next_check_at > self.claim.claimed_at

    def live_claim(self, now: Instant) -> Claim | None:
        return self.claim if self.claim is not None and now < self.claim.expires_at else None


class OwnerState(msgspec.Struct, frozen=True):
    """Which intents are enabled, each with the version at which it was."""

    enabled: dict[str, int] = {}


# -- replies


class Defined(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """What became of a definition; with problems, nothing did."""

    version: int = 0
    created: bool = False
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    problem_count: int = 0
    """How many problems there are, of which the first are listed."""


class Claimed(msgspec.Struct, frozen=True, tag=True):
    claim_token: int
    claimed_at: Instant
    expires_at: Instant


class Fired(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """`cooldown_ends_at` is set when the report came within the cooldown."""

    status: FireStatus | Literal["cooldown_active"]
    at: Instant
    enabled: bool
    execution_count: int
    next_check_at: Instant | None = None
    last_condition_fire_at: Instant | None = None
    cooldown_ends_at: Instant | None = None
    cooldown_hours: int = 0
    was_disabled_reason: DisabledReason | None = None


IntentCommands: TypeAlias = (
    DefineIntent | ChangeIntent | EnableIntent | DisableIntent | DeleteIntent | ClaimIntent | RenewClaim | ReleaseClaim
    | FireIntent
)  # fmt: skip
IntentEvents: TypeAlias = (
    IntentDefined | IntentEnabled | IntentDisabled | IntentDeleted | IntentClaimed | ClaimRenewed | ClaimReleased
    | IntentFired | FireCooled | RetryMoved
)  # fmt: skip
OwnerEvents: TypeAlias = IntentCounted | IntentUncounted
Replies: TypeAlias = Defined | Claimed | Fired
