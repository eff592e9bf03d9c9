"""Checks by the settings of this process of what tenants save: URLs, names of handlers, and secrets."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from functools import partial

import msgspec

from betimes.core.checks import Problem
from betimes.core.errors import MissingExtra
from betimes.domain.deployment import CheckUrl, Deployment, NoTokens, PlainBox, SecretBox, TokenVerifier, UrlFinding
from betimes.notifications.enrichment import EnrichmentSettings
from betimes.outbound.channels import PLACE, Channel, ChannelSettings, WebhookChannel
from betimes.outbound.settings import WebhookSettings

NO_CLIENT = UrlFinding(
    warning="this process cannot call it or check it: webhooks need aiohttp, pip install 'betimes[server]'"
)


class HandlerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Python handlers and evaluators that definitions of tenants may name."""

    tenants: dict[str, tuple[str, ...]] = {}
    """Names by tenant, `*` for all of them; under the tenant `*` for every tenant.

    Without an entry, the application's own tenant may name all, and others none.
    """

    def permits(self, own: str, tenant: str, name: str) -> bool:
        usual = ("*",) if tenant == own else ()
        listed = (*self.tenants.get(tenant, usual), *self.tenants.get("*", ()))
        return name in listed or "*" in listed


class EncryptionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The encryption of signing secrets in the database."""

    keys: tuple[str, ...] = ()
    """32 random bytes each, in base64 (`betimes secrets key` makes one): the first encrypts, all decrypt.

    Without any, secrets are kept as plain text.
    """

    def __post_init__(self) -> None:
        for place, key in enumerate(self.keys):
            if not is_key(key):
                raise ValueError(f"keys[{place}] is not 32 bytes in base64; `betimes secrets key` makes one")


def is_key(text: str) -> bool:
    try:
        return len(b64decode(text, validate=True)) == 32
    except ValueError:
        return False


def deployment_of(
    webhooks: WebhookSettings,
    *,
    handlers: HandlerSettings | None = None,
    encryption: EncryptionSettings | None = None,
    tokens: TokenVerifier | None = None,
    tenant: str = "default",
) -> Deployment:
    """Return what services go by; `tenant` is the application's own."""
    permits = partial((handlers or HandlerSettings()).permits, tenant)
    box = secret_box(encryption or EncryptionSettings())
    return Deployment(url_check(webhooks), permits, box, tokens or NoTokens())


def secret_box(encryption: EncryptionSettings) -> SecretBox:
    """Return what encrypts secrets, or keeps them as they are without keys; raise `MissingExtra` if it cannot."""
    if not encryption.keys:
        return PlainBox()
    try:
        from betimes.outbound.sealed_box import SealedBox
    except ModuleNotFoundError as error:
        raise MissingExtra("encryption.keys needs cryptography: pip install 'betimes[tokens]'") from error
    return SealedBox(encryption.keys)


def url_check(webhooks: WebhookSettings) -> CheckUrl:
    """Return what judges URLs with the parser that connects, if that is installed."""
    try:
        from betimes.outbound.urls import UrlRules
    except ModuleNotFoundError:
        return lambda url: NO_CLIENT
    return UrlRules(webhooks).finding


def url_problems(channels: ChannelSettings, enrichment: EnrichmentSettings) -> Iterator[Problem]:
    """Yield the settings whose URL can never be called."""
    check = url_check(WebhookSettings())
    said: dict[str, Mapping[str, Channel | None]] = {"channels": channels.channels}
    said |= {f"tenants.{tenant}.channels": own for tenant, own in channels.tenants.items()}
    for path, named in said.items():
        for name, channel in named.items():
            if isinstance(channel, WebhookChannel) and (told := check(channel.url.replace(PLACE, "x")).problem):
                yield f"{path}.{name}.url", told
    if enrichment.url and (told := check(enrichment.url).problem):
        yield "enrichment.url", told
