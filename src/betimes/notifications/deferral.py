"""Deferral: items that wait, their next evaluation, quiet hours in between, and digests. LATER is a promise.

A wake does one thing: it closes an incident whose time is up, or lets a delivery that nobody took go on to its next
channel, or holds everything due until quiet hours end, or evaluates the one due item of highest priority (then the
oldest) again, or, if no single item is due, releases the digest. The engine rings again at once while anything is due.
"""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Decision
from betimes.core.instants import DAY, Instant
from betimes.core.verdicts import Verdict
from betimes.notifications.decision_builder import DecisionBuilder, ref_of
from betimes.notifications.delivery_results import move_on
from betimes.notifications.evaluation import ItemEvaluation, evaluate, route_of
from betimes.notifications.model import (
    DIGEST_MAX,
    WAITING_MAX,
    Digested,
    DigestReleased,
    Held,
    InboxState,
    IncidentClosed,
    Item,
    Postponed,
    Released,
)
from betimes.notifications.objections import find_digest_objection
from betimes.notifications.rule_context import RANK, RuleContext


def carry_out(builder: DecisionBuilder, evaluation: ItemEvaluation, *, is_new: bool) -> Decision:
    """Apply the verdict on an item: release it, keep it waiting, or end it."""
    context, verdict, reply = evaluation.context, evaluation.verdict, evaluation.reply
    item, reason, until_at = context.item, verdict.reasons[-1], verdict.until
    if verdict.answer == "NEVER":
        builder.suppress(item, reason)
        return builder.build(verdict, reply)
    if context.matches:
        _suppress_superseded(builder, context)
    if verdict.answer == "NOW":
        channels = release_item(builder, context, verdict.reasons, is_new=is_new)
        return builder.build(verdict, replace(reply, channel=channels[0]))
    assert until_at is not None
    # To wait for a digest is no deferral: it ends by itself, and must not use up the limit.
    count = item.defer_count + (not evaluation.digest)
    deferred = replace(item, until_at=until_at, defer_count=count, digest=evaluation.digest, reasons=verdict.reasons)
    kept = keep_item(builder, context, deferred)
    if kept is None:
        reasons = (*verdict.reasons, "INBOX_FULL")
        return builder.build(Verdict("NEVER", reasons, verdict.table, trace=verdict.trace), reply)
    # Moved to a digest for want of room, it passes with that.
    passes_at = verdict.would_pass_at if kept.until_at == until_at else kept.until_at
    verdict = replace(verdict, until=kept.until_at, would_pass_at=passes_at)
    return builder.build(verdict, reply, promised_at=_promised_at(context, kept))


def release_item(
    builder: DecisionBuilder, context: RuleContext, reasons: tuple[str, ...], *, is_new: bool
) -> tuple[str, ...]:
    """Send an item out now; return the channels it takes. One that never waited brings its hashes along."""
    item, route, refs = context.item, route_of(context), (ref_of(context.item),)
    # A rule that is only tried out must not stop the delivery either.
    expires_at = None if "expiry" in builder.policy.shadow_rules else item.expires_at
    delivery = builder.launch(refs, route.first, route.rest, expires_at=expires_at)
    hashes = (item.exact, item.near) if is_new else ("", None)
    builder.events.append(
        Released(item.version, item.event_id, item.event_type, context.now, route.first, reasons, *hashes, delivery)
    )
    return route.first


def _suppress_superseded(builder: DecisionBuilder, context: RuleContext) -> None:
    """End waiting originals of lower priority as duplicates of the item that takes their place."""
    distances = {item: distance for item, distance, _ in reversed(context.matches)}
    for one in context.superseded_items:
        builder.suppress(one, "DEDUP_EXACT" if distances[one.version] is None else "DEDUP_NEAR")


def _promised_at(context: RuleContext, item: Item) -> Instant:
    """Return the latest instant at which its text may be needed: it is settled by the digest two days later."""
    settled_by = item.until_at + 2 * DAY
    return context.next_digest(settled_by) or settled_by


# -- bounds


