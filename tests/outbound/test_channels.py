"""Channels against real receivers: what arrives, what is refused, and what is never told."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import structlog
from aiohttp import web
from standardwebhooks.webhooks import Webhook

from betimes.app.server import messages_to_stderr
from betimes.core.errors import MissingExtra
from betimes.engine.virtual_clock import VirtualClock
from betimes.outbound.channels import (
    AppriseChannel,
    Channel,
    ChannelMessage,
    Channels,
    ChannelSettings,
    LogChannel,
    WebhookChannel,
)
from betimes.outbound.failures import BadAddress, BadStatus, ChannelSendFailed, UnknownChannel
from betimes.outbound.handlers import HandlerContext
from tests.outbound.receivers import SECRETS, Receiver, receiver, speaking, webhooks

PASSWORD = "hunter2"
PATIENT_S = 120.0
"""The longest a channel may be given: Apprise loads its plug-ins with the first message."""

# Apprise loads all its plug-ins with the first one, and a library of one of them uses a module that Python gave up.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")


@asynccontextmanager
async def channels(named: Mapping[str, Channel], **more: Any) -> AsyncIterator[Channels]:
    sending = Channels(ChannelSettings(channels=named), **more)
    try:
        yield sending
    finally:
        sending.close()


async def send(sending: Channels, channel: str, address: str | None = "ada@example.org", tenant: str = "acme") -> None:
    message = ChannelMessage(channel, "ada", address, "Hello", "World", {"n": 1})
    await sending.send(message, HandlerContext("inbox:ada:1:0", tenant, 1))


def apprise_to(here: Receiver, path: str = "people/{address}", **more: Any) -> AppriseChannel:
    url = f"json://user:{PASSWORD}@127.0.0.1:{here.port}/{path}"
    return AppriseChannel((url,), **{"timeout_s": PATIENT_S, **more})


async def refuse(_: web.Request) -> web.Response:
    return web.Response(status=500)


async def test_apprise_delivers_title_and_message_to_the_address() -> None:
    paths = []

    async def take(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response()

    async with receiver(take) as here, channels({"push": apprise_to(here)}) as sending:
        await send(sending, "push")
    [(headers, body)] = here.requests
    assert json.loads(body)["title"] == "Hello"
    assert json.loads(body)["message"] == "World"
    assert paths == ["/people/ada@example.org"]
    assert headers["Authorization"].startswith("Basic ")


@pytest.mark.parametrize("address", ["a&method=GET#@evil/?x={address}", "ada+tag@example.org", "+15550100", "ключ:/=~"])
async def test_an_address_cannot_be_anything_but_an_address(address: str) -> None:
    queries = []

    async def take(request: web.Request) -> web.Response:
        queries.append(dict(request.query))
        return web.Response()

    async with receiver(take) as here, channels({"push": apprise_to(here, "?-to={address}")}) as sending:
        await send(sending, "push", address)
    assert queries == [{"to": address}]


@pytest.mark.parametrize("address", [None, "", "a@x.example,b@y.example", "a b", "a\r\nb", "a;b", "a%2cb", "a" * 513])
async def test_a_missing_or_impossible_address_cannot_be_sent_to(address: str | None) -> None:
    async with receiver() as here, channels({"push": apprise_to(here)}) as sending:
        with pytest.raises(BadAddress) as failure:
            await send(sending, "push", address)
    assert failure.value.permanent
    assert here.requests == []
    assert not address or address not in str(failure.value)


async def test_a_channel_without_a_place_for_it_needs_no_address() -> None:
    async with receiver() as here, channels({"push": apprise_to(here, "all")}) as sending:
        await send(sending, "push", None)
    assert len(here.requests) == 1


async def test_every_url_of_a_channel_is_sent_to_and_one_failure_fails_it() -> None:
    async with receiver() as good, receiver(refuse) as bad:
        urls = (*apprise_to(bad).urls, *apprise_to(good).urls)
        async with channels({"push": AppriseChannel(urls, PATIENT_S)}) as sending:
            with pytest.raises(ChannelSendFailed, match="'push' failed: Apprise could not deliver") as failure:
                await send(sending, "push")
    assert (len(good.requests), len(bad.requests)) == (1, 1)
    assert not failure.value.permanent


async def test_credentials_appear_in_no_error_log_or_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    async with receiver(refuse) as here:
        configured: dict[str, Channel] = {
            "push": apprise_to(here),
            "odd": AppriseChannel((f"nosuchservice://{PASSWORD}@host/{{address}}",), PATIENT_S),
            "broken": AppriseChannel((f"tgram://{PASSWORD}/",), PATIENT_S),
            "hook": WebhookChannel(f"http://127.0.0.1:{here.port}/?token={PASSWORD}"),
        }
        async with webhooks() as client, channels(configured, webhooks=client) as sending:
            told = [repr(configured), repr(sending), repr(ChannelSettings(channels=configured))]
            for channel in configured:
                with pytest.raises((ChannelSendFailed, BadStatus)) as failure:
                    await send(sending, channel)
                told += [str(failure.value), repr(failure.value)]
    assert PASSWORD not in " ".join(told)
    assert PASSWORD not in caplog.text
    assert "ada@example.org" not in caplog.text


async def test_what_others_log_through_apprise_is_not_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async with receiver() as here, channels({"push": apprise_to(here)}) as sending:
        await send(sending, "push")
    logging.getLogger("apprise").warning("somebody else's words")
    assert "somebody else's words" in caplog.text


async def test_a_channel_that_takes_too_long_fails() -> None:
    async with speaking(b"") as silent:
        slow = AppriseChannel((f"json://127.0.0.1:{silent.port}/?cto=1&rto=1",), timeout_s=0.2)
        async with channels({"push": slow}) as sending:
            with pytest.raises(ChannelSendFailed, match=r"'push' took longer than 0\.2 s") as failure:
                await send(sending, "push")
    assert not failure.value.permanent


async def test_a_webhook_channel_is_a_signed_webhook_with_the_whole_message() -> None:
    async with (
        receiver() as here,
        webhooks() as client,
        channels({"push": WebhookChannel(here.url)}, webhooks=client) as sending,
    ):
        await send(sending, "push")
    [(headers, body)] = here.requests
    assert headers["webhook-id"] == "inbox:ada:1:0"
    assert Webhook(SECRETS["acme"][0]).verify(body, dict(headers)) == {
        "channel": "push",
        "address": "ada@example.org",
        "title": "Hello",
        "message": "World",
        "metadata": {"n": 1},
    }


async def test_a_webhook_channel_without_webhooks_says_so() -> None:
    async with channels({"push": WebhookChannel("https://crm.example/")}) as sending:
        with pytest.raises(ChannelSendFailed, match="given no `webhooks`"):
            await send(sending, "push")


async def test_the_log_channel_logs() -> None:
    logged: list[Any] = []
    async with channels({"push": LogChannel()}, log=lambda event, **fields: logged.append((event, fields))) as sending:
        await send(sending, "push", None)
    told = {"channel": "push", "address": None, "title": "Hello", "message": "World", "id": "inbox:ada:1:0"}
    assert logged == [("notification", told)]


async def test_the_log_channel_says_what_a_clock_of_ones_own_shows() -> None:
    logged: list[Any] = []
    clock = VirtualClock("2026-01-05T09:00:00Z")
    async with channels({"push": LogChannel()}, log=lambda _, **fields: logged.append(fields), now=clock) as sending:
        await send(sending, "push", None)
    assert logged[0]["at"] == "2026-01-05T09:00:00Z"


def test_a_server_logs_a_message_as_text_at_the_time_of_the_clock(capsys: pytest.CaptureFixture[str]) -> None:
    messages_to_stderr(logging.INFO)
    try:
        structlog.get_logger().info("notification", at="2026-01-05T09:00:00Z", title="\x1b[31mred\u202e\nforged")
    finally:
        structlog.reset_defaults()
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("2026-01-05T09:00:00Z")
    assert r"\x1b[31mred\u202e\nforged" in line
    assert line.isprintable()


async def test_a_tenant_may_have_a_channel_of_its_own_or_go_without() -> None:
    logged: list[str] = []

    def log(_: str, **fields: Any) -> None:
        logged.append(fields["channel"])

    async with receiver() as here, webhooks() as client:
        settings = ChannelSettings(
            channels={"push": LogChannel(), "sms": LogChannel()},
            tenants={"other": {"push": WebhookChannel(here.url), "sms": None}},
        )
        sending = Channels(settings, webhooks=client, log=log)
        await send(sending, "push", tenant="other")
        assert (len(here.requests), logged) == (1, [])
        await send(sending, "push", tenant="acme")
        assert (len(here.requests), logged) == (1, ["push"])
        with pytest.raises(UnknownChannel, match="'sms' is configured for the tenant 'other'") as failure:
            await send(sending, "sms", tenant="other")
        assert failure.value.permanent
        with pytest.raises(UnknownChannel):
            await send(sending, "fax", tenant="acme")
        sending.close()


@pytest.mark.parametrize(
    "url",
    [
        "mailto",
        "://x/{address}",
        "json://{address}/",
        "json://{address}",
        "json://u:p@{address}:80/x",
        "{address}://x/",
    ],
)
def test_a_template_in_which_a_person_could_name_the_host_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"urls\[0\]: "):
        AppriseChannel((url,))


def test_the_settings_are_read_from_json() -> None:
    text = b"""{
        "channels": {"email": {"kind": "apprise", "urls": ["mailto://u:p@h?to={address}"]}, "push": {"kind": "log"}},
        "tenants": {"acme": {"push": {"kind": "webhook", "url": "https://crm.example/"}, "email": null}}
    }"""
    settings = msgspec.json.decode(text, type=ChannelSettings)
    assert settings.of("other", "email") == AppriseChannel(("mailto://u:p@h?to={address}",))
    assert settings.of("acme", "email") is None
    assert settings.of("acme", "push") == WebhookChannel("https://crm.example/")


async def test_without_apprise_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    async with channels({"push": AppriseChannel(("json://127.0.0.1/",))}) as sending:
        with pytest.raises(MissingExtra, match=r"pip install 'betimes\[channels\]'"):
            await send(sending, "push")
