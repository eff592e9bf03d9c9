"""The stream `feed`: a person's in-app messages. Commands, events, state."""

from __future__ import annotations

import msgspec

from betimes.core.instants import Instant
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import StreamId

FEED_MAX = 200


def feed_stream(tenant: str, user_id: str) -> StreamId:
    return StreamId(tenant, "feed", user_id)


class FeedItem(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An in-app message; its texts are in these segments of the inbox."""

    id: str
    segments: tuple[int, ...]
    at: Instant
    digest: bool = False
    read_at: Instant | None = None


class FeedState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    items: tuple[FeedItem, ...] = ()


class ReadAnswer(StoredMessage):
    read_count: int
    unread_count: int


class AddMessage(StoredMessage):
    id: str
    segments: tuple[int, ...]
    at: Instant
    digest: bool = False


class MarkRead(StoredMessage):
    """These messages, or all up to an instant."""

    ids: tuple[str, ...] = ()
    all: bool = False
    before_at: Instant | None = None


class MessageAdded(StoredMessage):
    item: FeedItem


class MessagesRead(StoredMessage):
    ids: tuple[str, ...]
    at: Instant
