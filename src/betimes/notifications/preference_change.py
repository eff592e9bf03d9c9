"""Preference changes: waiting items are evaluated again, and no deferral is counted.

Each item is evaluated at this instant by the old preferences and by the new ones. Where both agree it waits as
promised, so that a new address postpones nothing. Where they differ, the new ones hold: the item ends, waits for
another instant, or is due at once. Items due at once go out with the wakes that follow, one segment each.
"""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.instants import Instant
from betimes.core.verdicts import Hit
from betimes.notifications.decision_builder import DecisionBuilder
from betimes.notifications.deferral import keep_item
from betimes.notifications.evaluation import DigestHit, first_hit, route_of
from betimes.notifications.fold import fold
from betimes.notifications.model import Held, InboxState, Item, Postponed, Preferences, Released
from betimes.notifications.objections import find_digest_objection
from betimes.notifications.rule_context import RuleContext


def reevaluate_waiting(builder: DecisionBuilder, chosen: Preferences) -> None:
    """Apply a change of preferences to everything that waits, the highest priority first."""
    inbox = replace(builder.inbox, preferences=chosen)
    before = builder.inbox.preferences
    moved: dict[Instant, list[int]] = {}
    for item in sorted(inbox.waiting, key=lambda one: (-builder.context(one).rank, one.accepted_at, one.version)):
        context = _last_context(builder, inbox, item)
        hit = _waiting_hit(context)
        if hit != _waiting_hit(_last_context(builder, replace(inbox, preferences=before), item)):
            inbox = _apply_hit(builder, context, item, hit, moved)
    builder.events += [Held(tuple(items), until_at) for until_at, items in moved.items()]


def _last_context(builder: DecisionBuilder, inbox: InboxState, item: Item) -> RuleContext:
    """Return the item as it was when it was last put off: that evaluation is repeated, it is not another one."""
    count = item.defer_count - (item.defer_count > 0 and not item.digest)
    return builder.context(replace(item, defer_count=count), inbox)


def _waiting_hit(context: RuleContext) -> Hit:
    if context.item.digest:
        if reason := find_digest_objection(context):
            return Hit("NEVER", reason)
        until = context.next_digest(context.now)
        if until is not None:
            return DigestHit("LATER", context.item.reasons[-1], until)
    return first_hit(context)


def _apply_hit(
    builder: DecisionBuilder, context: RuleContext, item: Item, hit: Hit, moved: dict[Instant, list[int]]
) -> InboxState:
    """Write the new verdict on one item; return the inbox as the items behind it find it."""
    inbox, written = context.inbox, len(builder.events)
    if hit.answer == "NOW":
        if item.digest:  # there is no digest for it any more
            builder.events.append(Postponed(replace(item, digest=False, until_at=builder.now)))
        else:
            moved.setdefault(builder.now, []).append(item.version)
        channels = route_of(context).first
        return fold(inbox, Released(item.version, item.event_id, item.event_type, builder.now, channels, ()))
    if hit.answer == "NEVER":
        builder.suppress(item, hit.reason)
    else:
        assert hit.until is not None
        digest = isinstance(hit, DigestHit)
        if (hit.reason, digest) == (item.reasons[-1], item.digest):
            moved.setdefault(hit.until, []).append(item.version)
            return inbox
        deferred = replace(item, until_at=hit.until, digest=digest, reasons=(*item.reasons, hit.reason))
        keep_item(builder, context, deferred)
    for event in builder.events[written:]:
        inbox = fold(inbox, event)  # type: ignore[arg-type]
    return inbox
