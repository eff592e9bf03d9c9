"""Jitter that is a hash: spread evenly over a span, and the same on every replay."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b


@lru_cache(maxsize=1 << 12)
def spread(span: int, *names: str | int) -> int:
    """Return a whole number in `[0, span)` that depends on the names alone; 0 when the span is empty."""
    if span <= 0:
        return 0
    # Joined by a character that no id holds, so that `a, bc` and `ab, c` are two texts.
    text = "\x1f".join(map(str, names)).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest()) * span >> 64
