"""The requests and answers of runs, in the words of the HTTP contract."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from betimes.core.checks import obey
from betimes.core.datetimes import Moment
from betimes.core.instants import Epoch, epoch_up
from betimes.core.names import Id
from betimes.domain.json_view import JsonView
from betimes.domain.service import TraceStep
from betimes.domain.struct_forms import From, placed
from betimes.domain.warnings import Remark
from betimes.runs.model import RunStatus as RecordedStatus
from betimes.runs.policy import Entry, TierName, TriggerType
from betimes.runs.rules import Result

Count = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Worker = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
LeaseSeconds = Annotated[int, msgspec.Meta(ge=10, le=3_600)]
PAYLOAD_BYTES_MAX = 64 * 1024
BATCH_MAX = 500
"""Triggers of one call."""
TriggerState: TypeAlias = Literal["allowed", "deferred", "joined", "skipped"]
"""`deferred` while it waits; `joined`: it shares, or will share, another trigger's run."""


class GateFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a trigger that the gate evaluates."""

    account_id: Id
    trigger_type: TriggerType
    scheduled_at: Moment | None = None
    budget_remaining: int | None = None
    action_saturation_score: Decimal | None = None
    tenant_tier: TierName | None = None
    correlation_id: Annotated[str, msgspec.Meta(max_length=128)] | None = None
    tenant_id: str | None = None

    def _check_score(self) -> None:
        score = self.action_saturation_score
        if score is not None and not (score.is_finite() and score >= 0):
            raise ValueError("action_saturation_score: at least 0")


@placed(idempotency_key="trigger_type", payload="scheduled_at")
class TriggerRequest(GateFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    __doc__ = None

    idempotency_key: Id
    payload: dict[str, Any] = {}

    def __post_init__(self) -> None:
        obey(self._check_payload, self._check_score)

    def _check_payload(self) -> None:
        if len(msgspec.json.encode(self.payload)) > PAYLOAD_BYTES_MAX:
            raise ValueError(f"payload: at most {PAYLOAD_BYTES_MAX // 1024} KiB")


@placed(recency_last_run_epoch="tenant_tier", at="recency_last_run_epoch")
class EvaluateRequest(GateFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    __doc__ = None

    recency_last_run_epoch: Epoch | None = None
    at: Moment | None = None

    def __post_init__(self) -> None:
        self._check_score()


class ActionsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    count: Count = 1
    timestamp: Moment | None = None


class ClaimRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    worker: Worker | None = None
    lease_s: LeaseSeconds = 300


class ClaimManyRequest(ClaimRequest, frozen=True, forbid_unknown_fields=True):
    account_id: Id | None = None
    trigger_type: TriggerType | None = None


class RenewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    claim_token: int
    lease_s: LeaseSeconds = 300


class CompleteRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    claim_token: int
    status: Literal["succeeded", "failed"]
    result: dict[str, Any] | None = None
    error_message: Annotated[str, msgspec.Meta(max_length=2_000)] | None = None

    def __post_init__(self) -> None:
        if len(msgspec.json.encode(self.result)) > PAYLOAD_BYTES_MAX:
            raise ValueError(f"result: at most {PAYLOAD_BYTES_MAX // 1024} KiB")


class ShadowVerdict(JsonView, frozen=True):
    """The verdict that was not enforced."""

    result: Result
    reasons: tuple[str, ...]
    defer_until: datetime | None


class TriggerVerdict(JsonView, frozen=True, kw_only=True):
    result: Result
    reason: str
    explanation: str
    evaluated_at: datetime
    defer_until: datetime | None
    defer_until_epoch: int | None
    retry_after_seconds: int | None
    would_pass_at: datetime | None
    account_id: str
    trigger_type: str
    idempotency_key: str | None
    run_id: str | None
    first: TriggerVerdict | None
    is_replay: bool
    shadow: ShadowVerdict | None
    policy: str
    segment_id: str | None
    trace: list[TraceStep] | None


class TriggerStatus(JsonView, frozen=True, kw_only=True):
    """A trigger, its verdicts, and the run it led to."""

    account_id: str
    trigger_type: str
    idempotency_key: str
    scheduled_at: datetime | None
    payload: dict[str, Any]
    budget_remaining: int | None
    action_saturation_score: Decimal | None
    tenant_tier: str | None
    correlation_id: str | None
    status: TriggerState
    verdict: TriggerVerdict
    retry: TriggerVerdict | None
    run_id: str | None


class DeferredView(JsonView, frozen=True):
    idempotency_key: Annotated[str, From("key")]
    trigger_type: str
    reason: str
    defer_until: Annotated[datetime, From("until_at")]
    defer_until_epoch: Annotated[int, From("until_at", epoch_up)]


class BudgetView(JsonView, frozen=True):
    daily_run_budget: int | None
    used: int
    remaining: int | None
    resets_at: datetime


class RunStateView(JsonView, frozen=True, kw_only=True):
    """An account's counters and what waits."""

    account_id: str
    last_allowed_at_epoch: int | None
    last_deferred_at_epoch: int | None
    last_trigger_at_by_type: dict[str, int]
    run_count_this_hour: int
    cooldown_until: datetime | None
    budget: BudgetView
    action_saturation_score: Decimal | None
    deferred: list[DeferredView]
    updated_at: datetime | None


class ActionsView(JsonView, frozen=True):
    account_id: str
    actions_this_period: int
    action_cap: int | None
    action_saturation_score: Decimal | None
    period_ends_at: datetime


RunStatus: TypeAlias = Literal["allowed", "started", "succeeded", "failed", "abandoned"]
RunHandler: TypeAlias = Literal["python", "webhook", "claim"]


class RunView(JsonView, frozen=True, kw_only=True):
    run_id: str
    account_id: str
    trigger_type: str
    idempotency_key: str
    run_key: str | None
    status: RecordedStatus
    handler: RunHandler
    payloads: list[Any]
    scheduled_for: datetime | None
    """The nominal time of the tick that asked for it, if a schedule did."""
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    partition_key: str | None
    allowed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    lease_expires_at: datetime | None
    result: Any
    error: str | None
    correlation_id: str | None
    segment_id: str


class RunClaim(JsonView, frozen=True):
    claim_token: int
    claimed_at: datetime
    expires_at: datetime
    run: RunView


class RegistryEntry(Entry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry as the policy has it, with its name."""

    trigger_type: TriggerType


class RegistryView(JsonView, frozen=True):
    version: int
    entries: list[RegistryEntry]


class RegistryWritten(RegistryView, frozen=True):
    warnings: list[Remark]