def keep_item(builder: DecisionBuilder, context: RuleContext, item: Item) -> Item | None:
    """Put an item among those that wait; return it as it waits, or `None` if it found no room.

    If there is no room, the lowest and oldest moves to the digest, or ends.
    """
    # What this decision supersedes leaves with it, and takes no room from the item.
    gone = {one.version for one in context.superseded_items} | {item.version}
    others = [one for one in context.inbox.waiting if one.version not in gone]
    singles = [one for one in others if not one.digest]
    gathered = [one for one in others if one.digest]
    if not item.digest and len(singles) >= WAITING_MAX:
        lowest = min((*singles, item), key=_worth)
        until = context.next_digest(context.now) if len(gathered) < DIGEST_MAX else None
        if until is None:
            return _evict(builder, lowest, item)
        moved = replace(lowest, digest=True, until_at=until)
        builder.events.append(Postponed(moved))
        if lowest is item:
            return moved
    elif item.digest and len(gathered) >= DIGEST_MAX:
        return _evict(builder, min((*gathered, item), key=_worth), item)
    builder.events.append(Postponed(item))
    return item


def _evict(builder: DecisionBuilder, lowest: Item, item: Item) -> Item | None:
    """End the lowest item for want of room; keep the new one, unless it is the lowest itself."""
    builder.suppress(lowest, "INBOX_FULL")
    if lowest is item:
        return None
    builder.events.append(Postponed(item))
    return item


def _worth(item: Item) -> tuple[int, Instant, int]:
    """Order items by priority, then by age: the lowest and oldest first."""
    return RANK[item.priority], item.accepted_at, item.version


# -- wakes


def wake(builder: DecisionBuilder) -> Decision:
    """Do the first thing that is due; see the top of this file."""
    now, incident = builder.now, builder.inbox.incident
    if incident and incident.ends_at <= now:
        builder.events.append(IncidentClosed(incident.ends_at))
        return builder.build()
    for delivery in builder.inbox.delivering:
        if delivery.moves_on_at is not None and delivery.moves_on_at <= now:
            return move_on(builder, delivery)
    contexts = [builder.context(item) for item in builder.inbox.waiting if item.until_at <= now]
    if not contexts:
        return builder.build()
    if contexts[0].quiet_until is not None and "quiet_hours" not in builder.policy.shadow_rules:
        return _hold(builder, contexts, contexts[0].outside_quiet(now))
    singles = [context for context in contexts if not context.item.digest]
    if not singles:
        return _release_digest(builder)
    first = min(singles, key=lambda context: (-context.rank, context.item.accepted_at, context.item.version))
    return carry_out(builder, evaluate(first), is_new=False)


def _hold(builder: DecisionBuilder, contexts: list[RuleContext], until_at: Instant) -> Decision:
    builder.events.append(Held(tuple(context.item.version for context in contexts), until_at))
    return builder.build()


def _release_digest(builder: DecisionBuilder) -> Decision:
    """Send all gathered items as one, but those that must not go out any more; while no channel has room, hold it."""
    kept: list[RuleContext] = []
    for context in (builder.context(item) for item in builder.inbox.waiting if item.digest):
        if reason := find_digest_objection(context):
            builder.suppress(context.item, reason)
        else:
            kept.append(context)
    if not kept:
        return builder.build()
    channels = _digest_channels(builder.inbox, kept)
    channel = next(filter(kept[0].has_room, channels), channels[0])
    room_at = min(map(kept[0].channel_free_at, channels))
    if room_at > builder.now and "channel_cap" not in builder.policy.shadow_rules:
        return _hold(builder, kept, kept[0].outside_quiet(room_at))
    refs = tuple(ref_of(context.item) for context in kept)
    delivery = builder.launch(refs, (channel,), digest=True)
    for context in kept:
        item = context.item
        builder.events.append(Digested(item.version, item.event_id, (*item.reasons, "DIGEST_RELEASED")))
    builder.events.append(DigestReleased(builder.now, channel, delivery))
    return builder.build(Verdict("NOW", ("DIGEST_RELEASED",)))


def _digest_channels(inbox: InboxState, kept: list[RuleContext]) -> tuple[str, ...]:
    """Return the channels of a digest, in order: the person's choice, then those of its items, the newest first."""
    chosen = inbox.preferences.digest_channel
    is_open = chosen in kept[0].policy.channels and chosen not in inbox.preferences.opt_out.channels
    newest_first = sorted(kept, key=lambda context: (context.item.accepted_at, context.item.version), reverse=True)
    names = [name for context in newest_first for name in context.usable_channels]
    return tuple(dict.fromkeys([chosen, *names] if chosen and is_open else names))
