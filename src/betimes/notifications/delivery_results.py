"""Delivery results: a call to a channel has ended, so it is delivered, goes to the next channel, or has failed."""

from __future__ import annotations

from betimes.core.deciders import Decision, Settled
from betimes.domain.completions import TargetSettled
from betimes.notifications.decision_builder import DecisionBuilder
from betimes.notifications.model import ChannelFailed, Delivered, Delivery, Rerouted
from betimes.notifications.policy import IN_APP, channel_of

UNTAKEN = "no process took it in time, so the next channel was tried"
_ERROR_CHARS = 200


def settle_delivery(builder: DecisionBuilder, end: Settled) -> Decision:
    """Record how a call ended; after the last one that failed, try the next channel or give up."""
    segment, _, place_text = end.effect.rpartition(":")
    version, place = int(segment.rpartition(":")[2]), int(place_text)
    delivery = next((one for one in builder.inbox.delivering if one.version == version), None)
    channel = channel_of(end.executor) or ""
    if end.status == "done":
        builder.events.append(Delivered(channel, builder.now, version, place, end.attempts))
        if delivery and not delivery.delivered:
            builder.report_ending(delivery.refs, TargetSettled("delivered"))
        return builder.build()
    error = end.error[:_ERROR_CHARS]
    builder.events.append(ChannelFailed(channel, builder.now, version, place, end.attempts, error))
    if delivery and not delivery.delivered and [call for call in delivery.pending if call[0] != place] == []:
        _try_next_channel(builder, delivery, channel, error)
    return builder.build()


def move_on(builder: DecisionBuilder, delivery: Delivery) -> Decision:
    """Try the next channel although no call has ended: none was claimed in time, and none will be made later."""
    for place, channel in delivery.pending:
        builder.events.append(ChannelFailed(channel, builder.now, delivery.version, place, 0, UNTAKEN))
    _try_next_channel(builder, delivery, delivery.pending[-1][1], UNTAKEN)
    return builder.build()


def _try_next_channel(builder: DecisionBuilder, delivery: Delivery, channel: str, error: str) -> None:
    """Launch the next channel, or fail if there is none. An expired item is only kept in the feed."""
    if not delivery.rest:
        builder.fail(delivery.refs, channel, error)
        return
    is_late = delivery.expires_at is not None and delivery.expires_at < builder.now
    following, *rest = (IN_APP,) if is_late else delivery.rest
    again = builder.launch(
        delivery.refs, (following,), tuple(rest), digest=delivery.digest, expires_at=delivery.expires_at
    )
    items = tuple(ref.item for ref in delivery.refs)
    builder.events.append(Rerouted(items, following, builder.now, again))
