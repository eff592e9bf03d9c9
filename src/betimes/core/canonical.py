"""Canonical bytes: the same value gives the same JSON text in every process, so it can be compared and hashed.

Struct fields keep their declared order, mappings and sets are sorted, decimals are strings. Everything that is stored
is this text, readable with the database's own shell.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

FINGERPRINT_CHARS = 16
CANONICAL = msgspec.json.Encoder(order="deterministic", decimal_format="string")


def encode(value: Any) -> str:
    """Return the canonical JSON text of a value."""
    return CANONICAL.encode(value).decode()


def fingerprint(value: Any) -> str:
    """Return a short stable name for a value: the head of the SHA-256 of its canonical text."""
    return sha256(CANONICAL.encode(value)).hexdigest()[:FINGERPRINT_CHARS]


def digest(*parts: str | int | None) -> str:
    """Return the SHA-256 of a row's columns, each delimited, so that no two different rows share it."""
    return sha256(CANONICAL.encode(parts)).hexdigest()
