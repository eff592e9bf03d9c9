"""What a URL named by somebody else can and cannot make this machine do."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from betimes.outbound.failures import (
    AnswerTooLarge,
    BadStatus,
    BadUrl,
    ForbiddenAddress,
    TimedOut,
    Unreachable,
    WebhookFailed,
)
from betimes.outbound.settings import WebhookSettings
from betimes.outbound.webhooks import Webhooks
from tests.outbound.receivers import (
    LOOPBACK,
    Names,
    Receiver,
    receiver,
    serving_tls,
    speaking,
    trusting_the_certificate,
    webhooks,
)
from tests.patience import HANGS_S


async def post(client: Webhooks, url: str, timeout_s: float = HANGS_S) -> bytes:
    return await client.post(url, b"{}", id="one", tenant="acme", timeout_s=timeout_s)


@asynccontextmanager
async def webhook_under_way(client: Webhooks, to: Receiver) -> AsyncIterator[None]:
    under_way = asyncio.create_task(post(client, to.url))
    await to.reached.wait()
    try:
        yield
    finally:
        under_way.cancel()
        with suppress(asyncio.CancelledError):
            await under_way


# -- addresses


async def test_a_name_that_is_at_a_private_address_is_refused() -> None:
    names = Names({"crm.example": [["10.0.0.1"]], "mixed.example": [["8.8.8.8", "169.254.169.254"]]})
    async with webhooks(WebhookSettings(), resolve=names) as client:
        for host, reason in (("crm.example", "private"), ("mixed.example", "link-local")):
            with pytest.raises(ForbiddenAddress, match=f"{host} is at .*{reason}.*allow_networks") as failure:
                await post(client, f"https://{host}/?token=hidden")
            assert failure.value.permanent
            assert "hidden" not in str(failure.value)


async def test_a_name_is_resolved_once_for_a_connection_and_judged_again_for_the_next() -> None:
    """127.0.0.1 stands for the public address, 127.0.0.2 for the private one a name is turned to afterwards."""
    names = Names({"turning.example": [["127.0.0.1"], ["127.0.0.2"]]})
    settings = WebhookSettings(allow_http=True, allow_networks=("127.0.0.1/32",), keepalive_s=0)
    async with (
        receiver() as public,
        receiver(host="127.0.0.2", port=public.port) as private,
        webhooks(settings, resolve=names) as client,
    ):
        await post(client, f"http://turning.example:{public.port}/")
        assert (len(public.requests), names.asked) == (1, ["turning.example"])
        with pytest.raises(ForbiddenAddress):
            await post(client, f"http://turning.example:{public.port}/")
    assert len(public.requests) == 1
    assert private.requests == []


async def test_a_connection_that_is_used_again_stays_with_its_address() -> None:
    names = Names({"turning.example": [["127.0.0.1"], ["127.0.0.2"]]})
    async with (
        receiver() as public,
        receiver(host="127.0.0.2", port=public.port) as private,
        webhooks(resolve=names) as client,
    ):
        for _ in range(3):
            await post(client, f"http://turning.example:{public.port}/")
    assert (len(public.requests), len(private.requests), len(names.asked)) == (3, 0, 1)


async def test_the_second_address_of_a_name_is_tried_when_the_first_is_closed() -> None:
    settings = WebhookSettings(allow_http=True, allow_networks=("127.0.0.0/8",))
    names = Names({"crm.example": [["127.0.0.3", "127.0.0.1"]]})
    async with receiver() as here, webhooks(settings, resolve=names) as client:
        await post(client, f"http://crm.example:{here.port}/")
    assert here.requests[0][0]["Host"] == f"crm.example:{here.port}"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fd00:ec2::254]",
        "0.0.0.0",
        "127。0。0。1",
        "１２７.0.0.1",
    ],
)
async def test_a_literal_address_is_judged_too(host: str) -> None:
    async with webhooks(WebhookSettings()) as client:
        with pytest.raises(ForbiddenAddress):
            await post(client, f"https://{host}:1/")


@pytest.mark.parametrize("host", ["0x7f000001", "0x7f.1", "localhost"])
async def test_a_name_the_system_turns_into_loopback_is_refused(host: str) -> None:
    async with webhooks(WebhookSettings()) as client:
        with pytest.raises(WebhookFailed) as failure:
            await post(client, f"https://{host}:1/")
    assert isinstance(failure.value, ForbiddenAddress | BadUrl)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "crm.example",
        "//crm.example/",
        "https://",
        "https:///path",
        "https://crm.example:99999/",
        "https://crm.example:0/",
        "https://127.1/",
        "https://2130706433/",
        "https://[fe80::1%25eth0]x/",
        "https://user:password@crm.example/",
        "https://crm.example/\r\nx",
        "https://crm.example\\@10.0.0.1/",
        f"https://crm.example/{'x' * 2_000}",
        "ftp://crm.example/",
        "file:///etc/passwd",
        "http://crm.example/",
        f"https://{'a' * 64}.example/",
    ],
)
async def test_a_url_that_cannot_be_called_is_refused_without_being_quoted(url: str) -> None:
    async with webhooks(WebhookSettings()) as client:
        with pytest.raises(BadUrl) as failure:
            await post(client, url)
    assert failure.value.permanent
    assert "password" not in str(failure.value)


async def test_a_host_can_be_allowed_by_name() -> None:
    names = Names({"crm.internal": [["127.0.0.1"]], "other.internal": [["127.0.0.1"]]})
    settings = WebhookSettings(allow_http=True, allow_hosts=("CRM.internal",))
    async with receiver() as here, webhooks(settings, resolve=names) as client:
        await post(client, f"http://crm.internal:{here.port}/")
        with pytest.raises(ForbiddenAddress):
            await post(client, f"http://other.internal:{here.port}/")
        with pytest.raises(ForbiddenAddress):
            await post(client, here.url)
    assert len(here.requests) == 1


async def test_names_are_looked_up_in_threads_of_their_own() -> None:
    nobodys = ThreadPoolExecutor(1)
    nobodys.shutdown()
    asyncio.get_running_loop().set_default_executor(nobodys)
    settings = WebhookSettings(allow_http=True, allow_hosts=("localhost",))
    async with receiver() as here, webhooks(settings) as client:
        await post(client, f"http://localhost:{here.port}/")
    assert len(here.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_not_followed(status: int) -> None:
    async with receiver() as secret:

        async def send_on(_: web.Request) -> web.Response:
            return web.Response(status=status, headers={"Location": secret.url})

        async with receiver(send_on) as here, webhooks() as client:
            with pytest.raises(BadStatus, match=f"answered {status}; redirects are not followed"):
                await post(client, here.url)
    assert secret.requests == []


# -- what a receiver can do to us


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
    ],
    ids=["silence", "slow headers", "only 100", "slow body", "slow chunk"],
)
async def test_a_receiver_that_never_finishes_is_left(text: bytes) -> None:
    async with speaking(text) as here, webhooks() as client:
        with pytest.raises(TimedOut, match=f"127.0.0.1:{here.port} did not answer in time"):
            await post(client, here.url, timeout_s=0.3)
    assert len(here.requests) <= 1, "it is not asked again"


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 4_096),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4_096 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000, b""),
    ],
    ids=["endless", "endless chunks", "large"],
)
async def test_an_answer_over_the_limit_is_cut_off_and_the_limit_is_named(text: bytes, more: bytes) -> None:
    async with speaking(text, more=more) as here, webhooks() as client:
        with pytest.raises(AnswerTooLarge, match="65536 bytes"):
            await post(client, here.url)


async def test_an_answer_just_within_the_limit_is_read() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * 65_536)

    async with receiver(answer) as here, webhooks() as client:
        assert len(await post(client, here.url)) == 65_536


async def test_a_compressed_answer_is_not_unpacked() -> None:
    bomb = gzip.compress(b"0" * 10_000_000)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    async with receiver(answer) as here, webhooks() as client:
        assert await post(client, here.url) == bomb


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (b"HTTP/1.1 200 OK\r\nX-Large: " + b"x" * 100_000 + b"\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nX-Endless: ", b"x" * 4_096),
        (b"HTTP/1.1 200 OK\r\n", b"X-Many: x\r\n" * 100),
        (b"SSH-2.0-OpenSSH_9.2\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", b""),
    ],
    ids=["large header", "endless header", "endless headers", "not HTTP", "two lengths"],
)
async def test_an_answer_that_is_no_proper_http_is_a_failure(text: bytes, more: bytes) -> None:
    async with speaking(text, more=more) as here, webhooks() as client:
        with pytest.raises(Unreachable, match=f"^127.0.0.1:{here.port} could not be reached: [A-Za-z]+$"):
            await post(client, here.url)


async def test_a_closed_port_and_an_unknown_name_are_failures_that_may_pass() -> None:
    async with receiver() as here:
        pass
    async with webhooks(resolve=Names({"empty.example": [[]]})) as client:
        for url, cause in (
            (here.url, f"^127.0.0.1:{here.port} could not be reached: Connection refused$"),
            ("http://nowhere.example/", "its name has no address"),
            ("http://empty.example/", "its name has no address"),
        ):
            with pytest.raises(Unreachable, match=cause) as failure:
                await post(client, url)
            assert not failure.value.permanent


async def test_one_slow_receiver_does_not_keep_the_others_waiting() -> None:
    settings = WebhookSettings(allow_http=True, allow_networks=("127.0.0.1/32",), connections_per_host_max=1)
    async with (
        speaking(b"") as slow,
        receiver() as quick,
        webhooks(settings) as client,
        webhook_under_way(client, slow),
    ):
        await post(client, quick.url)
        with pytest.raises(TimedOut):
            await post(client, slow.url, timeout_s=0.1)
    assert (len(slow.requests), len(quick.requests)) == (1, 1)


# -- TLS


async def test_a_certificate_nobody_vouches_for_is_refused() -> None:
    names = Names({"receiver.test": [["127.0.0.1"]]})
    async with receiver(tls=serving_tls()) as here, webhooks(resolve=names) as client:
        with pytest.raises(Unreachable, match="its certificate is not valid") as failure:
            await post(client, f"https://receiver.test:{here.port}/")
    assert here.requests == []
    assert not failure.value.permanent


async def test_a_certificate_for_another_name_is_refused() -> None:
    names = Names({"receiver.test": [["127.0.0.1"]], "another.test": [["127.0.0.1"]]})
    async with (
        receiver(tls=serving_tls()) as here,
        webhooks(LOOPBACK, resolve=names, tls=trusting_the_certificate()) as client,
    ):
        await post(client, f"https://receiver.test:{here.port}/")
        with pytest.raises(Unreachable, match="its certificate is not valid"):
            await post(client, f"https://another.test:{here.port}/")
    assert len(here.requests) == 1


async def test_plain_http_behind_an_https_url_is_a_failure() -> None:
    async with receiver() as here, webhooks() as client:
        with pytest.raises(Unreachable, match="TLS failed"):
            await post(client, here.url.replace("http:", "https:"))
