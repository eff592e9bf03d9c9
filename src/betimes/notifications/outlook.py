"""The outlook of an inbox: what waits in it, the bands of the person's day, and how full their windows are."""

from __future__ import annotations

from collections.abc import Iterator

from betimes.core.instants import MINUTE, SECOND, Instant
from betimes.core.outlooks import Band, Outlook, WaitingItem, WindowFill
from betimes.core.policies import Policy
from betimes.notifications.digests import next_window
from betimes.notifications.model import InboxState, IncidentState
from betimes.notifications.policy import DAY_S, NotificationsPolicy
from betimes.notifications.quiet_hours import awake_span, quiet_until

BANDS_MAX = 200
DIGEST_SHOWN = 5 * MINUTE
"""How long a digest window is drawn: it is an instant."""


def waiting_items(inbox: InboxState) -> Iterator[WaitingItem]:
    """Yield the notifications that wait, and the end of an incident."""
    for item in inbox.waiting:
        yield WaitingItem(
            at=item.until_at,
            what="digest" if item.digest else item.event_type,
            key=item.event_id,
            segment=item.version,
            reasons=item.reasons,
        )
    if inbox.incident:
        yield WaitingItem(at=inbox.incident.ends_at, what="incident ends", key=inbox.incident.id)


def incident_items(state: IncidentState) -> Iterator[WaitingItem]:
    """Yield the end of the tenant's incident."""
    if state.incident:
        yield WaitingItem(at=state.incident.ends_at, what="incident ends", key=state.incident.id)


def outlook(inbox: InboxState, policy: Policy, now: Instant, since_at: Instant, until_at: Instant) -> Outlook:
    """Return the bands between two instants and the windows as they are now."""
    rules = policy[NotificationsPolicy]
    bands = (
        *_quiet_bands(inbox, since_at, until_at),
        *_digest_bands(inbox, rules, since_at, until_at),
        *_cooldown_bands(inbox, rules),
        *_state_bands(inbox),
    )
    shown = [band for band in bands if band.since_at < until_at and (band.until_at is None or band.until_at > since_at)]
    fatigue = rules.fatigue
    fills = tuple(
        WindowFill(name=name, span_s=cap.span_s, cap=cap.cap, counted=inbox.delivered)
        for name, cap in (("burst", fatigue.burst), ("hour", fatigue.hour), ("day", fatigue.day))
    )
    channels = tuple(
        WindowFill(name=name, span_s=DAY_S, cap=channel.cap_24h, counted=inbox.used.get(name, ()))
        for name, channel in rules.channels.items()
        if channel.cap_24h is not None
    )
    return Outlook(timezone=inbox.preferences.timezone, bands=tuple(shown[:BANDS_MAX]), fills=(*fills, *channels))


def _quiet_bands(inbox: InboxState, since_at: Instant, until_at: Instant) -> Iterator[Band]:
    windows, zone = inbox.preferences.quiet_hours, inbox.preferences.timezone
    at = since_at
    for _ in range(BANDS_MAX):
        if not windows or at >= until_at:
            return
        ends_at = quiet_until(windows, zone, at)
        if ends_at is None:
            at += awake_span(windows, zone, at, until_at - at)
        else:
            yield Band(name="quiet_hours", since_at=at, until_at=ends_at)
            at = ends_at


def _digest_bands(
    inbox: InboxState, rules: NotificationsPolicy, since_at: Instant, until_at: Instant
) -> Iterator[Band]:
    own = inbox.preferences.digest_windows
    crons = rules.digest_windows if own is None else own
    at: Instant | None = since_at - 1
    for _ in range(BANDS_MAX):
        at = next_window(crons, inbox.preferences.timezone, at) if at is not None else None
        if at is None or at >= until_at:
            return
        yield Band(name="digest", since_at=at, until_at=at + DIGEST_SHOWN)


def _cooldown_bands(inbox: InboxState, rules: NotificationsPolicy) -> Iterator[Band]:
    for name, at in inbox.last_by_type.items():
        kind = rules.event_types.get(name)
        if kind and kind.cooldown_s:
            yield Band(name="cooldown", since_at=at, until_at=at + kind.cooldown_s * SECOND, label=name)


def _state_bands(inbox: InboxState) -> Iterator[Band]:
    if inbox.incident:
        label = inbox.incident.reason or ""
        yield Band(name="incident", since_at=inbox.incident.opened_at, until_at=inbox.incident.ends_at, label=label)
    if inbox.ban:
        yield Band(name="ban", since_at=inbox.ban.at, until_at=None, label=inbox.ban.reason or "")
