"""Interventions: cancel one waiting notification, or release it now.

A release passes over everything that only postpones (fatigue, quiet hours, cooldowns, caps, digests, the score); the
item goes out unless it has expired or the person is banned or opted out. Only an item that waits can be cancelled or
released.
"""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Decision, Refusal
from betimes.core.stored_message import StoredMessage
from betimes.core.verdicts import Verdict
from betimes.notifications.decision_builder import DecisionBuilder, release_item
from betimes.notifications.model import Item, NotificationReply
from betimes.notifications.objections import find_objection
from betimes.notifications.rule_context import RuleContext


class CancelNotification(StoredMessage):
    """End a waiting notification undelivered."""

    event_id: str


class ReleaseNotification(StoredMessage):
    """Send a waiting notification now."""

    event_id: str


def intervene(builder: DecisionBuilder, command: CancelNotification | ReleaseNotification) -> Decision | Refusal:
    """Cancel or release the item that waits under this event id; refuse if there is none."""
    item = next((one for one in builder.inbox.waiting if one.event_id == command.event_id), None)
    if item is None:
        return Refusal("NOT_WAITING", f"the notification {command.event_id!r} is not waiting; see what became of it")
    if isinstance(command, CancelNotification):
        return _end_item(builder, item, "CANCELLED")
    context = builder.context(item)
    objection = find_objection(context)
    return _end_item(builder, item, objection) if objection else _release(builder, context)


def _end_item(builder: DecisionBuilder, item: Item, reason: str) -> Decision:
    builder.suppress(item, reason)
    return builder.build(Verdict("NEVER", (*item.reasons, reason)), _reply(item))


def _release(builder: DecisionBuilder, context: RuleContext) -> Decision:
    verdict = Verdict("NOW", (*context.item.reasons, "RELEASED"))
    channels = release_item(builder, context, verdict.reasons, is_new=False)
    return builder.build(verdict, replace(_reply(context.item), channel=channels[0]))


def _reply(item: Item) -> NotificationReply:
    return NotificationReply(item.event_id, item.version, defer_count=item.defer_count)
