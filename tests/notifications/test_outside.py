"""From `Betimes` to real receivers on loopback: channels of every kind, and CRITICAL falling through the failing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from betimes.app.betimes import Betimes
from betimes.app.settings import Settings
from betimes.engine.replay import verify
from betimes.engine.virtual_clock import VirtualClock
from betimes.outbound.channels import AppriseChannel, ChannelSettings, WebhookChannel
from tests.notifications.people import AT_ONCE, request
from tests.outbound.receivers import LOOPBACK, receiver

# Apprise loads all its plug-ins with the first one, and a library of one of them uses a module that Python gave up.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")

PATIENT_S = 120.0
"""The longest a channel may be given."""


class Receivers:
    """What arrived, by the last part of its path; those named in `broken` answer 500."""

    def __init__(self) -> None:
        self.got: list[tuple[str, Any]] = []
        self.broken: set[str] = set()

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.got]

    async def answer(self, asked: web.Request) -> web.StreamResponse:
        self.got.append((asked.path.rpartition("/")[2], json.loads(await asked.read())))
        return web.Response(status=500 if self.names[-1] in self.broken else 200)


@asynccontextmanager
async def reaching(url: str, there: Receivers, clock: VirtualClock) -> AsyncIterator[Betimes]:
    async with receiver(there.answer) as here:
        base = f"127.0.0.1:{here.port}"
        channels = ChannelSettings(
            channels={
                "push": AppriseChannel((f"json://{base}/push?:device={{address}}",), PATIENT_S),
                "email": WebhookChannel(f"http://{base}/email", PATIENT_S),
                "sms": AppriseChannel((f"json://{base}/sms",), PATIENT_S),
            },
            tenants={"acme": {"pager": WebhookChannel(f"http://{base}/pager", PATIENT_S)}},
        )
        settings = Settings(channels=channels, webhooks=LOOPBACK)
        policy: dict[str, Any] = {"notifications": {"channels": {"pager": {}}, **AT_ONCE}}
        async with Betimes(url, tenant="acme", policy=policy, clock=clock, settings=settings) as bt:
            await bt.notifications.set_preferences("ann", {"addresses": {"push": "tok/1?a=b", "email": "ann@x.org"}})
            yield bt
            assert (await verify(bt.engine.store, bt.engine.kinds)).is_sound


async def settled(bt: Betimes) -> None:
    while not (await bt.tick()).complete:
        pass


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'b.db'}"


async def test_messages_arrive_through_apprise_and_webhooks(url: str) -> None:
    there = Receivers()
    async with reaching(url, there, VirtualClock()) as bt:
        await bt.notifications.send(request("e1", title="Grüße ☂"))
        await bt.notifications.send(request("e2", channels=["email"], metadata={"thread": 7}))
        await settled(bt)
        got = dict(there.got)
        assert (got["push"]["title"], got["push"]["device"]) == ("Grüße ☂", "tok/1?a=b")
        assert got["email"] == {
            "channel": "email",
            "address": "ann@x.org",
            "title": "Ana replied",
            "message": "See you at nine? (e2)",
            "metadata": {"thread": 7, "event_id": "e2", "event_type": "MESSAGE"},
        }
        for event_id in ("e1", "e2"):
            assert (await bt.notifications.notification(event_id)).status == "delivered"


async def test_a_channel_that_policy_and_settings_add_is_carried_out(url: str) -> None:
    there = Receivers()
    async with reaching(url, there, VirtualClock()) as bt:
        await bt.notifications.send(request(channels=["pager"]))
        await settled(bt)
        assert there.names == ["pager"]
        assert (await bt.notifications.notification("e1")).status == "delivered"


async def test_critical_falls_through_to_the_feed_and_others_are_tried_six_times(url: str) -> None:
    there = Receivers()
    there.broken = {"push", "email", "sms"}
    async with reaching(url, there, VirtualClock()) as bt:
        await bt.notifications.send(request("e1", priority_hint="CRITICAL", channels=["email"]))
        await settled(bt)
        assert there.names == ["email", "push", "sms"]
        found = await bt.notifications.notification("e1")
        assert (found.status, [one.channel for one in found.deliveries]) == (
            "delivered",
            ["email", "push", "sms", "in_app"],
        )
        assert [item.event_id for item in (await bt.notifications.inbox("ann")).items] == ["e1"]
        there.got.clear()
        await bt.notifications.send(request("e2"))
        await settled(bt)
        assert there.names == ["push"] * 6
        assert (await bt.notifications.notification("e2")).status == "failed"


async def test_critical_that_expired_meanwhile_is_only_kept_in_the_feed(url: str) -> None:
    there, clock = Receivers(), VirtualClock()
    async with reaching(url, there, clock) as bt:
        await bt.notifications.send(request(priority_hint="CRITICAL", expires_at="2026-01-05T12:00:00Z"))
        clock.advance_to("2026-01-05T12:00:00.000001Z")
        await settled(bt)
        assert there.got == []
        assert [item.event_id for item in (await bt.notifications.inbox("ann")).items] == ["e1"]
