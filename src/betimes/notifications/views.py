"""Requests and views of notifications, in the words of the HTTP contract."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache, partial
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from betimes.core.checks import Problem, Rule, readable
from betimes.core.datetimes import Moment
from betimes.core.names import Id
from betimes.domain.json_view import JsonView
from betimes.domain.paging import UnreadableRow
from betimes.domain.service import TraceStep
from betimes.domain.struct_forms import From, placed, shown
from betimes.domain.warnings import Remark
from betimes.notifications.local_time import TimeOfDay
from betimes.notifications.model import OptOut, Priority

At = TypeVar("At")
METADATA_BYTES_MAX = 4 * 1024
BATCH_MAX = 500
STATUS_BATCH_MAX = 100
Reason = Annotated[str, msgspec.Meta(max_length=200)]
DayName = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[DayName, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EndOfQuiet = Annotated[
    str,
    msgspec.Meta(pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$", description="a time of day from 00:00 to 24:00"),
]
Status = Literal["waiting", "delivering", "delivered", "digested", "suppressed", "cancelled", "failed"]
Outcome = Literal["NOW", "LATER", "NEVER"]


class NotificationFields(msgspec.Struct, Generic[At], frozen=True, gc=False, kw_only=True):
    """The fields of a notification as it is sent and shown, each once."""

    user_id: Id
    event_type: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=120)]
    message: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    channels: Sequence[str]
    priority_hint: Priority | None = None
    timestamp: At | None = None
    expires_at: At | None = None
    dedupe_key: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None
    metadata: dict[str, Any] = {}


@placed(channels="source")
class _NotificationRequest(NotificationFields[Moment], frozen=True, kw_only=True, forbid_unknown_fields=True):
    channels: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=8, examples=[["push", "email"]])]
    correlation_id: Annotated[str, msgspec.Meta(max_length=128)] | None = None
    tenant_id: str | None = None


class NotificationRequest(_NotificationRequest, frozen=True, kw_only=True):
    event_id: Id


class ClassifyRequest(_NotificationRequest, frozen=True, kw_only=True):
    event_id: Id | None = None
    at: Moment | None = None


@lru_cache(maxsize=1 << 10)
def notification_rules(tenant: str) -> tuple[Rule[Any], ...]:
    """Return the rules of a notification that its types cannot express."""
    return (_name_channels_once, _keep_metadata_small, partial(_name_own_tenant, tenant))


def _name_channels_once(request: _NotificationRequest) -> Sequence[Problem]:
    if len(set(request.channels)) == len(request.channels):
        return ()
    names = [name for _, name in readable(request.channels)]
    return [("channels", "each channel once")] if len(set(names)) < len(names) else ()


def _keep_metadata_small(request: _NotificationRequest) -> Sequence[Problem]:
    is_small = not request.metadata or len(msgspec.json.encode(request.metadata)) <= METADATA_BYTES_MAX
    return () if is_small else [("metadata", f"at most {METADATA_BYTES_MAX:,} bytes")]


def _name_own_tenant(tenant: str, request: _NotificationRequest) -> Sequence[Problem]:
    return () if request.tenant_id in (None, tenant) else [("tenant_id", "not your tenant")]


# -- verdicts


class ShadowView(JsonView, frozen=True):
    """The verdict that was not enforced."""

    outcome: Outcome
    reasons: tuple[str, ...]
    defer_until: Annotated[datetime | None, From("until_at")]


class NotificationVerdict(JsonView, frozen=True, gc=False, kw_only=True):
    event_id: str | None
    user_id: str
    outcome: Annotated[Outcome, From("answer")]
    reasons: tuple[str, ...]
    explanation: str
    evaluated_at: Annotated[datetime, From("at")]
    defer_until: Annotated[datetime | None, From("until")]
    would_pass_at: datetime | None
    """The earliest instant at which it would pass, if nothing else happens. Items ahead of it may fill the caps by
    then; the change of kind `time` among a segment's alternatives takes that into account."""
    score: Annotated[Decimal | None, From("score", Decimal)]
    ai_score: Annotated[Decimal | None, From("ai", Decimal)]
    ai_used: bool
    flags: tuple[str, ...]
    defer_count: int
    delivery_channel: Annotated[str | None, From("channel")]
    is_replay: Annotated[bool, From("replayed")]
    shadow: ShadowView | None
    policy: str
    segment_id: str | None
    trace: list[TraceStep] | None


class JudgementView(JsonView, frozen=True):
    evaluated_at: datetime
    outcome: Outcome
    reasons: tuple[str, ...]
    defer_until: datetime | None
    segment_id: str


class DeliveryView(JsonView, frozen=True, kw_only=True):
    effect_id: str | None
    """In-app has none: it is delivered with the commit."""
    channel: str
    status: Literal["pending", "done", "failed", "dead"]
    attempts: int
    next_attempt_at: datetime | None = None
    last_error: str | None = None
    delivered_at: datetime | None = None


