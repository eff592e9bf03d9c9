"""Settings of the console."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from betimes.http.proxy_sign_in import ProxySignIn, parse_networks

ADDRESS_CHARS_MAX = 2_000
Texts: TypeAlias = Literal["never", "click", "always"]


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether there is a console, and what it offers."""

    enabled: bool = True
    """Serve the console at `/console`."""
    actions: bool = True
    """Offer actions to users whose key has the scope; if false, no session can act either."""
    texts: Texts = "click"
    """When the texts of messages are shown to people who look: they are personal."""
    grafana: str = ""
    """Address of the dashboard in Grafana that Health links to; without one it offers a dashboard to import."""
    trust_header: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """Header in which a proxy in front names the user, such as `X-Forwarded-User`; without it no name is trusted."""
    trust_networks: tuple[str, ...] = ()
    """Addresses of the proxies that are believed, such as `10.1.0.0/16`."""
    trust_keys: dict[str, str] = {}
    """The id of the key that each person signs in with, by the name in the header; `*` stands for everybody else."""

    def __post_init__(self) -> None:
        if self.grafana:
            _check_address(self.grafana)
        parse_networks(self.trust_networks)
        if self.trust_header and not (self.trust_networks and self.trust_keys):
            raise ValueError("trust_header needs trust_networks and trust_keys beside it")
        if unnamed := [name for name, key_id in self.trust_keys.items() if not (name and key_id)]:
            raise ValueError(f"trust_keys needs a name and the id of a key in each entry, unlike {unnamed[0]!r}")

    @property
    def proxy(self) -> ProxySignIn:
        return ProxySignIn(self.trust_header.lower(), parse_networks(self.trust_networks), self.trust_keys)


def _check_address(address: str) -> None:
    """Raise `ValueError` unless a browser can follow this without handing over a password."""
    wrong = ValueError("grafana is an address that begins with https:// or http://, with a host")
    if not address.isprintable() or " " in address or len(address) > ADDRESS_CHARS_MAX:
        raise wrong
    try:
        parts = urlsplit(address)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise wrong from None
    if not is_whole:
        raise wrong
    if "@" in parts.netloc:
        raise ValueError("grafana is shown to whoever opens the console: leave out the name and password before @")
