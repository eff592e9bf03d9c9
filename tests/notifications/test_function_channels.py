"""Channels that are functions of the application: called once, under one id, also after a process is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from betimes import (
    Betimes,
    BlockingBetimes,
    ChannelMessage,
    GiveUp,
    HandlerContext,
    Invalid,
    RetryAfter,
    VirtualClock,
    parse,
)
from betimes.app.settings import Settings
from betimes.engine.replay import verify
from betimes.outbound.channels import ChannelSettings, LogChannel, WebhookChannel
from tests.notifications.people import request
from tests.patience import HANGS_S

ONE_AM, MORNING = "2026-01-06T01:10:00Z", "2026-01-06T06:05:00Z"
NIGHT = {
    "timezone": "Europe/Berlin",
    "quiet_hours": [{"start": "22:00", "end": "07:00"}],
    "addresses": {"push": "device-7"},
}
KILLED = f"""
import asyncio, os, signal, sys
from betimes import Betimes, VirtualClock

bt = Betimes(sys.argv[1], clock=VirtualClock({ONE_AM!r}))

@bt.channel("push")
async def push(message, context):
    print(context.effect_id, context.attempt, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with bt:
        if sys.argv[2] == "in the night":
            await bt.notifications.set_preferences("ana", {NIGHT!r})
            print((await bt.notifications.send({request(user_id="ana")!r})).outcome, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        await bt.advance(to={MORNING!r})

asyncio.run(main())
"""


def kill_one(url: str, when: str) -> str:
    """Return what a process printed that kills itself, in the night or while it delivers."""
    command = [sys.executable, "-c", KILLED, url, when]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("is_killed_delivering", [False, True])
def test_what_waited_for_the_morning_is_handed_over_after_a_kill(tmp_path: Path, is_killed_delivering: bool) -> None:
    url = f"sqlite:///{tmp_path / 'b.db'}"
    assert kill_one(url, "in the night") == "LATER\n"
    tried = kill_one(url, "in the morning").split() if is_killed_delivering else []
    clock = VirtualClock(MORNING if is_killed_delivering else ONE_AM)
    bt = BlockingBetimes(url, clock=clock)
    got: list[tuple[ChannelMessage, HandlerContext, str]] = []

    @bt.channel("push")
    def push(message: ChannelMessage, context: HandlerContext) -> None:
        got.append((message, context, threading.current_thread().name))

    with bt:
        bt.advance(to="2026-01-06T08:00:00Z")
        bt.advance(to="2026-01-06T12:00:00Z")
        assert bt.notifications.notification("e1").status == "delivered"
    [(message, context, thread)] = got
    assert thread.startswith("betimes-handler"), "a function that blocks has a thread"
    assert tried in ([], [context.effect_id, "1"]), "one id on every attempt"
    assert context == HandlerContext(context.effect_id, "default", 2 if is_killed_delivering else 1)
    metadata = {"event_id": "e1", "event_type": "MESSAGE"}
    text = "See you at nine? (e1)"
    assert message == ChannelMessage("push", "ana", "device-7", "Ana replied", text, metadata)


async def test_a_function_fails_for_a_while_or_for_good_and_says_when_to_come_back() -> None:
    clock = VirtualClock(ONE_AM)
    bt = Betimes("memory://", clock=clock)
    tried: list[tuple[str, int]] = []
    raised: dict[str, Exception] = {
        "e1": ConnectionError("down"),
        "e2": GiveUp("no device"),
        "e3": RetryAfter(ConnectionError("busy"), (7_200,)),
    }

    @bt.channel("push")
    async def push(message: ChannelMessage) -> None:
        tried.append((message.metadata["event_id"], clock()))
        if error := raised.get(message.metadata["event_id"]):
            raise error

    async with bt:
        for name in raised:
            await bt.notifications.send(request(name))
        await bt.advance(by_s=60)
        del raised["e1"], raised["e3"]
        await bt.advance(by_s=3 * 3_600)
        found = {name: await bt.notifications.notification(name) for name in ("e1", "e2", "e3")}
    assert [one.status for one in found.values()] == ["delivered", "failed", "delivered"]
    assert found["e2"].deliveries[0].last_error == "no device"
    waited_s = {name: [(at - parse(ONE_AM)) // 1_000_000 for one, at in tried if one == name] for name in found}
    assert [len(waits) for waits in waited_s.values()] == [4, 1, 2]
    assert 5 <= waited_s["e1"][1] <= 6, "the pauses of the policy"
    assert 7_200 <= waited_s["e3"][1] <= 8_640, "its own pause"


async def test_a_channel_that_the_policy_does_not_have_is_put_there() -> None:
    bt = Betimes("memory://", clock=VirtualClock(ONE_AM))
    got: list[ChannelMessage] = []
    bt.channel("pager", cap_24h=1)(got.append)
    async with bt:
        first = await bt.notifications.send(request(channels=["pager"]))
        second = await bt.notifications.send(request("e2", channels=["pager"]))
        await bt.advance(by_s=1)
    assert (first.outcome, second.reasons) == ("NOW", ("CHANNEL_CAP",))
    assert [message.channel for message in got] == ["pager"]


async def test_a_process_without_the_function_leaves_messages_to_one_that_has_it(tmp_path: Path) -> None:
    clock, url, got = VirtualClock(ONE_AM), f"sqlite:///{tmp_path / 'shared.db'}", list[ChannelMessage]()

    def application() -> Betimes:
        bt = Betimes(url, clock=clock)
        bt.channel("push")(got.append)
        return bt

    async with application():
        pass
    async with Betimes(url, clock=clock) as other:
        await other.notifications.send(request(channels=["push"]))
        await other.advance(by_s=3_600)
        assert (await other.notifications.notification("e1")).status == "delivering"
        [effect] = (await other.effects_for(other.mine.caller).effects({"channel": "push"})).items
        assert (effect.executor, effect.channel, effect.target) == ("deliver:function:push", "push", "push")
    configured = Settings(channels=ChannelSettings(channels={"email": LogChannel()}))
    async with Betimes(url, clock=clock, settings=configured) as other:
        await other.advance(by_s=60)
    assert got == []
    async with application() as bt:
        await bt.advance(by_s=1)
        assert (await bt.notifications.notification("e1")).status == "delivered"
    assert [message.metadata["event_id"] for message in got] == ["e1"]


async def test_what_is_critical_goes_on_to_the_next_channel_when_nobody_has_the_function(tmp_path: Path) -> None:
    clock, url, got = VirtualClock(ONE_AM), f"sqlite:///{tmp_path / 'critical.db'}", list[ChannelMessage]()

    def application() -> Betimes:
        bt = Betimes(url, clock=clock)
        bt.channel("push")(got.append)
        return bt

    async with application():
        pass
    async with Betimes(url, clock=clock) as other:
        await other.notifications.send(request(channels=["push", "email"], priority_hint="CRITICAL"))
        await other.advance(by_s=119)
        assert (await other.notifications.notification("e1")).status == "delivering"
        await other.advance(by_s=2)
        told = await other.notifications.notification("e1")
        assert (told.status, [(one.channel, one.status) for one in told.deliveries]) == (
            "delivered",
            [("push", "dead"), ("email", "done")],
        )
        assert "no process took it in time" in str(told.deliveries[0].last_error)
    async with application() as bt:
        await bt.advance(by_s=60)
        told = await bt.notifications.notification("e1")
        assert (told.status, got) == ("delivered", []), "the late process does not tell the person again"
        assert (await verify(bt.engine.store, bt.engine.kinds)).is_sound


async def test_what_is_critical_waits_for_a_process_that_has_the_function_a_minute(tmp_path: Path) -> None:
    clock, url, got = VirtualClock(ONE_AM), f"sqlite:///{tmp_path / 'minute.db'}", list[ChannelMessage]()
    for seconds in (0, 50, 600):
        bt = Betimes(url, clock=clock)
        if seconds != 50:
            bt.channel("push")(got.append)
        async with bt:
            if seconds == 50:
                await bt.notifications.send(request(channels=["push"], priority_hint="CRITICAL"))
            await bt.advance(by_s=seconds)
            if seconds == 600:
                told = await bt.notifications.notification("e1")
                assert [(one.channel, one.status) for one in told.deliveries] == [("push", "done")]
    assert len(got) == 1


async def test_a_configuration_takes_over_what_was_left_to_a_function(tmp_path: Path) -> None:
    clock, url = VirtualClock(ONE_AM), f"sqlite:///{tmp_path / 'configured.db'}"
    bt = Betimes(url, clock=clock)
    bt.channel("push")(print)
    async with bt:
        pass
    configured = Settings(channels=ChannelSettings(channels={"push": LogChannel()}))
    async with Betimes(url, clock=clock, settings=configured) as other:
        await other.notifications.send(request(channels=["push"]))
        await other.advance(by_s=1)
        assert (await other.notifications.notification("e1")).status == "delivered"


async def test_a_tenant_may_have_a_channel_of_its_own_instead_of_the_function() -> None:
    channels = ChannelSettings(tenants={"acme": {"push": None}})
    got: list[Any] = []
    for tenant in ("default", "acme"):
        bt = Betimes("memory://", clock=VirtualClock(ONE_AM), tenant=tenant, settings=Settings(channels=channels))
        bt.channel("push")(got.append)
        async with bt:
            await bt.notifications.send(request(channels=["push"]))
            await bt.advance(by_s=1)
            expected = "delivered" if tenant == "default" else "failed"
            assert (await bt.notifications.notification("e1")).status == expected
    assert len(got) == 1


async def test_a_function_takes_the_place_of_the_log_and_of_nothing_else() -> None:
    for configured in (LogChannel(), WebhookChannel("https://push.example/")):
        settings = Settings(channels=ChannelSettings(channels={"push": configured}))
        bt = Betimes("memory://", clock=VirtualClock(ONE_AM), settings=settings)
        bt.channel("push")(print)
        if isinstance(configured, LogChannel):
            await bt.open()
            await bt.close()
            continue
        with pytest.raises(Invalid, match="declare each in one place only") as refused:
            await bt.open()
        assert refused.value.problems == (("channels.push", "the application declares @bt.channel"),)


@pytest.mark.parametrize(
    ("name", "entry", "told"),
    [("in_app", {}, "in_app needs no function"), ("Push!", {}, "a–z"), ("push", {"cap": 3}, "cap")],
)
def test_a_channel_that_cannot_be_is_refused_where_it_is_declared(name: str, entry: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        Betimes("memory://").channel(name, **entry)
    bt = Betimes("memory://")
    bt.channel("push")(print)
    with pytest.raises(Invalid, match="a channel named 'push' exists already"):
        bt.channel("push")(print)
