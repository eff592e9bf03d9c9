"""The streams of intents: their commands, events, states and replies.

`intent` is one stored wish: its definition, when it is looked at next, and who is at work on it. `owner` is one
person's limit: which of their intents are enabled. A definition comes as a `Draft`, as its author wrote it, and is kept
as a `Definition`, in which every instant is absolute.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from betimes.core.instants import Instant
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import StreamId
from betimes.domain.struct_forms import stored
from betimes.intents.definitions import CONDITION_BASED as CONDITION_BASED
from betimes.intents.definitions import ActionPriority as ActionPriority
from betimes.intents.definitions import Condition as Condition
from betimes.intents.definitions import Definition as Definition
from betimes.intents.definitions import DefinitionProblem as DefinitionProblem
from betimes.intents.definitions import Draft as Draft
from betimes.intents.definitions import Gate as Gate
from betimes.intents.definitions import Operator as Operator
from betimes.intents.definitions import Schedule as Schedule
from betimes.intents.definitions import TriggerType as TriggerType

INTENTS = "intents"
"""The collection in which the idempotency keys of definitions, claims and fires live."""
RESERVED_IDS = frozenset({"pending", "claim", "check"})
CLAIM_EXPIRED = "CLAIM_EXPIRED"

FireStatus: TypeAlias = Literal["success", "failed", "gate_blocked", "condition_not_met"]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Token = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
DisabledReason: TypeAlias = Literal["ONCE_DONE", "FIRE_MODE_ONCE", "MAX_EXECUTIONS", "EXPIRED", "FAILURES"]


def owner_stream(tenant: str, user_id: str) -> StreamId:
    return StreamId(tenant, "owner", user_id)


# -- commands


class DefineIntent(StoredMessage):
    """Make an intent, or replace the definition of one. The body is checked when it is decided."""

    body: dict[str, Any]
    replaces: bool = False
    """Whether one that is there is replaced rather than in the way."""
    expected: int | None = None
    """The version its author saw."""
    only_new: bool = False
    """Refuse as a version mismatch if there is one."""


class ChangeIntent(StoredMessage):
    """Lay a merge patch over the definition."""

    patch: dict[str, Any]
    user_id: str
    """The owner of the intent, so that their limit can be locked."""
    expected: int | None = None


class EnableIntent(StoredMessage):
    user_id: str
    expected: int | None = None


class DisableIntent(StoredMessage):
    expected: int | None = None


class DeleteIntent(StoredMessage):
    expected: int | None = None


class ClaimIntent(StoredMessage):
    """Reserve a due intent for a worker."""

    worker: str
    lease_s: int | None = None
    """Left out: the policy's."""
    among_many: bool = False
    """One of a bulk: leave cooling ones alone, and pass over what cannot be claimed instead of refusing."""
    builtin: bool = False
    """By the built-in worker."""


class RenewClaim(StoredMessage):
    claim_token: int
    lease_s: int | None = None


class ReleaseClaim(StoredMessage):
    """Give it back, unexecuted."""

    claim_token: int


class AwaitSource(StoredMessage):
    """Give a claim back because a source of the condition could not be asked."""

    claim_token: int
    source: str
    error: str


