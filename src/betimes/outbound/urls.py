"""URLs that tenants name, read by the parser that connects, and judged by what the settings allow.

`parse_url` refuses what no process could ever call. `UrlRules` also refuses what these settings forbid: plain HTTP, and
addresses that are not public. A name is not looked up here: it is judged again, with its addresses, when it is called.
Importing this needs yarl, which comes with aiohttp.
"""

from __future__ import annotations

import ipaddress
import re

from yarl import URL

from betimes.domain.deployment import UrlFinding
from betimes.outbound.addresses import AddressRules
from betimes.outbound.failures import BadUrl, ForbiddenAddress, WebhookFailed
from betimes.outbound.settings import WebhookSettings

URL_CHARS_MAX = 2_000
SCHEMES = ("https", "http")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,254}")
"""Of a host, once its other letters are encoded."""


class UrlRules:
    """The URLs that may be called under the settings."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._schemes = SCHEMES if settings.allow_http else ("https",)
        self._addresses = AddressRules(settings.allow_networks, settings.allow_hosts)

    def target(self, url: str) -> URL:
        """Return the URL to connect to; raise `BadUrl` or `ForbiddenAddress` if it may not be called."""
        target = parse_url(url)
        if target.scheme not in self._schemes:
            raise BadUrl(f"the URL's scheme must be {' or '.join(self._schemes)}; `allow_http` allows http")
        host = target.raw_host or ""
        if _is_number(host):
            self.demand_addresses(host, [host])
        return target

    def demand_addresses(self, host: str, addresses: list[str]) -> None:
        """Raise `ForbiddenAddress` if one of a host's addresses may not be called."""
        for address in addresses:
            if reason := self._addresses.refusal(host, address):
                raise ForbiddenAddress(
                    f"{host} is at an address that may not be called ({reason}); "
                    "`allow_networks` or `allow_hosts` of the webhook settings allows it"
                )

    def finding(self, url: str) -> UrlFinding:
        """Return what is wrong with a URL that is about to be saved, or what keeps this process from calling it."""
        try:
            host = parse_url(url).raw_host or ""
        except BadUrl as error:
            return UrlFinding(problem=str(error))
        try:
            self.target(url)
            # Resolved by every machine to itself; any other name is only looked up when it is called.
            if host == "localhost" or host.endswith(".localhost"):
                self.demand_addresses(host, ["127.0.0.1"])
        except WebhookFailed as error:
            return UrlFinding(warning=f"this process does not call it: {error}")
        return UrlFinding()


def parse_url(url: str) -> URL:
    """Return the URL as it is connected to, without its fragment; raise `BadUrl` if it can never be called."""
    if len(url) > URL_CHARS_MAX or not url.isprintable():
        raise BadUrl(f"a URL has at most {URL_CHARS_MAX} characters, all of them printable")
    try:
        target = URL(url)
        host = target.raw_host or ""
        whole = bool(host and target.port)
        # A host without this form cannot be looked up, and would fail only when it is called.
        host.encode("idna")
    except ValueError:
        raise BadUrl("the URL cannot be read") from None
    if not whole:
        raise BadUrl("the URL names no host and port")
    if target.scheme not in SCHEMES:
        raise BadUrl(f"the URL's scheme must be {' or '.join(SCHEMES)}")
    if target.user is not None or target.password is not None:
        raise BadUrl("the URL carries credentials; receivers verify the signature instead")
    if _is_number(host):
        _demand_literal(host)
    elif not _NAME.fullmatch(host):
        raise BadUrl("the URL's host is not a valid name")
    return target.with_fragment(None)


# `2130706433` and `127.1` are addresses to some resolvers; what looks like a number must be one as it is usually
# written.
def _is_number(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


def _demand_literal(host: str) -> None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise BadUrl("the URL's host is a number, but not an address as it is usually written") from None
