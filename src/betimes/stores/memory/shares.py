"""The shares of tenants in what is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from betimes.core.instants import Instant
from betimes.core.streams import StreamId


def in_shares(due: list[tuple[Instant, StreamId]], shares: Mapping[str, int]) -> list[tuple[Instant, StreamId]]:
    """The oldest of each tenant first, then the next of each, up to its share."""
    counts: Counter[str] = Counter()
    ranked: list[tuple[int, tuple[Instant, StreamId]]] = []
    for at, stream in due:
        counts[stream.tenant] += 1
        if counts[stream.tenant] <= shares.get(stream.tenant, 0):
            ranked.append((counts[stream.tenant], (at, stream)))
    return [found for _, found in sorted(ranked)]
