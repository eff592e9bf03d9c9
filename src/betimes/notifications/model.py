"""The streams of notifications: commands, events, states.

An `inbox` is one person's: preferences, recent deliveries and texts, waiting items, deliveries under way. It holds the
data that rules read, never bodies: an item names the version of the segment its text is in. A `feed` is the same
person's in-app messages, and `incident` is the tenant's incident, which inboxes read without locking it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from betimes.core.instants import Instant
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import StreamId
from betimes.domain.struct_forms import From
from betimes.notifications.feed_model import AddMessage, MarkRead, MessageAdded, MessagesRead
from betimes.notifications.quiet_hours import QuietHours

NOTIFICATIONS = "notifications"
"""The collection in which event ids are keys; a repeat must agree in the user."""

Priority: TypeAlias = Literal["CRITICAL", "HIGH", "MEDIUM", "LOW"]

WAITING_MAX = 200
DIGEST_MAX = 200
EXACT_MAX = 500
NEAR_MAX = 128
DELIVERIES_MAX = 500
"""Deliveries remembered one by one, and deliveries under way."""


def inbox_stream(tenant: str, user_id: str) -> StreamId:
    return StreamId(tenant, "inbox", user_id)


@lru_cache(maxsize=1 << 10)
def incident_stream(tenant: str) -> StreamId:
    """Return the stream of the whole tenant's incident."""
    return StreamId(tenant, "incident", "global")


