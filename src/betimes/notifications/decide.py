"""An inbox decides: does this person hear this NOW, LATER or NEVER?

The rules are in `rules.py`; here a command becomes a case, and what a person or an administrator sets is checked.
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
from betimes.notifications.decision_builder import Draft
from betimes.notifications.deferral import carry_out, wake
from betimes.notifications.delivery_results import settled
from betimes.notifications.evaluation import judged
from betimes.notifications.feed import FEED
from betimes.notifications.fingerprints import exact_hash, fingerprint, masked, normalised
from betimes.notifications.fold import alarm, fold, index
from betimes.notifications.interventions import CancelNotification, ReleaseNotification, intervene
from betimes.notifications.model import (
    Answer,
    Ban,
    BanPerson,
    CloseIncident,
    InboxCommands,
    InboxEvents,
    InboxState,
    Incident,
    IncidentAnswer,
    IncidentClosed,
    IncidentOpened,
    Item,
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
from betimes.notifications.policy_change import reconsidered
from betimes.notifications.preference_change import rejudge_waiting
from betimes.notifications.preferences import preference_problems
from betimes.notifications.reasons import REASONS
from betimes.notifications.rule_context import Case
from betimes.notifications.rules import RULES

Commands: TypeAlias = InboxCommands | CancelNotification | ReleaseNotification
_REOPENING_SLACK = MINUTE
"""A fan-out says the same to many; the tenant's incident is not made longer for less."""


def decide(
    view: View[InboxState], command: Commands | Wake | Settled | Reconsider, policy: Policy, now: Instant
) -> Decision | Refusal:
    inbox = view.state or InboxState()
    draft = Draft(view, policy, now)
    match command:
        case Notify():
            return _notify(view, inbox, command, draft)
        case Wake():
            return wake(draft, inbox, shared_incident(view))
        case Reconsider():
            return reconsidered(draft, inbox, shared_incident(view))
        case Settled():
            return settled(draft, inbox, command)
        case SetPreferences():
            return _set_preferences(draft, inbox, shared_incident(view), command)
        case CancelNotification() | ReleaseNotification():
            return intervene(draft, inbox, shared_incident(view), command)
        case BanPerson(reason):
            return (
                Decision() if inbox.ban and inbox.ban.reason == reason else Decision((PersonBanned(Ban(now, reason)),))
            )
        case UnbanPerson():
            return Decision((PersonUnbanned(),)) if inbox.ban else Decision()
        case OpenIncident() | CloseIncident():
            return _incident(view, inbox, command, now)


def _notify(view: View[InboxState], inbox: InboxState, command: Notify, draft: Draft) -> Decision:
    item = item_of(view, command, draft.policy, draft.now)
    if problems := command_problems(command, draft.policy):
        return _unfit(draft, item, problems)
    judgement = judged(Case(view.stream, inbox, shared_incident(view), item, draft.policy, draft.now))
    if command.event_type == "SYSTEM" and command.metadata and judgement.fate.reason != "EXPIRED":
        _heed(view, inbox, command, draft)
    return carry_out(draft, inbox, judgement, is_new=True)


def item_of(view: View[InboxState], command: Notify, policy: NotificationsPolicy, now: Instant) -> Item:
    """The notification as rules see it, identified by the caller's key or by its text."""
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
    """What exact and near duplicates are known by; a draft is judged more than once, and under several policies."""
    title, message = normalised(title), normalised(message)
    exact = exact_hash(user_id, event_type, source, title, message) if key is None else exact_hash(key)
    if not dedup.near or (key is not None and not dedup.near_with_key):
        return exact, None
    text = f"{title} {message}"
    return exact, fingerprint(masked(text) if dedup.mask_numbers else text, dedup.words_min, dedup.shingle_words)


def command_problems(command: Notify, policy: NotificationsPolicy) -> tuple[tuple[str, str], ...]:
    """What the policy in force does not know."""
    found = name_problems(command.event_type, command.channels, policy)
    return found if command.channels else (*found, ("channels", "at least one"))


def name_problems(
    event_type: str | None, channels: Iterable[str], policy: NotificationsPolicy
) -> tuple[tuple[str, str], ...]:
    found = []
    if event_type is not None and event_type not in policy.event_types:
        found.append(("event_type", f"no such type: {event_type!r:.80}; known are {_listed(policy.event_types)}"))
    for place, name in enumerate(channels):
        if name not in policy.channels:
            found.append((f"channels[{place}]", f"no such channel: {name!r:.80}; known are {_listed(policy.channels)}"))
    return tuple(found)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _unfit(draft: Draft, item: Item, problems: tuple[tuple[str, str], ...]) -> Decision:
    """A caller is told at once. Whoever only hears of it by report is told that way, and it is recorded."""
    message = "; ".join(f"{path}: {text}" for path, text in problems)
    if item.report_to is None:
        raise Invalid(message, problems)
    draft.events.append(Suppressed(item.version, item.event_id, ("INVALID",)))
    draft.effects.append(Send(item.report_to, TargetSettled("failed", message[:500])))
    return draft.decision()


