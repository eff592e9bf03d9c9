"""The audit of a store as a whole: the head that its commits record, and rows that lead nowhere.

**The head** is written in the commit of every batch: how many segments were ever written, and a sum over the digests
that streams end in. A new segment adds its digest and takes away the one before it, so the sum is that of the last
digest of every stream, whatever the order of commits, and pruning does not change it. The streams in the store
must come to the same. So a database that lacks its last segments, or any stream, is found out although each stream
that is left verifies. Committers do not wait for each other: a store may keep the head in parts and add them up.

It guards against loss and damage, not against somebody who writes both the rows and the head.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Protocol, runtime_checkable

import msgspec

from betimes.core.canonical import FINGERPRINT_CHARS
from betimes.core.errors import Invalid
from betimes.core.instants import Instant, render
from betimes.core.segments import Head

FINDINGS_MAX = 100
"""Rows of one kind that an audit names."""


class StoreAudit(msgspec.Struct):
    """The head a store recorded, the one its rows give, and the rows that lead nowhere."""

    recorded: Head
    found: Head
    unrecorded: int = 0
    """Segments that were there before heads were recorded: the record takes them as they were found then."""
    unrecorded_until: Instant | None = None
    last_at: Instant | None = None
    """The instant of the latest segment."""
    problems: list[tuple[str, str]] = []
    """Rows by name, and what is wrong with them."""


@runtime_checkable
class Audits(Protocol):
    """A store that records a head and can look for rows that lead nowhere."""

    async def audit(self, *, keys_since: Instant | None) -> StoreAudit:
        """Look at everything in one snapshot; a segment written since that instant must still have its key."""


def policy_problems(policies: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the policies whose body is not the one they are named after."""
    return [
        (f"policy {name}", "its body does not match its fingerprint")
        for name, body in policies
        if sha256(body.encode()).hexdigest()[:FINGERPRINT_CHARS] != name
    ]


def head_problems(audit: StoreAudit, expected: Head | None = None) -> list[str]:
    """Say what is missing or too much, by the head the store recorded and by one that was noted elsewhere."""
    problems = []
    recorded, found = audit.recorded, audit.found
    ends = f", whose last segment is of {render(audit.last_at)}" if audit.last_at is not None else ""
    if found.segments < recorded.segments:
        missing = recorded.segments - found.segments
        problems.append(
            f"cut off at segment {found.segments:,} of {recorded.segments:,}{ends}: {missing:,} are missing"
        )
    elif found[:2] != recorded[:2]:
        problems.append(
            f"the head of the streams is {found}, but {recorded} was recorded: a stream was changed or replaced"
        )
    if found.effects != recorded.effects:
        problems.append(f"{recorded.effects:,} effects were recorded, {found.effects:,} are there")
    if expected and found.segments < expected.segments:
        missing = expected.segments - found.segments
        problems.append(
            f"cut off at segment {found.segments:,} of the {expected.segments:,} expected{ends}: "
            f"{missing:,} are missing"
        )
    elif expected and found.segments == expected.segments and found.digest != expected.digest:
        problems.append(f"the head of the streams is {found}, but {expected} was expected")
    return problems


def parse_head(text: str) -> Head:
    """Return the head that `verify` printed; raise `Invalid` if it is none."""
    found = re.fullmatch(r"([0-9]{1,18})-([0-9a-f]{1,16})", text.strip())
    if not found:
        raise Invalid(
            f"{text[:60]!r} is not a head as `verify` prints it, such as 1200-3fa9c01d", (("head", "malformed"),)
        )
    return Head(int(found[1]), int(found[2], 16))
