"""Accounts and runs: commands, events, states.

`account` admits: it holds the runs allowed lately and the triggers that wait. `run` is one run: its life and its lease.
States hold what rules read; payloads stay in the segments of the triggers that brought them, and a run names those.
"""

from __future__ import annotations

from decimal import Decimal
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import msgspec

from betimes.core.instants import Instant
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import StreamId
from betimes.core.verdicts import Verdict
from betimes.core.windows import Window
from betimes.domain.completions import TargetSettled
from betimes.runs.counters import DayCount
from betimes.schedules.nominal_time import NominalTime

HOUR_S = 3_600
TRIGGERS = "triggers"
"""The collection in which triggers' idempotency keys live; a repeat must agree in account and type."""


def account_stream(tenant: str, account_id: str) -> StreamId:
    return StreamId(tenant, "account", account_id)


def run_stream(tenant: str, run_id: str) -> StreamId:
    return StreamId(tenant, "run", run_id)


def agreed_request(account_id: str, trigger_type: str) -> str:
    """Return the part of a request that a repeat of its key must agree in; payload and times may differ."""
    return f"{account_id}|{trigger_type}"


def run_id_of(tenant: str, key: str) -> str:
    """Return the run a trigger's key leads to, whenever it is admitted."""
    return "run_" + sha256(f"{tenant}|{key}".encode()).hexdigest()[:32]


def retry_key_of(key: str, defer_until_epoch: int) -> str:
    return sha256(f"{key}|retry|{defer_until_epoch}".encode()).hexdigest()


# -- account


class RequestRun(StoredMessage):
    """A trigger asks for a run of this account; its idempotency key is the command's key."""

    trigger_type: str
    scheduled_at: Instant | None = None
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    budget_remaining: int | None = None
    action_saturation_score: Decimal | None = None
    tenant_tier: str | None = None
    correlation: str = ""
    run_id: str | None = None
    """The run that a schedule or a sensor has requested; its stream knows which one."""
    by_hook: bool = False
    """Whether a hook asks; its run causes no further hooks."""
    nominal: NominalTime | None = None
    """The nominal time of the schedule's tick that asks; it is handed to the run."""
    strict: bool = False
    """Refuse a type that is not registered, instead of recording that it was skipped."""


class TriggerOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reply to a trigger, beside its verdict."""

    status: Literal["allowed", "deferred", "joined", "skipped"]
    run_id: str | None = None
    """Of the run it leads to, now or when what it joined is admitted."""
    shadow: Verdict | None = None
    """In shadow mode: the verdict that was not enforced."""
    first: First | None = None
    """Of a repeated key: its outcome when it was new."""


class First(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of a key when it was new. Of its trace, which is in its own segment, only the rule that matched."""

    segment: str
    at: Instant
    policy: str
    verdict: Verdict | None = None
    run_id: str | None = None
    shadow: Verdict | None = None


class RepeatRequest(StoredMessage):
    """A trigger whose key was seen before."""

    trigger_type: str
    first: First


class CancelTrigger(StoredMessage):
    """Drop a trigger that waits."""

    key: str


class ReportActions(StoredMessage):
    """So many actions were taken for the account."""

    count: int
    at: Instant


