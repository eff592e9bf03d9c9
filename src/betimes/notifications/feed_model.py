"""The stream `feed`: a person's in-app messages. Commands, events, state."""

from __future__ import annotations

import msgspec

from betimes.core.instants import Instant
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


class ReadAnswer(msgspec.Struct, frozen=True, tag=True):
    read_count: int
    unread_count: int


class AddMessage(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    id: str
    segments: tuple[int, ...]
    at: Instant
    digest: bool = False


class MarkRead(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """These messages, or all up to an instant."""

    ids: tuple[str, ...] = ()
    all: bool = False
    before_at: Instant | None = None


class MessageAdded(msgspec.Struct, frozen=True, tag=True):
    item: FeedItem


class MessagesRead(msgspec.Struct, frozen=True, tag=True):
    ids: tuple[str, ...]
    at: Instant
