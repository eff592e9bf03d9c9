"""Targets: what a schedule, a sensor or a hook may cause, and how the domains talk about it.

A target is data in a definition or a policy. `effect_of` turns it into the one effect that asks for it: a command to
another stream, applied exactly once under the cause's key, or a call to a named executor. The stream
`report_to` learns how any target ended: a call's end comes as `Settled`, a notification's as `TargetSettled`, and a
trigger's run is that stream itself.

The executors that calls name: `handler:<name>` is given `body`, `webhook` is given `{url, body}`, `sweep` is given
nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

import msgspec

from betimes.core.deciders import Call, Effect, Send
from betimes.core.instants import Instant, parse
from betimes.core.names import HandlerName, Id, Url
from betimes.core.streams import StreamId
from betimes.notifications.model import NOTIFICATIONS, Notify, Priority, inbox_stream
from betimes.runs.model import TRIGGERS, RequestRun, account_stream, agreed_request
from betimes.schedules.nominal_time import NominalTime

RUN_KEY = "{run_key}"
WITHIN_THE_PROCESS = ("admin",)
"""The scopes of a definition whose author's are not recorded; the commands it may send are listed all the same."""


class _Target(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True, forbid_unknown_fields=True): ...


class TriggerTarget(_Target, tag="trigger", frozen=True, gc=False):
    trigger_type: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^[A-Z][A-Z0-9_]{0,63}\Z",
            description="a name of A–Z, 0–9 and _, at most 64, beginning with a letter",
        ),
    ]
    account_id: Id | None = None
    """Default: the subject's own."""


class NotificationTarget(_Target, tag="notification", frozen=True, gc=False):
    event_type: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=120)]
    message: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    channels: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=8)]
    user_id: Id | None = None
    """Default: the subject's own."""
    priority_hint: Priority | None = None
    expires_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """Kept in UTC."""
    dedupe_key: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None
    """`{run_key}` in it stands for the key of the cause. Default: a run's key, else the text is compared."""
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.expires_at is not None:
            msgspec.structs.force_setattr(self, "expires_at", self.expires_at.astimezone(UTC))


class SweepTarget(_Target, tag="sweep", frozen=True, gc=False):
    """Decay every score that is due."""


class StreamName(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    kind: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^[a-z][a-z0-9_]{0,31}\Z",
            description="a name of a–z, 0–9 and _, at most 32, beginning with a letter",
        ),
    ]
    id: Id


class CommandTarget(_Target, tag="command", frozen=True, gc=False):
    stream: StreamName
    command: dict[str, Any]
    """In the form that the stream's decider reads: `type` names the command."""


class HandlerTarget(_Target, tag="handler", frozen=True, gc=False):
    name: HandlerName


class WebhookTarget(_Target, tag="webhook", frozen=True, gc=False):
    url: Url


Target: TypeAlias = TriggerTarget | NotificationTarget | SweepTarget | CommandTarget | HandlerTarget | WebhookTarget


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a target: its key, instant, subject and payload."""

    key: str
    """The idempotency key or event id of what is caused."""
    at: Instant
    subject: str = ""
    """The account or user of whatever caused it, for targets that name none."""
    payload: dict[str, Any] = {}
    body: Any = None
    """The payload of a handler or webhook."""
    report_to: StreamId | None = None
    is_run: bool = False
    """Whether the key is a run's: every tick and message has its own, so no two notifications of them are the same."""
    correlation: str = ""
    """The correlation id; by default that of the turn that causes it, or else its key."""
    by_hook: bool = False
    """Whether a hook asks; the run it leads to causes no hooks itself, so that none goes round in circles."""
    nominal: NominalTime | None = None
    """The instant a tick is scheduled for; `at` is when it fires."""
    authority: tuple[str, ...] | None = None
    """The scopes of the key that defined it; `None`: the process itself, or not recorded then."""

    @property
    def scheduled_at(self) -> Instant:
        return self.nominal.scheduled_for if self.nominal else self.at


def effect_of(tenant: str, target: Target, cause: Cause) -> Effect:
    """Return the effect that asks for the target."""
    match target:
        case TriggerTarget(trigger_type, account_id):
            account = account_stream(tenant, account_id or cause.subject)
            run_id = cause.report_to.id if cause.report_to else None
            asked = RequestRun(
                trigger_type,
                scheduled_at=cause.scheduled_at,
                payload=cause.payload,
                run_id=run_id,
                by_hook=cause.by_hook,
                nominal=cause.nominal,
                correlation=cause.correlation,
            )
            request = agreed_request(account.id, trigger_type)
            return Send(account, asked, cause.key, TRIGGERS, request, cause.authority)
        case NotificationTarget():
            inbox = inbox_stream(tenant, target.user_id or cause.subject)
            return Send(inbox, _notify(target, cause), cause.key, NOTIFICATIONS, inbox.id, cause.authority)
        case SweepTarget():
            return Call("sweep", report_to=cause.report_to)
        case CommandTarget(stream, command):
            # A command that was written down is checked when it arrives, whoever wrote it.
            authority = WITHIN_THE_PROCESS if cause.authority is None else cause.authority
            return Send(StreamId(tenant, stream.kind, stream.id), command, cause.key, authority=authority)
        case HandlerTarget(name):
            return Call(f"handler:{name}", cause.body, report_to=cause.report_to)
        case WebhookTarget(url):
            return Call("webhook", {"url": url, "body": cause.body}, report_to=cause.report_to)


def _notify(target: NotificationTarget, cause: Cause) -> Notify:
    expires_at = None if target.expires_at is None else parse(target.expires_at.isoformat())
    return Notify(
        target.event_type,
        target.title,
        target.message,
        target.source,
        target.channels,
        target.priority_hint,
        cause.at,
        expires_at,
        _dedupe_key(target, cause),
        {**target.metadata, **cause.payload},
        cause.report_to,
    )


def _dedupe_key(target: NotificationTarget, cause: Cause) -> str | None:
    if target.dedupe_key is None:
        return cause.key if cause.is_run else None
    return target.dedupe_key.replace(RUN_KEY, cause.key)


def permits(allowed: Target, chosen: Target) -> bool:
    """Return whether a definition that allows one target lets an evaluator choose the other.

    An evaluator may choose the account of a trigger, and the person and the words of a notification. A person or an
    account that the definition names is fixed; everything else is as the definition says.
    """
    match allowed, chosen:
        case TriggerTarget(trigger_type, None), TriggerTarget():
            return chosen.trigger_type == trigger_type
        case NotificationTarget(), NotificationTarget():
            return _with_words_of(allowed, chosen) == allowed
        case _:
            return allowed == chosen


def _with_words_of(allowed: NotificationTarget, chosen: NotificationTarget) -> NotificationTarget:
    return msgspec.structs.replace(
        chosen,
        title=allowed.title,
        message=allowed.message,
        expires_at=allowed.expires_at,
        dedupe_key=allowed.dedupe_key,
        metadata=allowed.metadata,
        # Compared only where the definition names somebody; a person that it leaves open may be anyone.
        user_id=chosen.user_id if allowed.user_id else None,
    )