class WaitingTrigger(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A trigger that waits: held until its debounce window ends, or deferred until its one retry."""

    key: str
    trigger_type: str
    until_at: Instant
    first_at: Instant
    """When it was first postponed, which is its place among those due together."""
    reason: str
    segments: tuple[int, ...]
    """The versions of the account's segments whose payloads its run sees."""
    newest_at: Instant
    """The instant the last of these happened at, so that an older one does not replace it."""
    held: bool = False
    """Held by debounce: the judgement at its end is the first."""
    shadow: bool = False
    """Judged and recorded when its time comes, and starts nothing."""
    asked: bool = False
    """Whether a schedule or a sensor requested the run."""
    by_hook: bool = False
    slot_at: Instant | None = None
    """The tenant's slot it was promised."""
    budget_remaining: int | None = None
    action_saturation_score: Decimal | None = None
    tenant_tier: str | None = None
    correlation: str = ""


class RunAllowed(StoredMessage):
    """On the account: this trigger's run may start."""

    key: str
    trigger_type: str
    run_id: str
    at: Instant
    charged: bool = True
    """Whether windows and budgets count it; a shadowed refusal runs without."""
    retry_key: str | None = None


class RunDeferred(StoredMessage):
    """On the account: this trigger waits for its one retry, or for the end of its debounce window."""

    due: WaitingTrigger
    at: Instant


class TriggerJoined(StoredMessage):
    """On the account: this trigger shares the run of one that waits."""

    key: str
    into: str
    """The key of the trigger it joined."""
    due: WaitingTrigger
    """The trigger it joined, as it waits now."""
    at: Instant


class RunSkipped(StoredMessage):
    """On the account: this trigger leads to no run."""

    key: str
    trigger_type: str
    reason: str
    at: Instant
    retry_key: str | None = None


class WouldRun(StoredMessage):
    """On the account: in shadow mode, a would-be deferral was judged again; an admission counts, nothing starts."""

    key: str
    trigger_type: str
    reason: str
    charged: bool
    at: Instant
    retry_key: str | None = None


class BurstShortened(StoredMessage):
    """On the account: the policy holds bursts for less long now, and this one ends sooner."""

    key: str
    until_at: Instant


class RequestRepeated(StoredMessage):
    """On the account: a key came again and changed nothing."""

    trigger_type: str
    first_segment: str


class ActionsReported(StoredMessage):
    count: int
    at: Instant


class AccountState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    last_allowed_at: Instant | None = None
    last_deferred_at: Instant | None = None
    last_allowed_at_by_type: dict[str, Instant] = {}
    allowed_by_type: dict[str, Window] = {}
    allowed_today: DayCount = DayCount()
    actions_today: DayCount = DayCount()
    waiting: tuple[WaitingTrigger, ...] = ()
    updated_at: Instant | None = None


AccountCommands: TypeAlias = RequestRun | RepeatRequest | CancelTrigger | ReportActions
AccountEvents: TypeAlias = (
    RunAllowed
    | RunDeferred
    | TriggerJoined
    | RunSkipped
    | WouldRun
    | RequestRepeated
    | ActionsReported
    | BurstShortened
)

# -- run

RunStatus: TypeAlias = Literal["asked", "allowed", "started", "succeeded", "failed", "abandoned", "skipped", "settled"]
HandlerKind: TypeAlias = Literal["python", "webhook", "claim"]


class StartRun(StoredMessage, omit_defaults=False):
    """The process that is about to call the handler says so first; a run starts once."""

    effect: str
    worker: str = ""


class ClaimRun(StoredMessage):
    worker: str
    lease_s: int


class RenewRun(StoredMessage):
    claim_token: int
    lease_s: int


class CompleteRun(StoredMessage):
    claim_token: int
    status: Literal["succeeded", "failed"]
    result: dict[str, Any] | None = None
    error: str = ""


class RunAsked(StoredMessage):
    """On the run: a schedule or a sensor asks for it. Its key and fingerprint say what it is."""

    run_key: str
    fingerprint: str
    target: str
    """The kind of target: trigger, notification, …"""
    asked_by: StreamId
    at: Instant
    tell: bool = False
    """Whether `asked_by` is to be told with `RunFinished` when it has ended."""


class RunConflicted(StoredMessage):
    """On the run: it was requested again with other content; the first request stays."""

    fingerprint: str
    asked_by: StreamId
    at: Instant


class RunAdmitted(StoredMessage):
    """On the run: the gate let it through."""

    account_id: str
    trigger_type: str
    key: str
    handler: HandlerKind
    segments: tuple[int, ...]
    start_by_at: Instant
    at: Instant
    handler_name: str = ""
    correlation: str = ""


class RunRefused(StoredMessage):
    """On a run that was requested: the gate refused it, for good."""

    reason: str
    at: Instant


class RunStarted(StoredMessage):
    at: Instant
    worker: str = ""
    effect: str = ""
    claim_token: int = 0
    lease_expires_at: Instant | None = None


class StartPutOff(StoredMessage):
    """On the run: the policy lets runs wait for longer now."""

    start_by_at: Instant


class LeaseRenewed(StoredMessage):
    lease_expires_at: Instant


LEASE_RAN_OUT = "its lease ran out"
"""The error of a run whose holder did not come back."""


class RunEnded(StoredMessage):
    """On the run: it is over. Its result stays in this segment."""

    status: Literal["succeeded", "failed", "abandoned"]
    at: Instant
    version: int
    """Of the segment this is in."""
    result: Any = None
    error: str = ""


class TargetEnded(StoredMessage):
    """On a run without a gate: its target has ended."""

    status: Literal["delivered", "suppressed", "failed", "done", "dead", "abandoned"]
    at: Instant
    reason: str = ""


class RunState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    status: RunStatus
    run_key: str | None = None
    fingerprint: str = ""
    target: str = ""
    """The kind of target that was requested; none for a trigger from outside."""
    asked_by: StreamId | None = None
    tell: bool = False
    conflict_count: int = 0
    ending: str = ""
    """Of a run that never met the gate: how its target ended."""
    account_id: str = ""
    trigger_type: str = ""
    key: str = ""
    handler: HandlerKind = "claim"
    handler_name: str = ""
    segments: tuple[int, ...] = ()
    correlation: str = ""
    allowed_at: Instant | None = None
    start_by_at: Instant | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    worker: str = ""
    effect: str = ""
    claim_token: int = 0
    lease_expires_at: Instant | None = None
    ended_version: int = 0
    """The version of the run's segment that holds its result."""
    error: str = ""
    reason: str = ""


RunCommands: TypeAlias = StartRun | ClaimRun | RenewRun | CompleteRun | TargetSettled
RunEvents: TypeAlias = (
    RunAsked
    | RunConflicted
    | RunAdmitted
    | RunRefused
    | RunStarted
    | LeaseRenewed
    | RunEnded
    | TargetEnded
    | StartPutOff
)
