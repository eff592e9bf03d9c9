"""Deliveries: the executors of channels, which take a notification from its segment to the person.

A call names the segments of the inbox its texts are in. They are read when the call is carried out, and so is the
person's address, so that a delivery that waited goes where the person is now. It is not sent if it has expired
meanwhile, or if the person is banned or has opted out by then. In-app messages need no executor: the inbox sends them
to the feed itself. The inbox, not the executor, chooses the next channel when one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from betimes.core.deciders import EffectCall
from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.engine.effects import Executor, GiveUp
from betimes.engine.engine import Engine
from betimes.notifications.delivery_results import UNTAKEN
from betimes.notifications.message_texts import Text, digest_title, texts_of
from betimes.notifications.model import InboxState, Item
from betimes.notifications.objections import EXPLANATIONS, find_objection
from betimes.notifications.policy import DELIVER, DELIVER_BY_FUNCTION, DELIVERY_PAUSES_S, NotificationsPolicy
from betimes.notifications.rule_context import RuleContext
from betimes.outbound.channels import ChannelMessage
from betimes.outbound.failures import giving_up
from betimes.outbound.handlers import HandlerContext, context_of

PRUNED = "its text is not on the ledger any more"
CHANNELS = ("push", "email", "sms")
MESSAGE_CHARS_MAX = 20_000
"""The longest message of a digest; items that do not fit are counted and left out."""


class Sender(Protocol):
    """Sends a message through a channel once, or raises; `outbound.channels.Channels` is one."""

    async def send(self, message: ChannelMessage, context: HandlerContext) -> None: ...


class DeliveryPayload(msgspec.Struct, frozen=True):
    """The payload of a call to a channel."""

    channel: str
    segments: tuple[int, ...]
    digest: bool = False
    pauses_s: tuple[int, ...] = DELIVERY_PAUSES_S
    take_by: Instant | None = None
    """Taken later, it is not made: the inbox goes on to the next channel."""


def delivery_executors(
    engine: Callable[[], Engine], sender: Sender, channels: Iterable[str] = CHANNELS, certain: Iterable[str] = ()
) -> dict[str, Executor]:
    """Return an executor for each of these channels; `engine` is the one that will carry out their calls.

    Of the `certain` ones this process has a function or a configuration, so it delivers what the policy leaves to a
    function too.
    """

    async def deliver(call: EffectCall) -> dict[str, Any]:
        payload = msgspec.convert(call.payload, DeliveryPayload)
        inbox, channel = call.id.source, payload.channel
        with giving_up(payload.pauses_s):
            if payload.take_by is not None and await engine().store.now() > payload.take_by:
                raise GiveUp(UNTAKEN)
            found = await load_delivery(engine(), inbox, channel, payload.segments)
            if found.objection:
                raise GiveUp(found.objection)
            title, text, metadata = compose_message(found.texts, is_digest=payload.digest)
            message = ChannelMessage(channel, inbox.id, found.address, title, text, metadata)
            await sender.send(message, context_of(call))
        return {"channel": channel}

    names = (*(DELIVER + channel for channel in channels), *(DELIVER_BY_FUNCTION + channel for channel in certain))
    return dict.fromkeys(names, deliver)


def compose_message(texts: Sequence[Text], *, is_digest: bool) -> tuple[str, str, dict[str, Any]]:
    """Return title, message and metadata of one notification or of a digest."""
    if not is_digest:
        [one] = texts
        metadata = {**one.metadata, "event_id": one.event_id, "event_type": one.event_type}
        return one.title, one.message, metadata
    lines: list[str] = []
    room = MESSAGE_CHARS_MAX
    for text in texts:
        line = f"{text.title}: {text.message}"
        room -= len(line) + 1
        if room < 0:
            lines.append(f"… and {len(texts) - len(lines)} more")
            break
        lines.append(line)
    return digest_title(texts, len(texts)), "\n".join(lines), {"digest": [text.event_id for text in texts]}


# -- just before a delivery is made: the texts that may still go out, and the person's address


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
