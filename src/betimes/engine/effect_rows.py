"""An effect's row, and the texts in it: its payload and its attempts, read so that one bad row stops no other.

A store reads many effects at once, and a worker leases many at once. A text that cannot be read becomes a value that
says so: the list shows it, the dispatcher makes a dead letter of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from betimes.core.deciders import EffectCall
from betimes.core.instants import Instant
from betimes.core.streams import EffectId, StreamId
from betimes.engine.queries import EffectStatus

UNREADABLE_ATTEMPTS = "its attempts cannot be read"


class Attempt(NamedTuple):
    """One try at an effect and how it ended: settled, or found when its lease had run out and it was taken again."""

    at: Instant
    """When it ended."""
    ok: bool
    error: str
    duration_ms: int | None


class UnreadablePayload(msgspec.Struct, frozen=True):
    """In place of a payload that is no JSON: what is wrong with it."""

    why: str


_attempts = msgspec.json.Decoder(tuple[Attempt, ...], strict=False)  # SQLite has no booleans


def attempts_in(text: str) -> tuple[Attempt, ...]:
    """Return the attempts a row keeps as text; in place of those that cannot be read, one that says so."""
    try:
        return _attempts.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return (Attempt(0, False, UNREADABLE_ATTEMPTS, None),)


def payload_in(text: str) -> Any:
    """Return the payload a row keeps as text, or an `UnreadablePayload`."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError) as error:
        return UnreadablePayload(str(error))


class EffectRow(NamedTuple):
    """An effect as it is listed; while it is leased, `next_attempt_at` is the end of its lease.

    `history` holds its last attempts, the oldest first; those before a revival too.
    """

    id: EffectId
    executor: str
    payload: str
    status: EffectStatus
    attempts: int
    created_at: Instant
    next_attempt_at: Instant | None
    finished_at: Instant | None
    last_error: str
    at_most_once: bool
    to: StreamId | None
    history: tuple[Attempt, ...]


class Lease(msgspec.Struct, frozen=True):
    """An effect this process holds now.

    `expired`: its last lease ran out and it may not be called again (at most once, or no attempts left); only settle.
    """

    call: EffectCall
    expired: bool
