"""What became of notifications: waiting, on their way, in the feed, in a digest; on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from betimes.core.datetimes import moment
from betimes.core.errors import BetimesError, Invalid
from betimes.core.instants import HOUR, MINUTE, parse
from betimes.core.streams import EffectId, parse_effect_handle
from betimes.notifications import history
from betimes.notifications.views import NotificationView, ReadRequest
from tests.notifications.inboxes import NINE
from tests.notifications.people import people, request
from tests.stores.backends import Backend

NIGHT = {"timezone": "Europe/Berlin", "quiet_hours": [{"start": "22:00", "end": "07:00"}]}
ONE_AM = parse("2026-01-06T01:10:00Z")


async def test_what_waits_goes_out_when_its_time_has_come(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        p.clock.advance_to(ONE_AM)
        await p.service.set_preferences("ann", NIGHT)
        answer = await p.service.send(request())
        assert (await p.service.notification("e1")).status == "waiting"
        assert answer.defer_until is not None
        result = await p.tick(parse("2026-01-06T06:05:00Z"))
        assert result.fired == {"inbox": 1}
        [sent] = p.outside.sent
        assert sent.message == "See you at nine? (e1)", "the text was read from its segment"
        found = await p.service.notification("e1")
        assert (found.status, found.reasons) == ("delivered", ("QUIET_HOURS", "DEFAULT_PASS"))
        assert [(j.outcome, j.reasons) for j in found.judgements] == [
            ("LATER", ("QUIET_HOURS",)),
            ("NOW", ("QUIET_HOURS", "DEFAULT_PASS")),
        ]
        [status] = await p.service.statuses(["e1"])
        assert not isinstance(status, BetimesError)
        assert (status.status, status.outcome, status.defer_count) == ("delivered", "NOW", 1)


async def test_a_long_inbox_tells_the_same_of_an_item_by_its_state_as_by_its_whole_history(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with people(backend, tmp_path) as p:

        async def told(event_id: str, page: int) -> NotificationView:
            monkeypatch.setattr(history, "PAGE", page)
            return await p.service.notification(event_id)

        async def send_with_repeats(event_id: str) -> None:
            for number in range(10):
                name = f"{event_id}-{number}" if number else event_id
                await p.service.send(request(name, message=f"A text of {event_id}"))

        async def stages() -> AsyncIterator[tuple[str, str]]:
            await p.service.set_preferences("ann", NIGHT)
            await send_with_repeats("e1")
            yield "e1", "waiting"
            await p.service.set_preferences("ann", {**NIGHT, "quiet_hours": [{"start": "22:00", "end": "09:00"}]})
            yield "e1", "waiting"
            await p.tick(parse("2026-01-06T09:10:00Z"))
            yield "e1", "delivered"
            await send_with_repeats("e2")
            yield "e2", "delivering"
            await p.tick()
            yield "e2", "delivered"

        p.clock.advance_to(ONE_AM)
        async for event_id, status in stages():
            whole = await told(event_id, 500)
            assert whole.status == status
            assert await told(event_id, 3) == whole


async def test_a_long_inbox_tells_that_an_item_waits_for_another_reason_by_now(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with people(backend, tmp_path) as p:
        p.clock.advance_to(ONE_AM)
        await p.service.set_preferences("ann", NIGHT)
        for number in range(10):
            await p.service.send(request(f"e{number}", priority_hint="MEDIUM", message="The same text"))
        await p.service.set_preferences("ann", {**NIGHT, "quiet_hours": []})
        whole = await p.service.notification("e0")
        assert (whole.reasons, whole.defer_count) == (("QUIET_HOURS", "SCORE_DEFER"), 1)
        monkeypatch.setattr(history, "PAGE", 3)
        assert await p.service.notification("e0") == whole


async def test_a_delivery_is_tried_six_times_and_then_a_dead_letter(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        p.outside.broken = {"push"}
        await p.service.send(request())
        await p.tick()
        assert p.outside.tried == ["push"] * 6
        found = await p.service.notification("e1")
        assert (found.status, found.outcome) == ("failed", "NOW")
        [delivery] = found.deliveries
        assert (delivery.status, delivery.attempts) == ("dead", 6)
        assert "push is down" in (delivery.last_error or "")
        p.outside.broken = set()
        assert await p.engine.store.revive_effect(_effect(delivery.effect_id or ""))
        await p.tick()
        assert (await p.service.notification("e1")).status == "delivered"


def _effect(handle: str) -> EffectId:
    return parse_effect_handle("acme", handle)


async def test_critical_falls_through_the_channels(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        p.outside.broken = {"push", "email", "sms"}
        answer = await p.service.send(request(priority_hint="CRITICAL"))
        assert answer.reasons == ("CRITICAL_OVERRIDE",)
        await p.tick()
        assert p.outside.tried == ["push", "email", "sms"]
        found = await p.service.notification("e1")
        assert found.status == "delivered"
        assert [(d.channel, d.status) for d in found.deliveries] == [
            ("push", "dead"),
            ("email", "dead"),
            ("sms", "dead"),
            ("in_app", "done"),
        ]
        [item] = (await p.service.inbox("ann")).items
        assert item.event_id == "e1"


async def test_what_has_expired_before_it_could_be_delivered_is_not_sent(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        await p.service.send(request(expires_at="2026-01-05T09:05:00Z"))
        await p.tick(NINE + 10 * MINUTE)
        assert p.outside.tried == []
        assert (await p.service.notification("e1")).status == "failed"


async def test_in_app_messages_are_listed_and_marked_read(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        for place in range(3):
            p.clock.advance_to(NINE + place * HOUR)
            await p.service.send(request(f"e{place}", channels=["in_app"], metadata={"place": place}))
        await p.tick()
        page = await p.service.inbox("ann", limit=2)
        assert [(item.event_id, item.metadata) for item in page.items] == [("e2", {"place": 2}), ("e1", {"place": 1})]
        assert (page.unread_count, page.items[0].read_at) == (3, None)
        rest = await p.service.inbox("ann", limit=2, cursor=page.next_cursor)
        assert ([item.event_id for item in rest.items], rest.next_cursor) == (["e0"], None)
        read = await p.service.mark_read("ann", ReadRequest(item_ids=(page.items[0].item_id,)))
        assert (read.read_count, read.unread_count) == (1, 2)
        assert [item.event_id for item in (await p.service.inbox("ann", unread=True)).items] == ["e1", "e0"]
        read = await p.service.mark_read("ann", ReadRequest(all=True))
        assert (read.read_count, read.unread_count) == (2, 0)
        assert (await p.service.inbox("nobody")).items == []


async def test_messages_of_one_instant_are_paged_without_a_gap(backend: Backend, tmp_path: Path) -> None:
    calm = {name: {"cap": 100} for name in ("burst", "hour", "day")}
    async with people(backend, tmp_path, fatigue=calm, thresholds={"now_from": 0, "never_below": 0}) as p:
        await p.service.send_many([request(f"e{place}", channels=["in_app"]) for place in range(12)])
        await p.tick()
        seen, cursor = [], None
        while True:
            page = await p.service.inbox("ann", limit=5, cursor=cursor)
            seen += [item.event_id for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == [f"e{place}" for place in reversed(range(12))]
        with pytest.raises(Invalid):
            await p.service.inbox("not an id")


async def test_a_digest_is_one_message(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path, jitter_s=0) as p:
        for place in range(3):
            kind: dict[str, Any] = {"event_type": "DIGEST", "priority_hint": None, "channels": ["email", "in_app"]}
            await p.service.send(request(f"e{place}", **kind))
        assert (await p.service.notification_state("ann")).next_digest_at == moment(parse("2026-01-05T18:00:00Z"))
        await p.tick(parse("2026-01-05T18:00:00Z"))
        [sent] = p.outside.sent
        assert (sent.title, sent.message.count("\n"), sent.metadata) == (
            "3 notifications",
            2,
            {"digest": ["e0", "e1", "e2"]},
        )
        found = await p.service.notification("e1")
        assert (found.status, found.reasons) == ("digested", ("DIGEST_ELIGIBLE", "DIGEST_RELEASED"))
        assert (found.delivery_channel, found.defer_count) == ("email", 0), "waiting for a digest is no deferral"


async def test_what_was_put_off_and_then_gathered_says_so_everywhere(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path, jitter_s=0) as p:
        p.outside.broken = {"push"}
        assert (await p.service.send(request(event_type="UPDATE", priority_hint="LOW"))).reasons == ("SCORE_DEFER",)
        for half_hours in (1, 2, 18):
            await p.tick(NINE + half_hours * 30 * MINUTE)
        for status in ("failed", "digested"):
            found, [told] = await p.service.notification("e1"), await p.service.statuses(["e1"])
            assert found.reasons == ("SCORE_DEFER", "SCORE_DEFER", "DEFER_EXHAUSTED", "DIGEST_RELEASED")
            assert not isinstance(told, BetimesError)
            assert (found.status, found.defer_count) == (told.status, told.defer_count) == (status, 2)
            p.outside.broken = set()
            await p.engine.store.revive_effect(_effect(found.deliveries[0].effect_id or ""))
            await p.tick()


async def test_what_is_held_through_the_night_says_until_when(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path, jitter_s=0) as p:
        await p.service.send(request(event_type="UPDATE", priority_hint="MEDIUM"))
        await p.service.set_preferences("ann", NIGHT)
        await p.tick(ONE_AM)
        found, [told] = await p.service.notification("e1"), await p.service.statuses(["e1"])
        assert not isinstance(told, BetimesError)
        assert found.defer_until == told.defer_until == moment(parse("2026-01-06T06:00:00Z"))
        assert len(found.judgements) == 1, "it was not judged"


async def test_a_digest_of_one_has_its_title(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path, jitter_s=0) as p:
        await p.service.send(request(event_type="DIGEST", priority_hint=None, channels=["in_app"]))
        await p.tick(parse("2026-01-05T18:00:00Z"))
        [item] = (await p.service.inbox("ann")).items
        assert (item.title, len(item.digest)) == ("Ana replied", 1)


async def test_a_digest_in_the_feed_has_its_lines(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path, jitter_s=0) as p:
        await p.service.set_preferences("ann", {"digest_channel": "in_app"})
        for place in range(2):
            await p.service.send(request(f"e{place}", event_type="DIGEST", priority_hint=None))
        await p.tick(parse("2026-01-05T18:00:00Z"))
        [item] = (await p.service.inbox("ann")).items
        assert (item.event_id, item.title, [line.event_id for line in item.digest]) == (
            None,
            "2 notifications",
            ["e0", "e1"],
        )
        assert (await p.service.notification("e1")).status == "digested"


@pytest.mark.parametrize(
    ("after", "status", "follows"),
    [
        ("digest", "waiting", "it goes into the next digest"),
        ("deliver", "delivered", "it is delivered"),
        ("drop", "suppressed", "it is dropped"),
    ],
)
async def test_a_reminder_without_a_hint_says_what_would_raise_it_and_what_becomes_of_it(
    backend: Backend, tmp_path: Path, after: str, status: str, follows: str
) -> None:
    async with people(backend, tmp_path, after_deferrals=after) as p:
        answer = await p.service.send(request(event_type="REMINDER", priority_hint=None))
        assert answer.explanation == (
            "Its importance is 0.51; below 0.30 it is not sent, from 0.65 on at once. A higher priority_hint raises it."
        )
        for minutes in (30, 60):
            await p.tick(NINE + minutes * MINUTE)
        found = await p.service.notification("e1")
        assert found.status == status
        assert found.explanation == f"It was put off as often as it may be, so {follows}."
