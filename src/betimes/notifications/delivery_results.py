"""What follows when a call to a channel has ended: delivered, on to the next channel, or failed for good."""

from __future__ import annotations

from betimes.core.deciders import Decision, Settled
from betimes.domain.completions import TargetSettled
from betimes.notifications.decision_builder import Draft
from betimes.notifications.model import ChannelFailed, Delivered, Delivery, InboxState, Rerouted
from betimes.notifications.policy import IN_APP

_ERROR_CHARS = 200


def settled(draft: Draft, inbox: InboxState, end: Settled) -> Decision:
    segment, _, place_text = end.effect.rpartition(":")
    version, place = int(segment.rpartition(":")[2]), int(place_text)
    delivery = next((one for one in inbox.delivering if one.version == version), None)
    channel = end.executor.partition(":")[2]
    if end.status == "done":
        draft.events.append(Delivered(channel, draft.now, version, place, end.attempts))
        if delivery and not delivery.delivered:
            draft.report(delivery.refs, TargetSettled("delivered"))
        return draft.decision()
    error = end.error[:_ERROR_CHARS]
    draft.events.append(ChannelFailed(channel, draft.now, version, place, end.attempts, error))
    if delivery and not delivery.delivered and [call for call in delivery.pending if call[0] != place] == []:
        _go_on(draft, delivery, channel, error)
    return draft.decision()


def _go_on(draft: Draft, delivery: Delivery, channel: str, error: str) -> None:
    """Nothing else of it is under way: the next channel, if there is one. What has expired is only kept in the feed."""
    if not delivery.rest:
        draft.fail(delivery.refs, channel, error)
        return
    is_late = delivery.expires_at is not None and delivery.expires_at < draft.now
    following, *rest = (IN_APP,) if is_late else delivery.rest
    again = draft.launch(
        delivery.refs, (following,), tuple(rest), digest=delivery.digest, expires_at=delivery.expires_at
    )
    items = tuple(ref.item for ref in delivery.refs)
    draft.events.append(Rerouted(items, following, draft.now, again))
    draft.arrived(delivery.refs, (following,))