@shown(event_id=None)
class SentNotification(NotificationFields[datetime], JsonView, frozen=True, kw_only=True):
    """A notification as it was sent."""

    event_id: str
    timestamp: Annotated[datetime | None, From("happened_at")]


class NotificationView(NotificationVerdict, frozen=True, kw_only=True):
    """The latest verdict on a notification, and its deliveries."""

    notification: SentNotification
    requested: bool
    """Whether the user asked for it, through an intent."""
    status: Status
    judgements: list[JudgementView]
    deliveries: list[DeliveryView]


class NotificationStatus(JsonView, frozen=True):
    event_id: str
    status: Status
    outcome: Outcome
    reasons: tuple[str, ...]
    defer_until: datetime | None
    defer_count: int


# -- a person


class ChannelUse(JsonView, frozen=True):
    used: int
    cap: int | None
    free_at: datetime | None


class Cooldown(JsonView, frozen=True):
    event_type: str
    ends_at: datetime


class WaitingView(JsonView, frozen=True):
    event_id: str
    event_type: str
    reasons: tuple[str, ...]
    defer_until: Annotated[datetime, From("until_at")]
    defer_count: int


class IncidentView(JsonView, frozen=True):
    incident_id: Annotated[str, From("id")]
    scope: Literal["global", "user"]
    user_id: str | None
    reason: str | None
    opened_at: datetime
    ends_at: datetime


class NotificationState(JsonView, frozen=True, kw_only=True):
    user_id: str
    delivered_5m: int
    delivered_1h: int
    delivered_24h: int
    channels: dict[str, ChannelUse]
    cooldowns: list[Cooldown]
    quiet_until: datetime | None
    incident: IncidentView | None
    banned: bool
    next_digest_at: datetime | None
    waiting: list[WaitingView]


class QuietHoursView(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    start: TimeOfDay
    end: EndOfQuiet
    days: tuple[DayName, ...] = DAYS


class OptOutView(OptOut, frozen=True, forbid_unknown_fields=True, omit_defaults=False): ...


class PreferencesFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a person's preferences as they are sent and shown, each once."""

    timezone: Annotated[str, msgspec.Meta(max_length=64)] = "UTC"
    quiet_hours: Sequence[QuietHoursView] = ()
    opt_out: OptOutView = OptOutView()
    digest_windows: Annotated[tuple[str, ...], msgspec.Meta(max_length=8)] | None = None
    digest_channel: str | None = None
    addresses: Annotated[
        dict[str, Annotated[str, msgspec.Meta(min_length=1, max_length=256)]], msgspec.Meta(max_length=64)
    ] = {}


@placed(quiet_hours="timezone")
class PreferencesRequest(PreferencesFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    __doc__ = None

    quiet_hours: Annotated[
        tuple[QuietHoursView, ...], msgspec.Meta(max_length=14, examples=[[{"start": "22:00", "end": "07:00"}]])
    ] = ()
    version: int | None = None


@shown()
class PreferencesView(PreferencesFields, JsonView, frozen=True, kw_only=True):
    __doc__ = None

    addresses: dict[str, str]
    version: Annotated[int, From("preferences_version")]
    created_at: Annotated[datetime | None, From("preferences_created_at")]
    updated_at: Annotated[datetime | None, From("preferences_updated_at")]


class PreferencesWritten(PreferencesView, frozen=True, kw_only=True):
    warnings: list[Remark]
    segment_id: str


class DigestLine(JsonView, frozen=True):
    event_id: str
    event_type: str
    title: str
    message: str


class InboxItem(JsonView, frozen=True, kw_only=True):
    item_id: str
    event_id: str | None
    event_type: str
    title: str
    message: str
    metadata: dict[str, Any]
    digest: list[DigestLine]
    delivered_at: datetime
    read_at: datetime | None


class InboxPage(JsonView, frozen=True):
    items: list[InboxItem]
    next_cursor: str | None
    unread_count: int
    unreadable: tuple[UnreadableRow, ...] = ()
    """Messages of this page that cannot be shown, or the whole inbox."""


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    item_ids: Annotated[tuple[Id, ...], msgspec.Meta(min_length=1, max_length=200)] | None = None
    all: bool = False
    before: Moment | None = None

    def __post_init__(self) -> None:
        if (self.item_ids is None) == (not self.all):
            raise ValueError("item_ids: give either these or all")
        if self.before is not None and not self.all:
            raise ValueError("before: only together with all")


class ReadResult(JsonView, frozen=True):
    read_count: int
    unread_count: int


class BanRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Reason | None = None


class BanView(JsonView, frozen=True):
    user_id: str
    banned: bool
    reason: str | None


class IncidentRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    user_id: Id | None = None
    ttl_seconds: Annotated[int, msgspec.Meta(ge=60, le=604_800)] = 7_200
    reason: Reason | None = None
