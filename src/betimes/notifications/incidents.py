"""Incidents: a person's is part of the inbox, a tenant's is a stream of its own. Both open, last longer, and close."""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision, Index, Refusal, Settled, View, Wake
from betimes.core.instants import SECOND, Instant
from betimes.core.policies import Policy
from betimes.notifications.model import (
    CloseIncident,
    Incident,
    IncidentAnswer,
    IncidentClosed,
    IncidentCommands,
    IncidentEvents,
    IncidentOpened,
    IncidentState,
    OpenIncident,
)


def open_incident(
    current: Incident | None, closed_at: Instant | None, command: OpenIncident, new_id: str, now: Instant
) -> IncidentOpened | None:
    """Open a new incident, or give the running one a later end. News no newer than the recovery opens nothing."""
    at = now if command.at is None else command.at
    ends_at = at + command.ttl_s * SECOND
    is_old_news = command.at is not None and closed_at is not None and at <= closed_at
    if is_old_news or ends_at <= now:
        return None
    if current is None or current.ends_at <= now:
        return IncidentOpened(Incident(new_id, at, ends_at, command.reason))
    if ends_at <= current.ends_at:
        return None
    return IncidentOpened(replace(current, ends_at=ends_at, reason=command.reason or current.reason))


def decide(
    view: View[IncidentState], command: IncidentCommands | Wake | Settled, policy: Policy, now: Instant
) -> Decision | Refusal:
    state = view.state or IncidentState()
    current = state.incident
    match command:
        case OpenIncident():
            event = open_incident(current, state.closed_at, command, f"{view.stream.id}:{view.version + 1}", now)
            return Decision((event,) if event else (), reply=IncidentAnswer(event.incident if event else current))
        case CloseIncident(id, at):
            if id is not None and (current is None or current.id != id):
                return Refusal("NO_SUCH_INCIDENT", f"there is no open incident {id!r}")
            closed = IncidentClosed(now if at is None else at, recovered=True)
            # Recorded even if none is open: news from before this instant may still come, and must open nothing.
            return Decision((closed,) if current or at is not None else ())
        case Wake():
            assert current is not None
            return Decision((IncidentClosed(current.ends_at),))
        case Settled():
            return Decision()


def fold(state: IncidentState | None, event: IncidentEvents) -> IncidentState:
    incident = state or IncidentState()
    match event:
        case IncidentOpened(current):
            return replace(incident, incident=current)
        case IncidentClosed(at, recovered):
            # A recovery from before the incident was opened is about another one.
            stays = recovered and incident.incident is not None and incident.incident.opened_at > at
            kept = incident.incident if stays else None
            latest_at = max(at, at if incident.closed_at is None else incident.closed_at)
            return IncidentState(kept, latest_at if recovered else incident.closed_at)


INCIDENT = Decider(
    kind="incident",
    scope="notifications:write",
    decide=decide,
    replies=IncidentAnswer,
    targets=(OpenIncident, CloseIncident),
    fold=fold,
    alarm=lambda state: state.incident.ends_at if state.incident else None,
    index=lambda state: Index(status="open" if state.incident else "closed"),
)
