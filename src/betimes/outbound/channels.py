"""Channels: the ways by which a message reaches a person, as the server is configured.

Where a person is reached (the address) is data; how (service, credentials) is configuration: a channel is a set of
Apprise URLs, a signed webhook, or the log; or it is a function of the application (`@bt.channel`). A tenant may have
channels of its own in place of the deployment's, or be without them. A message is sent once per call; trying again is
the engine's, so a channel of several URLs may repeat the ones that worked.

Credentials are in URLs. They appear in no error, log or repr: what Apprise and its HTTP client log while they send for
us is dropped, and of what they raise only the kind of error is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote

import msgspec

from betimes.core.canonical import encode
from betimes.core.errors import Invalid
from betimes.core.instants import Instant, render
from betimes.core.names import Url
from betimes.notifications.policy import IN_APP
from betimes.outbound.apprise_client import Apprised
from betimes.outbound.failures import BadAddress, ChannelSendFailed, UnknownChannel
from betimes.outbound.handlers import HandlerContext, Invoke
from betimes.outbound.webhooks import Webhooks

ADDRESS_CHARS_MAX = 512
PLACE = "{address}"
Seconds = Annotated[float, msgspec.Meta(gt=0, le=120)]

_preparing: list[Callable[[], None]] = []


def before_logging(prepare: Callable[[], None]) -> None:
    """Have something done before the next message goes into the log; most processes never send one there."""
    _preparing.append(prepare)


def _log_message(event: str, **fields: Any) -> None:
    """Log a message; the logger is loaded here because that takes about as long as loading all the rest."""
    import structlog

    for prepare in _preparing:
        prepare()
    _preparing.clear()
    structlog.get_logger("betimes.channels").info(event, **fields)


class _Channel(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    # The URL of a channel holds its credentials, and reprs end up in logs.
    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"

    def __rich_repr__(self) -> Any:
        yield "…"


class AppriseChannel(_Channel, tag="apprise", frozen=True):
    """Any service Apprise knows."""

    urls: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=8)]
    """As Apprise writes them; `{address}` stands for the person's address, quoted, and never names the host."""
    timeout_s: Seconds = 15.0

    def __post_init__(self) -> None:
        for place, url in enumerate(self.urls):
            scheme, found, rest = url.partition("://")
            if not found or not scheme:
                raise ValueError(f"urls[{place}]: not an Apprise URL, such as mailto://…")
            if PLACE in scheme or PLACE in _authority(rest):
                raise ValueError(
                    f"urls[{place}]: {PLACE} must come after the host, or an address could replace the host"
                )


class WebhookChannel(_Channel, tag="webhook", frozen=True):
    """A signed webhook that is given the message as JSON."""

    url: Url
    timeout_s: Seconds = 10.0


class LogChannel(_Channel, tag="log", frozen=True):
    """The message is logged, for development."""


Channel: TypeAlias = AppriseChannel | WebhookChannel | LogChannel
STAND_IN = LogChannel()
"""The log in place of a channel that nobody has configured; told by its identity from one that somebody has."""


class ChannelMessage(msgspec.Struct, frozen=True):
    """A message on its way to a person: what a channel is given, a function of the application too."""

    channel: str
    user_id: str
    address: str | None
    """Where the person is reached on this channel, if their preferences say so."""
    title: str
    message: str
    metadata: dict[str, Any]
    """The notification's own, with its `event_id` and `event_type`; of a digest, `digest` with the event ids."""


class ChannelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The deployment's channels by name, and what tenants have instead; None takes a channel away."""

    channels: Mapping[str, Channel] = {}
    tenants: Mapping[str, Mapping[str, Channel | None]] = {}

    @property
    def names(self) -> frozenset[str]:
        """Return every channel that anybody has."""
        return frozenset(self.channels).union(*self.tenants.values())

    def of(self, tenant: str, channel: str) -> Channel | None:
        own = self.tenants.get(tenant, {})
        return own[channel] if channel in own else self.channels.get(channel)


