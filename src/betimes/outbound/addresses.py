"""Network addresses that may be called: public ones, and those the settings allow by host or network.

The table lists what the IANA registries set apart, and the one public address that a cloud answers its own machines on.
An IPv6 address that carries an IPv4 one is judged by the one it carries. Of IPv6, only what is given out for public use
(2000::/3) is public at all, so a range nobody has heard of is refused too.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

FORBIDDEN: tuple[tuple[Network, str], ...] = tuple(
    (ipaddress.ip_network(network), name)
    for network, name in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "cloud metadata"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("64:ff9b:1::/48", "private NAT64"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
    )
)

_PUBLIC_V6 = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_COMPATIBLE = ipaddress.ip_network("::/96")
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})


class AddressRules:
    """The addresses that are allowed beyond the public network."""

    def __init__(self, networks: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
        self._networks = tuple(ipaddress.ip_network(network) for network in networks)
        self._hosts = frozenset(_bare(host) for host in hosts)

    def refusal(self, host: str, address: str) -> str | None:
        """Return why a host may not be called at this address, or `None` if it may."""
        if _bare(host) in self._hosts:
            return None
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return "not an address"
        # An IPv6 address may be a tunnel to an IPv4 one: neither may be set apart, unless one is allowed.
        judged = (found, *embedded_ipv4(found))
        if any(one in network for one in judged for network in self._networks if one.version == network.version):
            return None
        return next((reason for one in judged if (reason := _set_apart(one))), None)


def embedded_ipv4(address: Address) -> tuple[Address, ...]:
    """Return the IPv4 address inside an IPv6 one, where its form has one."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    low = int(address) & 0xFFFF_FFFF
    if inner := address.ipv4_mapped or address.sixtofour:
        return (inner,)
    # `::` and `::1` are addresses of their own, not the IPv4 addresses 0.0.0.0 and 0.0.0.1.
    if address in _NAT64 or (address in _COMPATIBLE and low > 1):
        return (ipaddress.IPv4Address(low),)
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP:
        return (ipaddress.IPv4Address(low),)
    return ()


def _set_apart(address: Address) -> str | None:
    for network, name in FORBIDDEN:
        if address.version == network.version and address in network:
            return name
    if address.version == 6 and address not in _PUBLIC_V6 and not embedded_ipv4(address):
        return "not public"
    return None


def _bare(host: str) -> str:
    return host.casefold().rstrip(".")
