"""Deferral: the wakes of items that wait, quiet hours in between, and digests. LATER is a promise.

A wake does one thing: it closes an incident whose time is up, or lets a delivery that nobody took go on to its next
channel, or holds everything due until quiet hours end, or evaluates the one due item of highest priority (then the
oldest) again, or, if no single item is due, releases the digest. The engine rings again at once while anything is due.
"""

from __future__ import annotations

from betimes.core.deciders import Decision
from betimes.core.instants import Instant
from betimes.core.verdicts import Verdict
from betimes.notifications.decision_builder import DecisionBuilder, carry_out, ref_of
from betimes.notifications.delivery_results import move_on
from betimes.notifications.evaluation import evaluate
from betimes.notifications.model import Digested, DigestReleased, Held, InboxState, IncidentClosed
from betimes.notifications.objections import find_digest_objection
from betimes.notifications.rule_context import RuleContext


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
