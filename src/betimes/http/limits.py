"""Limits of connections: the cost of one before anybody knows whose it is."""

from __future__ import annotations

from typing import Annotated

import msgspec

Seconds = Annotated[float, msgspec.Meta(gt=0, le=3_600)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Bytes = Annotated[int, msgspec.Meta(ge=256, le=1_048_576)]


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds on connections and requests, heeded before a key is looked at."""

    connections_max: Count = 2_000
    """More are answered with 503 and closed."""
    connections_per_address_max: Count = 500
    """Of one client; behind a reverse proxy all come from its address, so leave it room."""
    url_bytes_max: Bytes = 8_192
    """A longer one is 414."""
    header_bytes_max: Bytes = 32_768
    """The request line and all headers together; more are 431."""
    headers_max: Count = 100
    """More are 431."""
    header_timeout_s: Seconds = 10.0
    """From the connection, or the first byte of a further request, to the end of its headers; then it is closed."""
    body_timeout_s: Seconds = 20.0
    """From the end of the headers to the end of the body; then it is closed."""
    write_timeout_s: Seconds = 30.0
    """How long a client may read nothing of an answer that waits for it; then it is closed."""
    keepalive_s: Seconds = 5.0
    """How long a connection may wait for its next request."""
