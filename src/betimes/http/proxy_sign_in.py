"""Sign-in behind an authenticating proxy: the name in its header stands for a key.

Only proxies at addresses that the settings name are believed, and only when a session is opened or let to act; no other
request goes by the header. The page must have meant it, as with any change under a session, so that no other site can
sign somebody in.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import msgspec
from starlette.requests import Request

from betimes.http.problems import HttpProblem
from betimes.http.sessions import CROSS_SITE, is_meant

EVERYBODY = "*"
NAME_CHARS_MAX = 128


class ProxySignIn(msgspec.Struct, frozen=True):
    """Whom to believe, and which key each name stands for."""

    header: str = ""
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    keys: Mapping[str, str] = {}

    def who(self, request: Request) -> tuple[str, str] | None:
        """Return the name that a proxy gives and its key's id, if one is to be believed; raise 403 across sites."""
        told = request.headers.getlist(self.header) if self.header else []
        name = told[0].strip() if len(told) == 1 else ""  # of two, one may be the visitor's own
        if not name or len(name) > NAME_CHARS_MAX or not self._is_believed(request):
            return None
        key_id = self.keys.get(name) or self.keys.get(EVERYBODY)
        if key_id is None:
            return None
        if not is_meant(request):
            raise HttpProblem(403, "CROSS_SITE", CROSS_SITE)
        return name, key_id

    def _is_believed(self, request: Request) -> bool:
        if request.client is None:
            return False
        try:
            address = ip_address(request.client.host)
        except ValueError:
            return False
        # A socket that listens on `::` names IPv4 peers so; the settings name them as they are.
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return any((mapped or address) in network for network in self.networks)


def parse_networks(texts: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return networks such as `10.0.0.0/8`; raise `ValueError` for what is none."""
    return tuple(ip_network(text) for text in texts)


NOBODY = ProxySignIn()