# -- incidents


def shared_incident(view: View[InboxState]) -> Incident | None:
    """The whole tenant's, as it was last committed."""
    state = view.others.get(incident_stream(view.stream.tenant))
    return state.incident if state else None


def _is_news_for_all(command: Command) -> bool:
    """Whether it is news for the whole tenant, so that its incident is written in the same turn."""
    if not isinstance(command, Notify) or command.event_type != "SYSTEM" or command.metadata.get("scope") != "global":
        return False
    return command.metadata.get("incident") is True or command.metadata.get("recovery") is True


def _heed(view: View[InboxState], inbox: InboxState, command: Notify, draft: Draft) -> None:
    """A SYSTEM event opens an incident or ends it, for the person or for everybody, whatever becomes of itself."""
    shared = command.metadata.get("scope") == "global"
    current = shared_incident(view) if shared else inbox.incident
    event: IncidentOpened | IncidentClosed | None = None
    if command.metadata.get("recovery") is True:
        event = IncidentClosed(draft.now, recovered=True) if current else None
    elif command.metadata.get("incident") is True:
        opening = OpenIncident(draft.policy.incident_ttl_s, command.title)
        if not shared or not _lasts(current, draft.now + opening.ttl_s * SECOND):
            new_id = _shared_incident_id(view) if shared else _incident_id(view)
            event = incidents.opened(current, None, opening, new_id, draft.now)
    if event and shared:
        draft.also[incident_stream(view.stream.tenant)] = (event,)
    elif event:
        draft.events.append(event)


def _lasts(incident: Incident | None, until_at: Instant) -> bool:
    return incident is not None and incident.ends_at + _REOPENING_SLACK >= until_at


def _shared_incident_id(view: View[InboxState]) -> str:
    """A number of its own: of the tenant's incident only the state is seen, not the version."""
    return f"{incident_stream(view.stream.tenant).id}:{spread(1 << 62, view.stream.id, view.version + 1)}"


def _incident_id(view: View[InboxState]) -> str:
    return f"user:{view.version + 1}:{view.stream.id}"


def _incident(
    view: View[InboxState], inbox: InboxState, command: OpenIncident | CloseIncident, now: Instant
) -> Decision | Refusal:
    current = inbox.incident
    if isinstance(command, OpenIncident):
        event = incidents.opened(current, inbox.incident_closed_at, command, _incident_id(view), now)
        return Decision((event,) if event else (), reply=IncidentAnswer(event.incident if event else current))
    if current is None or command.id not in (None, current.id):
        return Refusal("NO_SUCH_INCIDENT", f"there is no open incident {command.id!r}")
    return Decision((IncidentClosed(now, recovered=True),))


# -- preferences


def _set_preferences(
    draft: Draft, inbox: InboxState, shared: Incident | None, command: SetPreferences
) -> Decision | Refusal:
    if command.if_version not in (None, inbox.preferences_version):
        return Refusal(
            "VERSION_MISMATCH", f"the preferences are at version {inbox.preferences_version}; read them again"
        )
    if problems := preference_problems(command.preferences, draft.policy):
        raise Invalid("; ".join(f"{path}: {text}" for path, text in problems), problems)
    draft.events.append(PreferencesSet(command.preferences, inbox.preferences_version + 1, draft.now))
    rejudge_waiting(draft, inbox, shared, command.preferences)
    return draft.decision()


def needs(stream: StreamId, command: Command, policy: Policy) -> tuple[StreamId, ...]:
    """News for the whole tenant holds its incident; everybody else only looks at it."""
    return _shared_by_all(stream.tenant) if _is_news_for_all(command) else ()


def reads(stream: StreamId) -> tuple[StreamId, ...]:
    return _shared_by_all(stream.tenant)


@lru_cache(maxsize=1 << 10)
def _shared_by_all(tenant: str) -> tuple[StreamId, ...]:
    return (incident_stream(tenant),)


INBOX: Decider[InboxState] = Decider(
    kind="inbox",
    state=InboxState,
    scope="notifications:write",
    commands=Commands,
    events=InboxEvents,
    decide=decide,
    fold=fold,
    alarm=alarm,
    index=index,
    needs=needs,
    reads=reads,
    replies=Answer | IncidentAnswer,
    stops=(BanPerson,),
    tables=(RULES,),
    reasons=REASONS,
    heeds=(NotificationsPolicy,),
    heeding=("incident", "waiting"),
)

DECIDERS = (INBOX, FEED, incidents.INCIDENT)
