"""Pending deliveries: just before one is made, the texts that may still go out and the person's address."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.notifications.message_texts import Text, texts_of
from betimes.notifications.model import InboxState, Item
from betimes.notifications.objections import EXPLANATIONS, find_objection
from betimes.notifications.policy import NotificationsPolicy
from betimes.notifications.rule_context import RuleContext

PRUNED = "its text is not on the ledger any more"


class PendingDelivery(msgspec.Struct, frozen=True):
    """The texts that may go out; without any, `objection` says why."""

    texts: tuple[Text, ...]
    address: str | None
    objection: str = ""


async def load_delivery(engine: Engine, inbox: StreamId, channel: str, segments: Iterable[int]) -> PendingDelivery:
    """Read the inbox and its texts, and check expiry, ban and opt-out; raise `NewerVersion` for a newer inbox."""
    [found] = await engine.load_states(inbox)
    state: InboxState = found or InboxState()
    policy = (await engine.policy_of(inbox.tenant))[NotificationsPolicy]
    now = await engine.store.now()
    allowed: list[Text] = []
    objection = PRUNED
    for version, text in (await texts_of(engine.store, inbox, segments)).items():
        item = Item(version, text.event_id, text.event_type, (channel,), now, exact="")
        item = replace(item, priority=text.priority, expires_at=text.expires_at)
        reason = find_objection(RuleContext(inbox, state, None, item, policy, now))
        if reason:
            objection = EXPLANATIONS[reason]
        else:
            allowed.append(text)
    address = state.preferences.addresses.get(channel)
    return PendingDelivery(tuple(allowed), address, "" if allowed else objection)
