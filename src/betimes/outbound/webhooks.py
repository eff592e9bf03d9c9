"""Signed webhooks: JSON to a receiver's URL, at most once a call, and the executor `webhook`.

Every request is signed by Standard Webhooks with the tenant's own secrets; the id is the effect's, the same on every
attempt, so that a receiver can drop what it has seen. `urls` and `addresses` decide which URLs may be called.
Nothing is tried again here: that is the engine's.
"""

from __future__ import annotations

import asyncio
import inspect
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

import msgspec

from betimes.core.bounds import read_json
from betimes.core.canonical import encode
from betimes.core.deciders import EffectCall
from betimes.core.errors import Invalid, MissingExtra
from betimes.core.instants import Instant
from betimes.outbound.failures import BadRequest, WebhookFailed, giving_up
from betimes.outbound.settings import Resolve, Secrets, WebhookSettings
from betimes.outbound.signatures import signature_headers

if TYPE_CHECKING:
    from betimes.outbound.client import Outbound

RESERVED_HEADERS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "content-encoding", "accept-encoding", "expect"}
)


class Webhooks:
    """Posts signed bodies. Use it as `async with Webhooks(...) as webhooks`."""

    def __init__(
        self,
        secrets: Secrets,
        *,
        now: Callable[[], Instant],
        settings: WebhookSettings | None = None,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`secrets` gives a tenant's one or two secrets, `resolve` a host's addresses, `tls` whom to trust."""
        self._secrets = secrets
        self._now = now
        self._settings = settings or WebhookSettings()
        self._resolve = resolve
        self._tls = tls
        self._outbound: Outbound | None = None
        self._is_open = False

    def configure(self, settings: WebhookSettings) -> None:
        """Go by other settings, from when it is next opened."""
        self._settings = settings

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        if find_spec("aiohttp") is None:
            raise MissingExtra("webhooks need the HTTP client aiohttp: pip install 'betimes[server]'")
        self._is_open = True

    async def close(self) -> None:
        self._is_open = False
        if self._outbound:
            await self._outbound.close()
        self._outbound = None

    async def _client(self) -> Outbound:
        """Return the client; it is loaded with the first request, since many processes never send one."""
        if self._outbound is None and self._is_open:
            with ThreadPoolExecutor(1) as thread:  # loading takes longer than the loop may stand still
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(thread, import_module, "betimes.outbound.client")
        return self._open_client()

    def _open_client(self) -> Outbound:
        # Asked here, because it may have been closed while the client was loaded.
        if not self._is_open:
            raise WebhookFailed("webhooks are not open; use `async with Webhooks(...)`")
        if self._outbound is None:
            from betimes.outbound.client import Outbound

            self._outbound = Outbound(self._settings, self._resolve, self._tls)
        return self._outbound

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        id: str,
        tenant: str,
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send once, signed as the tenant; return the body of a 2xx answer, raise `WebhookFailed` otherwise."""
        client = await self._client()
        if len(body) > self._settings.request_bytes_max:
            raise BadRequest(f"the body has {len(body)} bytes, at most {self._settings.request_bytes_max} are sent")
        sent = {"Content-Type": "application/json", **_own(headers or {})}
        sent |= signature_headers(await self._secrets_of(tenant), id, self._now(), body)
        return await client.post(url, body, sent, timeout_s or self._settings.timeout_s)

    async def get(self, url: str) -> bytes:
        """Return the body of a 2xx answer to a request that is not signed; raise `WebhookFailed` otherwise."""
        client = await self._client()
        return await client.get(url, self._settings.timeout_s)

    async def _secrets_of(self, tenant: str) -> Sequence[str]:
        found = self._secrets(tenant)
        return await found if inspect.isawaitable(found) else found


class WebhookPayload(msgspec.Struct, frozen=True):
    """The payload of a call to `webhook`."""

    url: str
    body: Any = None


class WebhookExecutor:
    """Carries out calls named `webhook`: posts `body` to `url`, answers with what the receiver says."""

    name = "webhook"

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    async def __call__(self, call: EffectCall) -> Any:
        with giving_up():
            try:
                asked = msgspec.convert(call.payload, WebhookPayload)
            except msgspec.ValidationError as error:
                raise BadRequest(f"the payload of a webhook is {{url, body}}: {error}") from None
            body = encode(asked.body).encode()
            return answer(await self._webhooks.post(asked.url, body, id=call.id.handle, tenant=call.id.tenant))


def answer(body: bytes) -> Any:
    """Return a receiver's answer as JSON; `None` when it is empty, not JSON, or cannot be recorded."""
    try:
        return read_json(body)
    except Invalid:
        return None


def _own(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's headers under the names they are sent by; raise `BadRequest` for those betimes sets."""
    own = {}
    for name, value in headers.items():
        plain = name.casefold()
        if plain in RESERVED_HEADERS or plain.startswith("webhook-"):
            raise BadRequest(f"the header {plain} is set by betimes")
        if not (name.isascii() and name.replace("-", "").isalnum() and value.isascii() and value.isprintable()):
            raise BadRequest("a header has a name of letters, digits and hyphens, and a value of printable ASCII")
        # In the spelling of the default, which it replaces.
        own["Content-Type" if plain == "content-type" else name] = value
    return own
