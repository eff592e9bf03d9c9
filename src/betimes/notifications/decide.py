"""An inbox decides: does this person hear this NOW, LATER or NEVER?

The rules are in `rules.py` and their evaluation in `evaluation.py`; here each command finds its handler, and the input
of callers, people and administrators is checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from betimes.core.deciders import Command, Decider, Decision, Reconsider, Refusal, Send, Settled, View, Wake
from betimes.core.errors import Invalid
from betimes.core.instants import MINUTE, SECOND, Instant
from betimes.core.jitter import spread
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.domain.completions import TargetSettled
from betimes.notifications import incidents
from betimes.notifications.decision_builder import DecisionBuilder, carry_out
from betimes.notifications.deferral import wake
from betimes.notifications.delivery_results import settle_delivery
from betimes.notifications.evaluation import evaluate
from betimes.notifications.feed import FEED
from betimes.notifications.fingerprints import exact_hash, fingerprint, mask_numbers, normalise_text
from betimes.notifications.fold import alarm, fold, index
from betimes.notifications.interventions import CancelNotification, ReleaseNotification, intervene
from betimes.notifications.model import (
    Ban,
    BanPerson,
    CloseIncident,
    InboxCommands,
    InboxState,
    Incident,
    IncidentAnswer,
    IncidentClosed,
    IncidentOpened,
    Item,
    NotificationReply,
    Notify,
    OpenIncident,
    PersonBanned,
    PersonUnbanned,
    PreferencesSet,
    SetPreferences,
    Suppressed,
    UnbanPerson,
    incident_stream,
)
from betimes.notifications.policy import Dedup, NotificationsPolicy
from betimes.notifications.preferences import preference_problems
from betimes.notifications.reasons import REASONS
from betimes.notifications.rules import RULES
from betimes.notifications.waiting_items import advance_waiting, reevaluate_waiting

Commands: TypeAlias = InboxCommands | CancelNotification | ReleaseNotification
_REOPENING_SLACK = MINUTE
"""A fan-out says the same to many; the tenant's incident is not made longer for less."""


def decide(
    view: View[InboxState], command: Commands | Wake | Settled | Reconsider, policy: Policy, now: Instant
) -> Decision | Refusal:
    builder = DecisionBuilder(view, policy, now)
    match command:
        case Notify():
            return _notify(view, command, builder)
        case Wake():
            return wake(builder)
        case Reconsider():
            return advance_waiting(builder)
        case Settled():
            return settle_delivery(builder, command)
        case SetPreferences():
            return _set_preferences(builder, command)
        case CancelNotification() | ReleaseNotification():
            return intervene(builder, command)
        case BanPerson(reason):
            ban = builder.inbox.ban
            return Decision() if ban and ban.reason == reason else Decision((PersonBanned(Ban(now, reason)),))
        case UnbanPerson():
            return Decision((PersonUnbanned(),)) if builder.inbox.ban else Decision()
        case OpenIncident() | CloseIncident():
            return _set_incident(view, builder.inbox, command, now)


def _notify(view: View[InboxState], command: Notify, builder: DecisionBuilder) -> Decision:
    item = item_of(view, command, builder.policy, builder.now)
    if problems := command_problems(command, builder.policy):
        return _refuse(builder, item, problems)
    evaluation = evaluate(builder.context(item))
    # News that came too late opens no incident.
    if command.event_type == "SYSTEM" and command.metadata and evaluation.verdict.reasons[-1] != "EXPIRED":
        _update_incident(view, command, builder)
    return carry_out(builder, evaluation, is_new=True)


def item_of(view: View[InboxState], command: Notify, policy: NotificationsPolicy, now: Instant) -> Item:
    """Return the notification as rules see it, identified by the caller's key or by its segment."""
    exact, near = _prints(
        view.stream.id,
        command.event_type,
        command.source,
        command.title,
        command.message,
        command.dedupe_key,
        policy.dedup,
    )
    version = view.version + 1
    return Item(
        version,
        view.key or f"{view.stream.id}:{version}",
        command.event_type,
        command.channels,
        now,
        exact,
        near,
        command.priority_hint,
        command.expires_at,
        command.ai_score,
        command.ai_source,
        command.report_to,
        requested=command.requested,
    )


@lru_cache(maxsize=1 << 10)
def _prints(
    user_id: str, event_type: str, source: str, title: str, message: str, key: str | None, dedup: Dedup
) -> tuple[str, int | None]:
    """Return the hash and the fingerprint of a text; cached, because enrichment and dry runs evaluate it again."""
    title, message = normalise_text(title), normalise_text(message)
    exact = exact_hash(user_id, event_type, source, title, message) if key is None else exact_hash(key)
    if not dedup.near or (key is not None and not dedup.near_with_key):
        return exact, None
    text = f"{title} {message}"
    return exact, fingerprint(mask_numbers(text) if dedup.mask_numbers else text, dedup.words_min, dedup.shingle_words)


def command_problems(command: Notify, policy: NotificationsPolicy) -> tuple[tuple[str, str], ...]:
    """Return what is wrong with a notification by the policy in force."""
    is_known = command.event_type in policy.event_types and all(map(policy.channels.__contains__, command.channels))
    found = () if is_known else name_problems(command.event_type, command.channels, policy)
    return found if command.channels else (*found, ("channels", "at least one"))


