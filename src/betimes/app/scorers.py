"""The scorer of notifications: declared in Python, or named in the configuration; one of them at most."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

import msgspec

from betimes.app.imports import import_object
from betimes.core.errors import Invalid
from betimes.notifications.enrichment import Enrichment, EnrichmentSettings, HttpProvider, Provider
from betimes.outbound.settings import WebhookSettings
from betimes.outbound.webhooks import Webhooks

MakeWebhooks = Callable[[WebhookSettings], Webhooks]


async def open_scorer(
    settings: EnrichmentSettings,
    declared: Provider | None,
    make_webhooks: MakeWebhooks,
    webhooks: WebhookSettings,
    closing: AsyncExitStack,
) -> Enrichment | None:
    """Return what asks the provider, or `None` without one; `closing` ends it. Raise `Invalid` if two are named."""
    named = "url" if settings.url else "python" if settings.python else None
    if named and declared:
        wrong = (f"enrichment.{named}", "the application declares a provider of its own")
        raise Invalid(
            f"both the application and enrichment.{named} declare a provider of scores; declare it in one place only",
            (wrong,),
        )
    if settings.url:
        # connections of its own, so that no question waits for one: that would count as the provider's failure
        places = settings.under_way_max
        own = msgspec.structs.replace(webhooks, connections_max=places, connections_per_host_max=places)
        client = await closing.enter_async_context(make_webhooks(own))
        provider: Provider | None = HttpProvider(client, settings.url)
        name = urlsplit(settings.url).hostname or "provider"
    else:
        provider = import_provider(settings.python) if settings.python else declared
        name = getattr(provider, "__name__", "provider")
    if provider is None:
        return None
    scorer = Enrichment(provider, name=settings.name or name, settings=settings)
    closing.push_async_callback(scorer.close)
    return scorer


def import_provider(place: str) -> Provider:
    """Return the function that `enrichment.python` names; raise `Invalid` or `NotFound` if there is none."""
    found: Any = import_object(place, "a provider", "shop.scores:score")
    if not callable(found):
        message = f"{place} is not a function but {type(found).__name__}"
        raise Invalid(f"enrichment.python: {message}", (("enrichment.python", message),))
    provider: Provider = found
    return provider
