"""Settings of outbound webhooks: their bounds, and the hosts they may reach beyond the public network over TLS."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, TypeAlias

import msgspec

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
Secrets: TypeAlias = Callable[[str], Sequence[str] | Awaitable[Sequence[str]]]

Seconds = Annotated[float, msgspec.Meta(gt=0, le=300)]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=16_777_216)]
Connections = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The bounds and permissions of outbound webhooks."""

    allow_http: bool = False
    """Call `http:` URLs too, which anybody on the way can read and change."""
    allow_networks: tuple[str, ...] = ()
    """Networks that may be called although they are not public, such as `10.1.0.0/16`."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that may be called at whatever address they have."""
    timeout_s: Seconds = 10.0
    """For everything together, where the caller does not say."""
    connect_timeout_s: Seconds = 5.0
    request_bytes_max: Bytes = 1_048_576
    response_bytes_max: Bytes = 65_536
    connections_max: Connections = 100
    connections_per_host_max: Connections = 20
    """So that one slow receiver does not keep the others waiting."""
    keepalive_s: Annotated[float, msgspec.Meta(ge=0, le=300)] = 4.0
    """Idle connections are used again this long; 0 makes a new one for every call. Many servers hang up after 5 s."""

    def __post_init__(self) -> None:
        for network in self.allow_networks:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise ValueError(f"allow_networks: {error}; write it like 10.1.0.0/16") from None
        for host in self.allow_hosts:
            if not host or set(host) & set("/:*@ "):
                raise ValueError(f"allow_hosts: {host!r} is not a host; write its name alone, such as crm.internal")
