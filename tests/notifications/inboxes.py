"""An inbox to test with: what happened before, and notifications to try on it."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.core.instants import HOUR, Instant, parse
from betimes.core.streams import StreamId
from betimes.domain.hooks import Hooks
from betimes.notifications.decide import INBOX
from betimes.notifications.model import (
    InboxState,
    Incident,
    IncidentState,
    Notify,
    Preferences,
    PreferencesSet,
    Released,
    incident_stream,
)
from betimes.notifications.policy import NotificationsPolicy
from betimes.notifications.quiet_hours import QuietHours
from betimes.testing.scenarios import Scenario, given

SECTIONS: dict[str, type[msgspec.Struct]] = {"notifications": NotificationsPolicy, "hooks": Hooks}
ANN = StreamId("acme", "inbox", "ann")
GLOBAL = incident_stream("acme")
NINE = parse("2026-01-05T09:00:00Z")
"""A Monday."""
NIGHT = QuietHours(22 * 60, 7 * 60)


def note(event_type: str = "MESSAGE", priority: Any = "HIGH", text: str = "See you at nine?", **fields: Any) -> Notify:
    """HIGH MESSAGE: with a quiet past it scores 0.28 + 0.125 + 0.225 + 0.1 = 0.73 and goes out."""
    known: dict[str, Any] = {"title": "Ana replied", "source": "chat", "channels": ("push", "email")}
    return Notify(event_type, message=text, priority_hint=priority, **(known | fields))


def preferences(**chosen: Any) -> PreferencesSet:
    return PreferencesSet(Preferences(**chosen), 1, 0)


def sent(*ages: int, now: Instant = NINE, event_type: str = "UPDATE", channel: str = "push") -> list[Released]:
    """Deliveries that long ago, of other texts, each with nothing left to do."""
    return [
        Released(-place, f"old-{place}", event_type, now - age, (channel,), ("DEFAULT_PASS",), exact=f"old-{place}")
        for place, age in enumerate(sorted(ages, reverse=True), start=1)
    ]


def inbox(*events: Any, hooks: Any = (), **policy: Any) -> Scenario[InboxState]:
    flat = [one for event in events for one in (event if isinstance(event, list) else [event])]
    return given(INBOX, *flat, stream=ANN, sections=SECTIONS, policy={"notifications": policy, "hooks": list(hooks)})


def tenant_incident(ends_at: Instant) -> dict[StreamId, IncidentState]:
    return {GLOBAL: IncidentState(Incident("global:1", NINE - HOUR, ends_at))}
