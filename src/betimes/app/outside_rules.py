"""What this process says of URLs that tenants and the configuration name, by its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from betimes.core.checking import Problem
from betimes.effects.channels import PLACE, Channel, ChannelSettings, WebhookChannel
from betimes.effects.enrichment import EnrichmentSettings
from betimes.effects.settings import WebhookSettings
from betimes.services.outside_calls import CheckUrl, OutsideRules, UrlFinding

NO_CLIENT = UrlFinding(
    warning="this process cannot call it or check it: webhooks need aiohttp, pip install 'betimes[server]'"
)


def outside_rules(webhooks: WebhookSettings) -> OutsideRules:
    return OutsideRules(check_url=url_check(webhooks))


def url_check(webhooks: WebhookSettings) -> CheckUrl:
    """Return what judges URLs with the parser that connects, if that is installed."""
    try:
        from betimes.effects.urls import UrlRules
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
