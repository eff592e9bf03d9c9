"""Items that wait when the preferences or the policy change. No deferral is counted.

**Preferences.** Each item is evaluated at this instant by the old preferences and by the new ones. Where both agree it
waits as promised, so that a new address postpones nothing. Where they differ, the new ones hold: the item ends, waits
for another instant, or is due at once. Items due at once go out with the wakes that follow, one segment each.

**The policy.** LATER is a promise, so nothing is postponed further. A pause whose length the policy gives (a digest's
window, a type's cooldown, the pauses after a low score and after a burst) ends when it ends by the new policy. An item
that waits for a cap keeps its instant and is evaluated by the new caps then; so does an item that was put off more than
once, because it does not record when that was.
"""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Decision
from betimes.core.instants import SECOND, Instant
from betimes.core.verdicts import Hit
from betimes.notifications.decision_builder import DecisionBuilder, keep_item
from betimes.notifications.evaluation import DigestHit, first_hit, route_of
from betimes.notifications.fold import fold
from betimes.notifications.model import Held, InboxState, Item, Postponed, Preferences, Released
from betimes.notifications.objections import find_digest_objection
from betimes.notifications.rule_context import RuleContext
from betimes.notifications.rules import cooldown_ends_at


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


def advance_waiting(builder: DecisionBuilder) -> Decision:
    """Move waiting items to an earlier instant where the policy in force allows it."""
    sooner: dict[Instant, list[int]] = {}
    for item in builder.inbox.waiting:
        until_at = _until(builder.context(item))
        if until_at is not None and until_at < item.until_at:
            sooner.setdefault(until_at, []).append(item.version)
    builder.events += [Held(tuple(items), until_at) for until_at, items in sooner.items()]
    return builder.build()


def _until(context: RuleContext) -> Instant | None:
    """Return when the item's pause ends by the policy in force; `None` if that cannot be known."""
    item, policy = context.item, context.policy
    if item.digest:
        return context.next_digest(context.now)
    match item.reasons[-1:]:
        case ("COOLDOWN_ACTIVE",):
            return context.outside_quiet(max(context.now, cooldown_ends_at(context) or 0))
        case ("SCORE_DEFER",) if item.defer_count == 1:
            return _after_pause(context, policy.score_defer_s)
        case ("FATIGUE_CAP_5M",) if item.defer_count == 1:
            return _after_pause(context, policy.fatigue.burst_pause_s)
        case _:
            return None


def _after_pause(context: RuleContext, pause_s: int) -> Instant:
    # An item that was put off once was put off when it arrived.
    return context.outside_quiet(max(context.now, context.item.accepted_at + pause_s * SECOND))
