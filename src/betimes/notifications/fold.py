"""The fold of an inbox: its state from its events. No calendar, no policy: every instant is carried by the event."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection

from msgspec.structs import replace

from betimes.core.deciders import Index
from betimes.core.instants import DAY, Instant, earliest
from betimes.notifications.model import (
    DELIVERIES_MAX,
    EXACT_MAX,
    NEAR_MAX,
    ChannelFailed,
    Delivered,
    Delivery,
    DeliveryFailed,
    Digested,
    DigestReleased,
    Held,
    InboxEvents,
    InboxState,
    IncidentClosed,
    IncidentOpened,
    Item,
    PersonBanned,
    PersonUnbanned,
    Postponed,
    PreferencesSet,
    Print,
    Released,
    Rerouted,
    Seen,
    Suppressed,
)

HAS_INCIDENT = "incident"
"""The owner under which inboxes with an incident are indexed, so that they can be listed."""
# Made once, since every event asks for one of them.
_INCIDENT, _WAITING, _RESTING = Index(status="incident", owner=HAS_INCIDENT), Index(status="waiting"), Index()


def fold(state: InboxState | None, event: InboxEvents) -> InboxState:
    """Return the inbox after an event."""
    inbox = state or InboxState()
    match event:
        case Released():
            return _add_released(inbox, event)
        case Postponed(item):
            return _add_waiting(inbox, item)
        case Suppressed(item):
            return _end_waiting(inbox, item)
        case Held(items, until_at):
            moved = (replace(one, until_at=until_at) if one.version in items else one for one in inbox.waiting)
            return replace(inbox, waiting=tuple(moved))
        case Digested(item):
            return replace(inbox, waiting=_without(inbox.waiting, item))
        case DigestReleased(at, channel, delivery):
            # However many items a digest holds, the person is told once.
            used, delivered = _add_use(inbox.used, (channel,), at), _add_instant(inbox.delivered, at)
            delivering = _add_delivery(inbox.delivering, delivery)
            return replace(inbox, delivered=delivered, used=used, delivering=delivering)
        case Delivered() | ChannelFailed():
            return replace(inbox, delivering=_settle_call(inbox.delivering, event))
        case Rerouted(_, channel, at, delivery):
            # The person counts as told since it was released; another channel is only used up besides.
            used = _add_use(inbox.used, (channel,), at)
            return replace(inbox, used=used, delivering=_add_delivery(inbox.delivering, delivery))
        case DeliveryFailed(items):
            return _forget_texts(inbox, set(items))
        case _:
            return _fold_setting(inbox, event)


def _fold_setting(
    inbox: InboxState, event: PreferencesSet | PersonBanned | PersonUnbanned | IncidentOpened | IncidentClosed
) -> InboxState:
    match event:
        case PreferencesSet(preferences, version, at):
            inbox = replace(inbox, preferences=preferences, preferences_version=version)
            created_at = inbox.preferences_created_at or at
            return replace(inbox, preferences_created_at=created_at, preferences_updated_at=at)
        case PersonBanned(ban):
            return replace(inbox, ban=ban)
        case PersonUnbanned():
            return replace(inbox, ban=None)
        case IncidentOpened(incident):
            return replace(inbox, incident=incident)
        case IncidentClosed(at, recovered):
            # An incident that ran out is no recovery: news from before its end may still open another.
            return replace(inbox, incident=None, incident_closed_at=at if recovered else inbox.incident_closed_at)


def _add_released(inbox: InboxState, event: Released) -> InboxState:
    seen, prints, waiting = inbox.seen, inbox.prints, inbox.waiting
    if event.exact:  # it never waited
        seen, prints = _add_text(inbox, event.exact, event.near, event.at, event.item)
    else:
        waiting = _without(waiting, event.item)
    return replace(
        inbox,
        delivered=_add_instant(inbox.delivered, event.at),
        used=_add_use(inbox.used, event.channels, event.at),
        last_by_type={**inbox.last_by_type, event.event_type: event.at},
        seen=seen,
        prints=prints,
        waiting=waiting,
        delivering=_add_delivery(inbox.delivering, event.delivery),
    )


def _add_waiting(inbox: InboxState, item: Item) -> InboxState:
    others = _without(inbox.waiting, item.version)
    # It waited before, so its text is remembered already.
    if len(others) < len(inbox.waiting):
        return replace(inbox, waiting=(*others, item))
    seen, prints = _add_text(inbox, item.exact, item.near, item.accepted_at, item.version)
    return replace(inbox, seen=seen, prints=prints, waiting=(*others, item))


def _end_waiting(inbox: InboxState, item: int) -> InboxState:
    """End an item undelivered; of one that did not wait there is nothing to forget."""
    others = _without(inbox.waiting, item)
    return inbox if len(others) == len(inbox.waiting) else _forget_texts(replace(inbox, waiting=others), (item,))


def _add_instant(instants: tuple[Instant, ...], at: Instant) -> tuple[Instant, ...]:
    """Add one to those of the last day, and drop those that are older."""
    kept = instants[bisect_right(instants, at - DAY) :]
    return (*kept, at)[-DELIVERIES_MAX:]


def _add_use(
    used: dict[str, tuple[Instant, ...]], channels: tuple[str, ...], at: Instant
) -> dict[str, tuple[Instant, ...]]:
    return {**used, **{channel: _add_instant(used.get(channel, ()), at) for channel in channels}}


def _add_text(
    inbox: InboxState, exact: str, near: int | None, at: Instant, item: int
) -> tuple[tuple[Seen, ...], tuple[Print, ...]]:
    """Remember an accepted text; forget those older than a day or over the bound, the oldest first."""
    since = at - DAY
    # A text that is accepted once more takes the place of its older self.
    seen = [one for one in inbox.seen if one.exact != exact and one.at > since]
    seen.append(Seen(exact, at, item))
    if near is None:
        return tuple(seen[-EXACT_MAX:]), inbox.prints
    prints = [one for one in inbox.prints if one.at > since]
    prints.append(Print(near, at, item))
    return tuple(seen[-EXACT_MAX:]), tuple(prints[-NEAR_MAX:])


def _forget_texts(inbox: InboxState, items: Collection[int]) -> InboxState:
    """Forget the texts of items that ended undelivered: nobody has seen them, so they have no duplicates."""
    return replace(
        inbox,
        seen=tuple([one for one in inbox.seen if one.item not in items]),
        prints=tuple([one for one in inbox.prints if one.item not in items]),
    )


def _without(waiting: tuple[Item, ...], item: int) -> tuple[Item, ...]:
    return tuple([one for one in waiting if one.version != item]) if waiting else waiting


def _add_delivery(delivering: tuple[Delivery, ...], delivery: Delivery | None) -> tuple[Delivery, ...]:
    return delivering if delivery is None else (*delivering, delivery)[-DELIVERIES_MAX:]


def _settle_call(delivering: tuple[Delivery, ...], event: Delivered | ChannelFailed) -> tuple[Delivery, ...]:
    """Take an ended call off its delivery, and the delivery off the list with its last one."""
    # An in-app message was no call.
    if event.place is None:
        return delivering
    kept = []
    for one in delivering:
        if one.version == event.version:
            pending = tuple(call for call in one.pending if call[0] != event.place)
            if not pending:
                continue
            one = replace(one, pending=pending, delivered=one.delivered or isinstance(event, Delivered))
        kept.append(one)
    return tuple(kept)


def alarm(inbox: InboxState) -> Instant | None:
    """Return when the first waiting item is due, a delivery moves on or the incident ends."""
    first = min([item.until_at for item in inbox.waiting]) if inbox.waiting else None
    for delivery in inbox.delivering:
        if delivery.moves_on_at is not None:
            first = earliest(first, delivery.moves_on_at)
    return earliest(first, inbox.incident.ends_at) if inbox.incident else first


def index(inbox: InboxState) -> Index:
    """Make inboxes with an incident listable, and those in which something waits."""
    return _INCIDENT if inbox.incident else _WAITING if inbox.waiting else _RESTING
