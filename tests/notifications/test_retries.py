"""A receiver that is down for a while costs nobody anything: attempts are spread over about an hour."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

from aiohttp import web

from betimes.app.betimes import Betimes
from betimes.app.settings import Settings
from betimes.core.checks import check_value
from betimes.core.streams import parse_effect_handle
from betimes.engine.store import EffectQuery, EffectRow
from betimes.engine.virtual_clock import VirtualClock
from betimes.outbound.channels import ChannelSettings, WebhookChannel
from betimes.schedules.views import ScheduleRequest
from tests.notifications.people import request
from tests.outbound.receivers import LOOPBACK, receiver

PAUSES_S = (5, 30, 120, 600, 2_700)


class Receiver:
    """Takes nothing while it is down."""

    def __init__(self) -> None:
        self.is_down = True
        self.asked = 0

    async def answer(self, _: web.Request) -> web.StreamResponse:
        self.asked += 1
        return web.Response(status=503 if self.is_down else 200)


@asynccontextmanager
async def world(there: Receiver, **policy: Any) -> AsyncIterator[tuple[Betimes, str]]:
    async with receiver(there.answer) as here:
        url = f"http://127.0.0.1:{here.port}/"
        settings = Settings(channels=ChannelSettings(channels={"push": WebhookChannel(url)}), webhooks=LOOPBACK)
        body = {"notifications": policy}
        async with Betimes("memory://", policy=body, clock=VirtualClock(), settings=settings) as bt:
            yield bt, url


async def delivery(bt: Betimes, event_id: str = "e1") -> EffectRow:
    [made] = (await bt.notifications.notification(event_id)).deliveries
    id = parse_effect_handle("default", made.effect_id or "")
    [row] = await bt.engine.store.effects(EffectQuery(source=id.source, version=id.version))
    return row


def pauses_s(row: EffectRow) -> list[float]:
    return [(after.at - before.at) / 1e6 for before, after in pairwise(row.history)]


async def test_a_receiver_that_is_down_for_six_seconds_costs_no_delivery() -> None:
    there = Receiver()
    async with world(there) as (bt, _):
        await bt.notifications.send(request(channels=["push"]))
        await bt.advance(by_s=6)
        assert there.asked
        there.is_down = False
        await bt.advance(by_s=60)
        assert (await bt.notifications.notification("e1")).status == "delivered"


async def test_a_delivery_is_tried_six_times_over_about_an_hour() -> None:
    there = Receiver()
    async with world(there) as (bt, _):
        await bt.notifications.send(request(channels=["push"]))
        await bt.advance(by_s=3_400)
        assert (await delivery(bt)).status == "pending"
        await bt.advance(by_s=3_600)
        row = await delivery(bt)
        assert (row.status, row.attempts, there.asked) == ("dead", 6, 6)
        for pause_s, least_s in zip(pauses_s(row), PAUSES_S, strict=True):
            assert least_s <= pause_s <= least_s * 1.2
        assert (await bt.notifications.notification("e1")).status == "failed"


async def test_deliveries_that_failed_together_are_not_tried_again_together() -> None:
    there = Receiver()
    async with world(there) as (bt, _):
        for person in range(20):
            await bt.notifications.send(request(f"e{person}", f"user-{person}", channels=["push"]))
        await bt.advance(by_s=60)
        second = {(await delivery(bt, f"e{person}")).history[1].at for person in range(20)}
        assert len(second) > 15


async def test_a_policy_says_how_often_and_after_which_pauses() -> None:
    there = Receiver()
    async with world(there, delivery_attempts=4, delivery_pauses_s=[60, 100]) as (bt, _):
        await bt.notifications.send(request(channels=["push"]))
        await bt.advance(by_s=3_600)
        row = await delivery(bt)
        assert (row.status, row.attempts) == ("dead", 4)
        for pause_s, least_s in zip(pauses_s(row), (60, 100, 100), strict=True):
            assert least_s <= pause_s <= least_s * 1.2


async def test_a_webhook_waits_for_its_receiver_as_long_as_a_delivery() -> None:
    there = Receiver()
    async with world(there) as (bt, url):
        asked = {"cron": "0 10 5 1 *", "target": {"kind": "webhook", "url": url}}
        await bt.schedules.put("report", check_value(asked, ScheduleRequest))
        await bt.advance(to="2026-01-05T10:12:00Z")
        assert there.asked > 3
        there.is_down = False
        await bt.advance(to="2026-01-05T11:15:00Z")
        [tick] = (await bt.schedules.ticks("report")).items
        assert tick.run
        assert tick.run.status == "done"
