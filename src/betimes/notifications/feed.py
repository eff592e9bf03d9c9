"""The feed: a person's in-app messages, the last 200, read or unread."""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision, Refusal, Settled, View, Wake
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.notifications.feed_model import (
    FEED_MAX,
    AddMessage,
    FeedItem,
    FeedState,
    MarkRead,
    MessageAdded,
    MessagesRead,
    ReadAnswer,
)
from betimes.notifications.model import FeedCommands, FeedEvents


def decide(
    view: View[FeedState], command: FeedCommands | Wake | Settled, policy: Policy, now: Instant
) -> Decision | Refusal:
    feed = view.state or FeedState()
    match command:
        case AddMessage(id, segments, at, digest):
            return Decision((MessageAdded(FeedItem(id, segments, at, digest)),))
        case MarkRead():
            ids = tuple(item.id for item in feed.items if item.read_at is None and _meant(item, command))
            unread = sum(item.read_at is None for item in feed.items) - len(ids)
            return Decision((MessagesRead(ids, now),) if ids else (), reply=ReadAnswer(len(ids), unread))
        case _:
            return Decision()


def _meant(item: FeedItem, command: MarkRead) -> bool:
    if not command.all:
        return item.id in command.ids
    return command.before_at is None or item.at <= command.before_at


def fold(state: FeedState | None, event: FeedEvents) -> FeedState:
    items = state.items if state else ()
    match event:
        case MessageAdded(item):
            return FeedState((*items, item)[-FEED_MAX:])
        case MessagesRead(ids, at):
            return FeedState(tuple(replace(item, read_at=at) if item.id in ids else item for item in items))


FEED = Decider(kind="feed", scope="notifications:write", decide=decide, replies=ReadAnswer, fold=fold)