class OptOut(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    all: bool = False
    event_types: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()


class Preferences(msgspec.Struct, frozen=True, gc=False):
    """The choices of a person."""

    timezone: str = "UTC"
    quiet_hours: tuple[QuietHours, ...] = ()
    opt_out: OptOut = OptOut()
    digest_windows: tuple[str, ...] | None = None
    """Crons in the person's zone; `None`: the tenant's."""
    digest_channel: str | None = None
    addresses: dict[str, str] = {}


class Incident(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    id: str
    opened_at: Instant
    ends_at: Instant
    reason: str | None = None


class Ban(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    at: Instant
    reason: str | None = None


class Seen(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An exact hash that was accepted, and the item that has it."""

    exact: str
    at: Instant
    item: int


class Print(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A near fingerprint that was accepted, and the item that has it."""

    near: int
    at: Instant
    item: int


class Item(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One notification as rules see it; its text is in the inbox's segment of that version."""

    version: int
    event_id: str
    event_type: str
    channels: tuple[str, ...]
    accepted_at: Instant
    exact: str
    near: int | None = None
    priority: Priority | None = None
    expires_at: Instant | None = None
    ai: int | None = None
    """The enrichment provider's score, in ten-thousandths."""
    ai_source: str = ""
    report_to: StreamId | None = None
    defer_count: int = 0
    reasons: tuple[str, ...] = ()
    until_at: Instant = 0
    digest: bool = False
    """It waits for the next digest, not for an evaluation of its own."""
    requested: bool = False


class Ref(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An item that is on its way."""

    item: int
    event_id: str
    report_to: StreamId | None = None


class Delivery(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A delivery under way by the calls of one segment, and the channels CRITICAL goes on to if they fail."""

    version: int
    refs: tuple[Ref, ...]
    pending: tuple[tuple[int, str], ...]
    """The place of each call in the segment, and its channel."""
    rest: tuple[str, ...] = ()
    delivered: bool = False
    digest: bool = False
    expires_at: Instant | None = None
    moves_on_at: Instant | None = None
    """When the rest is gone on with although no call has ended; only of channels that are functions."""


class InboxState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    preferences: Preferences = Preferences()
    preferences_version: int = 0
    preferences_created_at: Instant | None = None
    preferences_updated_at: Instant | None = None
    ban: Ban | None = None
    incident: Incident | None = None
    incident_closed_at: Instant | None = None
    delivered: tuple[Instant, ...] = ()
    """Of the last 24 hours, in order."""
    used: dict[str, tuple[Instant, ...]] = {}
    """The same by channel."""
    last_by_type: dict[str, Instant] = {}
    seen: tuple[Seen, ...] = ()
    prints: tuple[Print, ...] = ()
    waiting: tuple[Item, ...] = ()
    delivering: tuple[Delivery, ...] = ()


class IncidentState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    incident: Incident | None = None
    closed_at: Instant | None = None


class Unenforced(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The verdict that rules in shadow would have led to."""

    outcome: Literal["NOW", "LATER", "NEVER"]
    reasons: tuple[str, ...]
    until_at: Instant | None = None


class NotificationReply(msgspec.Struct, frozen=True, gc=False, tag="Answer", omit_defaults=True):
    """The reply to an evaluation besides its verdict. Scores are texts of exact decimals."""

    event_id: str = ""
    item: int = 0
    score: str | None = None
    ai: str | None = None
    ai_source: str = ""
    flags: tuple[str, ...] = ()
    defer_count: int = 0
    channel: str | None = None
    shadow: Unenforced | None = None


class IncidentAnswer(StoredMessage, gc=False):
    """The incident that is open after one was to be opened."""

    incident: Incident | None


# -- commands


class Notify(StoredMessage, gc=False):
    """Tell this person something; the event id is the command's key."""

    event_type: str
    title: str
    message: str
    source: str
    channels: tuple[str, ...]
    priority_hint: Priority | None = None
    happened_at: Annotated[Instant | None, From("timestamp")] = None
    expires_at: Instant | None = None
    dedupe_key: str | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    report_to: StreamId | None = None
    """The stream that gets `TargetSettled` once it is delivered, suppressed or has failed."""
    ai_score: int | None = None
    """The enrichment provider's score, asked for before this is decided, in ten-thousandths."""
    ai_source: str = ""
    requested: bool = False
    """The person asked to be told this, so it is not weighed (P7), and channels without an address are passed over."""


class SetPreferences(StoredMessage, gc=False):
    preferences: Preferences
    if_version: int | None = None


class BanPerson(StoredMessage, gc=False):
    reason: str | None = None


class UnbanPerson(StoredMessage, gc=False): ...


class OpenIncident(StoredMessage, gc=False):
    """To an inbox or a tenant's incident. `at`: when it was known of, if that was not now."""

    ttl_s: int
    reason: str | None = None
    at: Instant | None = None


class CloseIncident(StoredMessage, gc=False):
    id: str | None = None
    at: Instant | None = None


# -- events


class Released(StoredMessage, gc=False):
    """An item goes out. One that never waited carries what is remembered of its text."""

    item: int
    event_id: str
    event_type: str
    at: Instant
    channels: tuple[str, ...]
    reasons: tuple[str, ...]
    exact: str = ""
    near: int | None = None
    delivery: Delivery | None = None


class Postponed(StoredMessage, gc=False):
    item: Item


class ItemEnded(StoredMessage, gc=False):
    """The fields of an event that ends an item."""

    item: int
    event_id: str
    reasons: tuple[str, ...]


class Suppressed(ItemEnded, gc=False):
    """An item ends undelivered, at once or after it waited."""


class Held(StoredMessage, gc=False):
    """These items wait for another instant than promised, which counts as no deferral: until quiet hours end, if the
    alarm rang late; or by a changed policy or changed preferences."""

    items: tuple[int, ...]
    until_at: Instant


class Digested(ItemEnded, gc=False):
    """An item goes out in the digest released in the same segment."""


class DigestReleased(StoredMessage, gc=False):
    at: Instant
    channel: str
    delivery: Delivery | None = None


class Delivered(StoredMessage, gc=False):
    """A channel took it. `version` and `place` name the call; in-app has none."""

    channel: str
    at: Instant
    version: int
    place: int | None = None
    attempts: int = 1


class ChannelFailed(StoredMessage, gc=False):
    channel: str
    at: Instant
    version: int
    place: int
    attempts: int = 1
    error: str = ""


class Rerouted(StoredMessage, gc=False):
    """A channel failed and the next one is tried."""

    items: tuple[int, ...]
    channel: str
    at: Instant
    delivery: Delivery | None = None


class DeliveryFailed(StoredMessage, gc=False):
    """No channel took it."""

    items: tuple[int, ...]
    at: Instant


class PreferencesSet(StoredMessage, gc=False):
    preferences: Preferences
    version: int
    at: Instant


class PersonBanned(StoredMessage, gc=False):
    ban: Ban


class PersonUnbanned(StoredMessage, gc=False): ...


class IncidentOpened(StoredMessage, gc=False):
    """Also when one that is open gets a later end."""

    incident: Incident


class IncidentClosed(StoredMessage, gc=False):
    at: Instant
    recovered: bool = False
    """True if it was closed by hand, so that older news does not open it again; false if its time was up."""


InboxCommands: TypeAlias = Notify | SetPreferences | BanPerson | UnbanPerson | OpenIncident | CloseIncident
InboxEvents: TypeAlias = (
    Released
    | Postponed
    | Suppressed
    | Held
    | Digested
    | DigestReleased
    | Delivered
    | ChannelFailed
    | Rerouted
    | DeliveryFailed
    | PreferencesSet
    | PersonBanned
    | PersonUnbanned
    | IncidentOpened
    | IncidentClosed
)
IncidentCommands: TypeAlias = OpenIncident | CloseIncident
IncidentEvents: TypeAlias = IncidentOpened | IncidentClosed
FeedCommands: TypeAlias = AddMessage | MarkRead
FeedEvents: TypeAlias = MessageAdded | MessagesRead
