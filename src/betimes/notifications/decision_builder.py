"""The decision builder: collects the events and effects of one turn on an inbox, in order.

Calls go to the executor of their channel and say which segments the texts are in. In-app messages are a command to
the person's feed, in the same commit, so they cannot fail. `carry_out` applies a verdict with it: an item goes out,
waits among a bounded number of others, or ends.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Call, Decision, Effect, Event, Send, View
from betimes.core.instants import DAY, MINUTE, Instant
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.core.verdicts import Verdict
from betimes.domain.completions import TargetSettled
from betimes.domain.hooks import hook_effects
from betimes.notifications.evaluation import ItemEvaluation, route_of
from betimes.notifications.feed_model import AddMessage, feed_stream
from betimes.notifications.model import (
    DIGEST_MAX,
    WAITING_MAX,
    Delivered,
    Delivery,
    DeliveryFailed,
    InboxState,
    Item,
    Postponed,
    Ref,
    Released,
    Suppressed,
)
from betimes.notifications.policy import DELIVER, DELIVER_BY_FUNCTION, DELIVERY_PAUSES_S, IN_APP, NotificationsPolicy
from betimes.notifications.rule_context import RANK, RuleContext, shared_incident

TAKEN_WITHIN, MOVES_ON_AFTER = MINUTE, 2 * MINUTE
"""When a call to a function must be begun, and have ended, if there is another channel to go on to."""
HOOK_KEY = "delivery-failed"
"""Keys of what hooks cause begin with it; a failure of that causes nothing more."""


class DecisionBuilder:
    """One turn on an inbox: the state it starts from, and the events and effects it will write."""

    def __init__(self, view: View[InboxState], policy: Policy, now: Instant) -> None:
        self.stream: StreamId = view.stream
        self.version = view.version + 1
        self.inbox = view.state or InboxState()
        self.shared_incident = shared_incident(view)
        self.now = now
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self.also: dict[StreamId, tuple[Event, ...]] = {}
        self.policy: NotificationsPolicy = policy[NotificationsPolicy]
        self._whole_policy = policy
        self._in_app_refs: tuple[Ref, ...] = ()
        """The items whose in-app message arrives with this very commit."""

    def context(self, item: Item, inbox: InboxState | None = None) -> RuleContext:
        """Return an item of this inbox as the rules see it, or in an inbox that was changed meanwhile."""
        return RuleContext(self.stream, inbox or self.inbox, self.shared_incident, item, self.policy, self.now)

    def build(self, verdict: Verdict | None = None, reply: Any = None, promised_at: Instant | None = None) -> Decision:
        """Return the decision. An in-app delivery is recorded with it: the feed's message is in the same commit."""
        if self._in_app_refs:
            self.events.append(Delivered(IN_APP, self.now, self.version))
            self.report_ending(self._in_app_refs, TargetSettled("delivered"))
        return Decision(
            tuple(self.events), self.also, tuple(self.effects), verdict=verdict, reply=reply, promised_at=promised_at
        )

    # -- deliveries

    def launch(
        self,
        refs: tuple[Ref, ...],
        channels: tuple[str, ...],
        rest: tuple[str, ...] = (),
        *,
        digest: bool = False,
        expires_at: Instant | None = None,
    ) -> Delivery | None:
        """Ask for the one delivery of this turn; return `None` if no call is needed."""
        segments = tuple(ref.item for ref in refs)
        pending = []
        for channel in channels:
            if channel == IN_APP:
                self._in_app_refs = refs
                message = AddMessage(f"m{self.version}", segments, self.now, digest)
                self.effects.append(Send(feed_stream(self.stream.tenant, self.stream.id), message))
            else:
                pending.append((len(self.effects), channel))
                self.effects.append(self._call(channel, segments, bool(rest), digest, expires_at))
        in_app = IN_APP in channels
        if not pending:
            return None
        # What is in the feed has arrived, so there is nothing to go on to.
        rest = () if in_app else rest
        # No process may have the function of a channel; whoever must be told is told by the next one.
        is_patient = not rest or self.policy.function_channels.isdisjoint(channels)
        moves_on_at = None if is_patient else self.now + MOVES_ON_AFTER
        return Delivery(self.version, refs, tuple(pending), rest, in_app, digest, expires_at, moves_on_at)

    def _call(
        self, channel: str, segments: tuple[int, ...], has_rest: bool, digest: bool, expires_at: Instant | None
    ) -> Call:
        payload: dict[str, Any] = {"channel": channel, "segments": segments}
        if digest:
            payload["digest"] = True
        if expires_at is not None:
            payload["expires_at"] = expires_at
        if self.policy.delivery_pauses_s != DELIVERY_PAUSES_S:
            payload["pauses_s"] = self.policy.delivery_pauses_s
        # Where there is a channel to go on to, one that fails is not tried again.
        attempts = 1 if has_rest else self.policy.delivery_attempts
        if channel not in self.policy.function_channels:
            return Call(DELIVER + channel, payload, attempts_max=attempts, report_to=self.stream)
        if has_rest:
            payload["take_by"] = self.now + TAKEN_WITHIN
        return Call(DELIVER_BY_FUNCTION + channel, payload, attempts_max=attempts, report_to=self.stream)

    # -- endings

    def report_ending(self, refs: tuple[Ref, ...], ending: TargetSettled) -> None:
        """Tell the streams that asked to hear how it ended."""
        self.effects += [Send(ref.report_to, ending) for ref in refs if ref.report_to]

    def suppress(self, item: Item, *reasons: str) -> None:
        """End an item undelivered."""
        self.events.append(Suppressed(item.version, item.event_id, (*item.reasons, *reasons)))
        self.report_ending((ref_of(item),), TargetSettled("suppressed", reasons[-1] if reasons else item.reasons[-1]))

    def fail(self, refs: tuple[Ref, ...], channel: str, error: str) -> None:
        """End items that no channel took, and ask for the hooks of that occasion."""
        self.events.append(DeliveryFailed(tuple(ref.item for ref in refs), self.now))
        self.report_ending(refs, TargetSettled("failed", "DELIVERY_FAILED"))
        event_ids = [ref.event_id for ref in refs]
        if not all(event_id.startswith(HOOK_KEY) for event_id in event_ids):
            self.effects += hook_effects(
                self._whole_policy,
                self.stream.tenant,
                "DELIVERY_FAILED",
                key=f"{HOOK_KEY}:{self.stream.id}:{self.version}",
                at=self.now,
                subject=self.stream.id,
                detail={
                    "tenant_id": self.stream.tenant,
                    "user_id": self.stream.id,
                    "event_ids": event_ids,
                    "channel": channel,
                    "error": error,
                },
            )


def ref_of(item: Item) -> Ref:
    return Ref(item.version, item.event_id, item.report_to)


# -- verdicts


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