class FireReport(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a report about a check, each once."""

    status: FireStatus
    claim_token: Token | None = None
    trigger_data: dict[str, Any] | None = None
    gate_result: dict[str, Any] | None = None
    message_id: Annotated[str, msgspec.Meta(max_length=512)] | None = None
    message_preview: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    evaluation_ms: Milliseconds | None = None
    generation_ms: Milliseconds | None = None
    delivery_ms: Milliseconds | None = None
    error_message: Annotated[str, msgspec.Meta(max_length=2_000)] | None = None


@stored()
class FireIntent(FireReport, frozen=True, tag=True, omit_defaults=True):
    """Report the outcome of a check."""

    condition: str | None = None
    """The condition that was not met, in words, as the built-in worker read it: definitions change."""


class ForgetIntent(StoredMessage):
    """To an owner: this intent was disabled as this version; one enabled since still counts."""

    intent_id: str
    version: int


# -- events


class IntentDefined(StoredMessage):
    definition: Definition
    version: int
    at: Instant
    enabled: bool = True
    next_check_at: Instant | None = None
    restarted: bool = False
    """Whether failures before do not count any more."""


class IntentEnabled(StoredMessage):
    version: int
    at: Instant
    next_check_at: Instant | None


class IntentDisabled(StoredMessage):
    version: int
    at: Instant
    reason: DisabledReason | None = None
    """Left out: it was requested by hand."""


class IntentDeleted(StoredMessage):
    at: Instant


class IntentClaimed(StoredMessage):
    token: int
    worker: str
    at: Instant
    expires_at: Instant


class ClaimRenewed(StoredMessage):
    expires_at: Instant


class ClaimReleased(StoredMessage):
    at: Instant


class ClaimExpired(StoredMessage):
    """The holder of the claim did not come back. From the second in a row on, a failed execution follows."""

    at: Instant
    worker: str
    next_check_at: Instant | None = None


class SourceAwaited(StoredMessage):
    """A source could not be asked: no execution, and no failure of the intent's."""

    at: Instant
    source: str
    error: str
    next_check_at: Instant | None = None


class IntentFired(StoredMessage):
    """An execution. The rest of its report is in the command of its segment."""

    status: FireStatus
    at: Instant
    next_check_at: Instant | None = None
    worker: str | None = None
    error: str | None = None


class FireCooled(StoredMessage):
    """A report came within the cooldown: no execution, and the next check waits for its end."""

    at: Instant
    next_check_at: Instant | None = None


class RetryMoved(StoredMessage):
    """The policy has a shorter pause after failures now, and what failed is checked again sooner."""

    next_check_at: Instant


class IntentCounted(StoredMessage):
    intent_id: str
    version: int


class IntentUncounted(StoredMessage):
    intent_id: str


# -- states


class Claim(msgspec.Struct, frozen=True, gc=False, array_like=True):
    token: int
    worker: str
    claimed_at: Instant
    expires_at: Instant


class SourceWait(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The source that could not be asked the last time, why, since when, and how often in a row."""

    source: str
    error: str
    since_at: Instant
    count: int


class IntentState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
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
    expiry_count: int = 0
    """Claims in a row that ran out."""
    waiting_for_source: SourceWait | None = None

    @property
    def cooldown_ends_at(self) -> Instant | None:
        """Return the end of the cooldown after the last fire of a condition, if there was one."""
        if self.last_condition_fire_at is None or not self.definition.cooldown:
            return None
        return self.last_condition_fire_at + self.definition.cooldown

    def is_cooling(self, now: Instant) -> bool:
        ends_at = self.cooldown_ends_at
        return ends_at is not None and now < ends_at

    @property
    def was_planned_anew(self) -> bool:
        """Return whether the next check was planned after the claim was granted: its report is about an older one."""
        return self.claim is not None and self.next_check_at is not None and self.next_check_at > self.claim.claimed_at

    def live_claim(self, now: Instant) -> Claim | None:
        return self.claim if self.claim is not None and now < self.claim.expires_at else None


class OwnerState(msgspec.Struct, frozen=True, gc=False):
    """The enabled intents of a person, each with the version at which it was enabled."""

    enabled: dict[str, int] = {}


# -- replies


class Defined(StoredMessage):
    """The answer to a definition; with problems, nothing was changed."""

    version: int = 0
    created: bool = False
    problems: tuple[DefinitionProblem, ...] = ()
    warnings: tuple[DefinitionProblem, ...] = ()
    problem_count: int = 0
    """How many problems there are, of which the first are listed."""


class Claimed(StoredMessage):
    claim_token: int
    claimed_at: Instant
    expires_at: Instant


class Fired(StoredMessage):
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
    DefineIntent
    | ChangeIntent
    | EnableIntent
    | DisableIntent
    | DeleteIntent
    | ClaimIntent
    | RenewClaim
    | ReleaseClaim
    | AwaitSource
    | FireIntent
)
IntentEvents: TypeAlias = (
    IntentDefined
    | IntentEnabled
    | IntentDisabled
    | IntentDeleted
    | IntentClaimed
    | ClaimRenewed
    | ClaimReleased
    | ClaimExpired
    | SourceAwaited
    | IntentFired
    | FireCooled
    | RetryMoved
)
OwnerEvents: TypeAlias = IntentCounted | IntentUncounted
Replies: TypeAlias = Defined | Claimed | Fired
