"""One bounded HTTP POST to a host from untrusted input. Importing this needs aiohttp.

A URL comes from a tenant, so the receiver may be anything, also a machine of our own or one that means harm:

- The URL is parsed once, by the parser that connects. Hosts that only look like numbers (`127.1`, `0x7f000001`) are
  refused, or resolved and judged like any name.
- A name is resolved when a connection is made, every address is judged, and the connection goes to exactly these
  addresses: a name that answers differently the next time is judged again, for the next connection. One address that
  may not be called refuses the name.
- Redirects, cookies, proxies and credentials of the environment, and compressed answers are not used.
- Waiting for a free connection, the name, connecting, sending and reading all count towards one time limit. Headers are
  bounded by aiohttp, the answer by the settings; an answer that is not wanted is not read.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from betimes.outbound.bodies import read_body
from betimes.outbound.failures import AnswerTooLarge, BadStatus, BadUrl, TimedOut, Unreachable, WebhookFailed
from betimes.outbound.settings import Resolve, WebhookSettings
from betimes.outbound.urls import UrlRules

LOOKUPS_MAX = 16


class Outbound:
    """A pool of checked connections; made and closed within one event loop."""

    def __init__(self, settings: WebhookSettings, resolve: Resolve | None, tls: ssl.SSLContext | None) -> None:
        self._settings = settings
        self._rules = UrlRules(settings)
        self._threads = ThreadPoolExecutor(LOOKUPS_MAX, thread_name_prefix="betimes-names")
        self._session = aiohttp.ClientSession(
            connector=self._connector(_CheckedResolver(resolve or looking_up(self._threads), self._rules), tls),
            # Calls share one session, so whatever a session may keep or add by itself is off: cookies of one receiver,
            # a proxy from the environment, and bombs that unpack into more than is read.
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers={"User-Agent": "betimes", "Accept-Encoding": "identity"},
        )

    def _connector(self, resolver: AbstractResolver, tls: ssl.SSLContext | None) -> aiohttp.TCPConnector:
        settings = self._settings
        return aiohttp.TCPConnector(
            resolver=resolver,
            # The address that was checked is the one that is connected to; a cache would skip the check.
            use_dns_cache=False,
            ssl=True if tls is None else tls,
            limit=settings.connections_max,
            limit_per_host=settings.connections_per_host_max,
            **({"keepalive_timeout": settings.keepalive_s} if settings.keepalive_s else {"force_close": True}),
        )

    async def close(self) -> None:
        await self._session.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> bytes:
        """Return the body of a 2xx answer; raise `WebhookFailed` otherwise."""
        return await self._request("POST", url, body, headers, timeout_s)

    async def get(self, url: str, timeout_s: float) -> bytes:
        """Return the body of a 2xx answer; raise `WebhookFailed` otherwise."""
        return await self._request("GET", url, None, {}, timeout_s)

    async def _request(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
    ) -> bytes:
        target = self._rules.target(url)
        host = target.host_port_subcomponent or ""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(method, target, host, body, headers)
        except WebhookFailed:
            raise
        except TimeoutError:
            raise TimedOut(f"{host} did not answer in time") from None
        except aiohttp.InvalidURL:
            raise BadUrl("the URL cannot be called") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"{host} could not be reached: {_cause(error)}") from None

    async def _exchange(
        self, method: str, target: URL, host: str, body: bytes | None, headers: Mapping[str, str]
    ) -> bytes:
        # The whole call has a time-out around it, which covers the look-up of the name too.
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._settings.connect_timeout_s)
        async with self._session.request(
            method, target, data=body, headers=headers, allow_redirects=False, timeout=limits
        ) as response:
            try:
                if not 200 <= response.status < 300:
                    raise BadStatus(host, response.status)
                return await self._answer(response, host)
            except BaseException:
                # Not given back to the pool: the rest of the answer was not read.
                response.close()
                raise

    async def _answer(self, response: aiohttp.ClientResponse, host: str) -> bytes:
        limit = self._settings.response_bytes_max
        read = await read_body(response, limit)
        if len(read) > limit:
            raise AnswerTooLarge(f"{host} answered with more than {limit} bytes, which is the limit")
        return read


class _CheckedResolver(AbstractResolver):
    """Resolves names to addresses that may be called, and to nothing else."""

    def __init__(self, resolve: Resolve, rules: UrlRules) -> None:
        self._resolve = resolve
        self._rules = rules

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        try:
            addresses = await self._resolve(host, port)
        except UnicodeError:
            raise BadUrl("the URL's host is not a valid name") from None
        if not addresses:
            raise OSError("the name has no address")
        self._rules.demand_addresses(host, addresses)
        return [_result(host, address, port) for address in addresses]

    async def close(self) -> None:
        """It holds nothing."""


def looking_up(threads: ThreadPoolExecutor) -> Resolve:
    """Return a resolver that asks the operating system in its own threads: a slow name server blocks nothing else."""

    async def look_up(host: str, port: int) -> list[str]:
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(threads, ask)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    return look_up


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return {
        "hostname": host,
        "host": address,
        "port": port,
        "family": family,
        "proto": socket.IPPROTO_TCP,
        # Numeric, so that nobody looks the name up a second time and meets another address.
        "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    }


def _cause(error: Exception) -> str:
    """Return what went wrong, in words of this machine rather than the receiver's."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = error.certificate_error
        return f"its certificate is not valid ({getattr(reason, 'verify_message', '') or type(reason).__name__})"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name has no address"
    if isinstance(error, aiohttp.ClientConnectorSSLError | ssl.SSLError):
        return "TLS failed"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return type(error).__name__