class Channels:
    """Sends messages through configured channels and functions; close it to let its threads go."""

    def __init__(
        self,
        settings: ChannelSettings,
        *,
        functions: Mapping[str, Invoke] | None = None,
        webhooks: Webhooks | None = None,
        log: Callable[..., Any] | None = None,
        now: Callable[[], Instant] | None = None,
    ) -> None:
        """`webhooks` carries channels of that kind and must be open; `log` is given what the log's channels send.

        `functions` are channels of the deployment too, in place of the log; raise `Invalid` if the settings have
        another one of that name. With a clock of its own (`now`), such as a virtual one, a line of the log says what
        it shows, as `at`.
        """
        self._settings, self._functions, self._now = settings, functions or {}, now
        _demand_one_place(settings.channels, self._functions)
        self._webhooks = webhooks
        self._log = log or _log_message
        self._apprised = Apprised()

    def close(self) -> None:
        self._apprised.close()

    @property
    def names(self) -> frozenset[str]:
        """Return every channel that anybody has."""
        return self._settings.names.union(self._functions)

    @property
    def certain_names(self) -> frozenset[str]:
        """Return the channels of the deployment that are a function here, or configured."""
        said = (name for name, channel in self._settings.channels.items() if channel is not STAND_IN)
        return frozenset(self._functions).union(said)

    def has(self, tenant: str, channel: str) -> bool:
        """Return whether a message of this tenant can go that way; in_app needs no configuration."""
        return channel == IN_APP or self._of(tenant, channel) is not None

    def _of(self, tenant: str, channel: str) -> Channel | Invoke | None:
        # An entry of the tenant goes before a function, also the one that takes the channel away.
        is_own = channel in self._settings.tenants.get(tenant, {})
        function = None if is_own else self._functions.get(channel)
        return function or self._settings.of(tenant, channel)

    async def send(self, message: ChannelMessage, context: HandlerContext) -> None:
        """Send once through the tenant's channel of that name; raise an `EffectFailed`, or what a function raises."""
        channel = message.channel
        match self._of(context.tenant, channel):
            case None:
                raise UnknownChannel(f"no channel {channel!r} is configured for the tenant {context.tenant!r}")
            case AppriseChannel(urls, timeout_s):
                filled = [_fill_address(channel, url, message.address) for url in urls]
                await self._apprised.send(channel, filled, message.title, message.message, timeout_s)
            case WebhookChannel(url, timeout_s):
                body = {name: getattr(message, name) for name in ("channel", "address", "title", "message", "metadata")}
                await self._post(url, body, context, timeout_s)
            case LogChannel():
                at = {"at": render(self._now())} if self._now else {}
                told = {name: getattr(message, name) for name in ("channel", "address", "title", "message")}
                self._log("notification", **at, **told, id=context.effect_id)
            case function:
                await function(message, context)

    async def _post(self, url: str, body: Mapping[str, Any], context: HandlerContext, timeout_s: float) -> None:
        if self._webhooks is None:
            raise ChannelSendFailed("a channel is a webhook, but the channels were given no `webhooks`")
        raw = encode(body).encode()
        await self._webhooks.post(url, raw, id=context.effect_id, tenant=context.tenant, timeout_s=timeout_s)


def _demand_one_place(configured: Mapping[str, Channel], functions: Mapping[str, Invoke]) -> None:
    """Raise `Invalid` if a channel is both configured and a function; the log is where channels go without either."""
    twice = sorted(name for name in functions if not isinstance(configured.get(name, LogChannel()), LogChannel))
    if twice:
        told = (
            f"both @bt.channel and the configuration say how {', '.join(twice)} is sent; declare each in one place only"
        )
        raise Invalid(told, tuple((f"channels.{name}", "the application declares @bt.channel") for name in twice))


def _fill_address(channel: str, url: str, address: str | None) -> str:
    """Return the URL with the address in its place, quoted so that it can only mean an address."""
    if PLACE not in url:
        return url
    if not address:
        raise BadAddress(f"the channel {channel!r} needs an address, and the user has none")
    if len(address) > ADDRESS_CHARS_MAX or not address.isprintable() or set(address) & set(" ,;%"):
        # some of Apprise's plug-ins unquote twice, so that a quoted comma would make two addresses of one
        raise BadAddress(
            f"an address of the channel {channel!r} has at most {ADDRESS_CHARS_MAX} printable characters, "
            "and no space, comma, semicolon or percent sign: it is one address"
        )
    return url.replace(PLACE, quote(address, safe=""))


def _authority(rest: str) -> str:
    """Return the part before the path or query."""
    return rest.partition("/")[0].partition("?")[0]
