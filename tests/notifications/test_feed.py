"""In-app messages: added, read, bounded."""

from __future__ import annotations

from betimes.core.instants import MINUTE
from betimes.notifications.feed import FEED
from betimes.notifications.feed_model import AddMessage, FeedItem, MarkRead, MessageAdded, MessagesRead, ReadAnswer
from betimes.testing.scenarios import given
from tests.notifications.inboxes import NINE


def added(number: int) -> MessageAdded:
    return MessageAdded(FeedItem(f"m{number}", (number,), NINE + number * MINUTE))


def test_messages_are_added_and_read_by_name() -> None:
    scenario = given(FEED).when(AddMessage("m1", (1,), NINE)).then(MessageAdded(FeedItem("m1", (1,), NINE)))
    scenario.when(MarkRead(("m1", "m9"))).then(MessagesRead(("m1",), NINE))
    assert scenario.decision.reply == ReadAnswer(1, 0)
    scenario.when(MarkRead(("m1",))).then_nothing()
    assert scenario.decision.reply == ReadAnswer(0, 0)


def test_all_messages_up_to_an_instant_are_read_at_once() -> None:
    scenario = given(FEED, added(1), added(2), added(3)).when(MarkRead(all=True, before_at=NINE + 2 * MINUTE))
    scenario.then(MessagesRead(("m1", "m2"), NINE))
    assert scenario.decision.reply == ReadAnswer(2, 1)
    scenario.when(MarkRead(all=True)).then(MessagesRead(("m3",), NINE))


def test_the_last_two_hundred_are_kept() -> None:
    scenario = given(FEED, *(added(number) for number in range(201)))
    assert scenario.state
    assert (len(scenario.state.items), scenario.state.items[0].id) == (200, "m1")
