"""Deliveries: the executors `deliver:<channel>`, which take a notification from its segment to the person.

A call names the segments of the inbox its texts are in. They are read when it is carried out, and so is the person's
address, so that a delivery that waited goes where the person is now. What has expired meanwhile is not sent, nor what
the person is banned from or opted out of by now. In-app
messages need no executor: the inbox hands them to the feed itself. Which channel comes next when one fails is decided
by the inbox, not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from betimes.core.deciders import EffectCall
from betimes.engine.effects import Executor, GiveUp
from betimes.engine.engine import Engine
from betimes.notifications.message_texts import Text, digest_title
from betimes.notifications.pending_delivery import load_delivery
from betimes.notifications.policy import DELIVERY_PAUSES_S
from betimes.outbound.failures import giving_up

PREFIX = "deliver:"
CHANNELS = ("push", "email", "sms")
MESSAGE_CHARS_MAX = 20_000
"""Of a digest; what is over it is counted and left out."""


class Sender(Protocol):
    """Whatever can send a message through a channel once, or raise; `effects.channels.Channels` is one."""

    async def send(
        self,
        channel: str,
        address: str | None,
        title: str,
        message: str,
        *,
        id: str,
        metadata: Mapping[str, Any],
        tenant: str,
    ) -> None: ...


class Asked(msgspec.Struct, frozen=True):
    """The payload of a call to a channel."""

    channel: str
    segments: tuple[int, ...]
    digest: bool = False
    pauses_s: tuple[int, ...] = DELIVERY_PAUSES_S


def delivery_executors(
    engine: Callable[[], Engine], sender: Sender, channels: Iterable[str] = CHANNELS
) -> dict[str, Executor]:
    """Return an executor for each of these channels; `engine` is the one that will carry out their calls."""

    async def deliver(call: EffectCall) -> dict[str, Any]:
        asked = msgspec.convert(call.payload, Asked)
        inbox = call.id.source
        with giving_up(asked.pauses_s):
            found = await load_delivery(engine(), inbox, asked.channel, asked.segments)
            if found.objection:
                raise GiveUp(found.objection)
            title, message, metadata = composed(found.texts, is_digest=asked.digest)
            await sender.send(
                asked.channel, found.address, title, message, id=call.id.handle, metadata=metadata, tenant=inbox.tenant
            )
        return {"channel": asked.channel}

    return {PREFIX + channel: deliver for channel in channels}


def composed(texts: Sequence[Text], *, is_digest: bool) -> tuple[str, str, dict[str, Any]]:
    """Title, message and metadata of one notification or of a digest."""
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