def name_problems(
    event_type: str | None, channels: Iterable[str], policy: NotificationsPolicy
) -> tuple[tuple[str, str], ...]:
    """Return the names that the policy does not have, by path."""
    found = []
    if event_type is not None and event_type not in policy.event_types:
        known = ", ".join(sorted(policy.event_types))
        found.append(("event_type", f"no such type: {event_type!r:.80}; known: {known}"))
    for place, name in enumerate(channels):
        if name not in policy.channels:
            known = ", ".join(sorted(policy.channels))
            found.append((f"channels[{place}]", f"no such channel: {name!r:.80}; known: {known}"))
    return tuple(found)


def _refuse(builder: DecisionBuilder, item: Item, problems: tuple[tuple[str, str], ...]) -> Decision:
    """Raise `Invalid` to a caller. Nobody waits for an answer to what another stream sent: record it and report it."""
    message = "; ".join(f"{path}: {text}" for path, text in problems)
    if item.report_to is None:
        raise Invalid(message, problems)
    builder.events.append(Suppressed(item.version, item.event_id, ("INVALID",)))
    builder.effects.append(Send(item.report_to, TargetSettled("failed", message[:500])))
    return builder.build()


# -- incidents


def _update_incident(view: View[InboxState], command: Notify, builder: DecisionBuilder) -> None:
    """Open or end an incident by a SYSTEM event, for the person or for everybody, whatever the event's own verdict."""
    shared = command.metadata.get("scope") == "global"
    current = builder.shared_incident if shared else builder.inbox.incident
    event: IncidentOpened | IncidentClosed | None = None
    if command.metadata.get("recovery") is True:
        event = IncidentClosed(builder.now, recovered=True) if current else None
    elif command.metadata.get("incident") is True:
        opening = OpenIncident(builder.policy.incident_ttl_s, command.title)
        if not shared or not _lasts(current, builder.now + opening.ttl_s * SECOND):
            new_id = _shared_incident_id(view) if shared else _incident_id(view)
            event = incidents.open_incident(current, None, opening, new_id, builder.now)
    if event and shared:
        builder.also[incident_stream(view.stream.tenant)] = (event,)
    elif event:
        builder.events.append(event)


def _lasts(incident: Incident | None, until_at: Instant) -> bool:
    return incident is not None and incident.ends_at + _REOPENING_SLACK >= until_at


def _shared_incident_id(view: View[InboxState]) -> str:
    """Return a new id, a hash because only the state of the tenant's incident is seen here, not its version."""
    return f"{incident_stream(view.stream.tenant).id}:{spread(1 << 62, view.stream.id, view.version + 1)}"


def _incident_id(view: View[InboxState]) -> str:
    return f"user:{view.version + 1}:{view.stream.id}"


def _set_incident(
    view: View[InboxState], inbox: InboxState, command: OpenIncident | CloseIncident, now: Instant
) -> Decision | Refusal:
    current = inbox.incident
    if isinstance(command, OpenIncident):
        event = incidents.open_incident(current, inbox.incident_closed_at, command, _incident_id(view), now)
        return Decision((event,) if event else (), reply=IncidentAnswer(event.incident if event else current))
    if current is None or command.id not in (None, current.id):
        return Refusal("NO_SUCH_INCIDENT", f"there is no open incident {command.id!r}")
    return Decision((IncidentClosed(now, recovered=True),))


# -- preferences


def _set_preferences(builder: DecisionBuilder, command: SetPreferences) -> Decision | Refusal:
    version = builder.inbox.preferences_version
    if command.if_version not in (None, version):
        return Refusal("VERSION_MISMATCH", f"the preferences are at version {version}; read them again")
    if problems := preference_problems(command.preferences, builder.policy):
        raise Invalid("; ".join(f"{path}: {text}" for path, text in problems), problems)
    builder.events.append(PreferencesSet(command.preferences, version + 1, builder.now))
    reevaluate_waiting(builder, command.preferences)
    return builder.build()


def needs(stream: StreamId, command: Command, policy: Policy) -> tuple[StreamId, ...]:
    """Lock the tenant's incident for a command that opens or ends it; all others only read it."""
    if not isinstance(command, Notify) or command.event_type != "SYSTEM" or command.metadata.get("scope") != "global":
        return ()
    changes_it = command.metadata.get("incident") is True or command.metadata.get("recovery") is True
    return _incident_streams(stream.tenant) if changes_it else ()


def reads(stream: StreamId) -> tuple[StreamId, ...]:
    return _incident_streams(stream.tenant)


@lru_cache(maxsize=1 << 10)
def _incident_streams(tenant: str) -> tuple[StreamId, ...]:
    return (incident_stream(tenant),)


INBOX = Decider(
    kind="inbox",
    scope="notifications:write",
    decide=decide,
    needs=needs,
    reads=reads,
    tables=(RULES,),
    reasons=REASONS,
    replies=NotificationReply | IncidentAnswer,
    # What is due must not go out ahead of the ban.
    stops=(BanPerson,),
    heeds=(NotificationsPolicy,),
    heeding=("incident", "waiting"),
    fold=fold,
    alarm=alarm,
    index=index,
)

DECIDERS = (INBOX, FEED, incidents.INCIDENT)
