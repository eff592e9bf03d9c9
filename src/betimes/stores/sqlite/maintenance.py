"""Writes outside the engine's batches, each in a short transaction of its own: leases, snoozes, pruning.

Every function runs in the writer's thread between `begin` and `commit`; the clock is read there, after the wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TypeAlias

from betimes.core.canonical import encode
from betimes.core.errors import Fenced, Unavailable
from betimes.core.instants import Instant
from betimes.core.segments import Segment
from betimes.core.streams import EffectId, StreamId
from betimes.engine.store import LEASE_RAN_OUT, Lease
from betimes.stores.sqlite.commit import segment_columns
from betimes.stores.sqlite.connection import Connection
from betimes.stores.sqlite.rows import in_shares, lease_of

Clock: TypeAlias = Callable[[], Instant]
ROOM_BYTES = 262_144
"""What must be free on the disk, so that a batch can be appended to the log."""


def check_writable(connection: Connection) -> None:
    """Take the write lock and give it back, and look for room in the file and on its disk; change nothing."""
    connection.begin()
    connection.rollback()
    if not connection.free_pages:
        raise Unavailable(f"{connection.path} has reached max_page_count; raise it, or prune")
    try:
        # Space is allocated for real: quotas and reserved blocks do not show in what the file system says is free.
        with TemporaryFile(dir=Path(connection.filename).parent) as file:
            os.posix_fallocate(file.fileno(), 0, ROOM_BYTES)
    except OSError as error:
        raise Unavailable(f"{connection.path}: its disk has no room ({error.strerror}); make room") from error


def snooze(connection: Connection, stream: StreamId, version: int, until: Instant, error: str) -> None:
    connection.change("snooze", {**stream._asdict(), "version": version, "until": until, "error": error})


def lease_calls(
    connection: Connection,
    executors: Sequence[str],
    limit: int,
    shares: Mapping[str, int] | None,
    held: str | None,
    clock: Clock,
) -> list[Lease]:
    now = clock()
    name, asked = "due_calls", {"executors": encode(executors), "limit": limit, "now": now, "held": held}
    if shares is not None:
        name, asked = "calls_in_shares", asked | in_shares(shares)
    due = connection.json(name, asked)
    if due:
        calls = encode([columns[0] for columns in due])
        connection.change("lease_calls", {"calls": calls, "now": now, "ran_out": LEASE_RAN_OUT})
    return [lease_of(columns[1:]) for columns in due]


def renew_lease(connection: Connection, effect: EffectId, fence: int, clock: Clock) -> None:
    if not connection.change("renew_lease", {**effect._asdict(), "fence": fence, "now": clock()}):
        raise Fenced(f"the lease on effect {effect.handle} was lost")


def revive_effect(connection: Connection, effect: EffectId, clock: Clock) -> bool:
    return connection.change("revive_effect", {**effect._asdict(), "now": clock()}) > 0


def discard_effect(connection: Connection, effect: EffectId) -> bool:
    gone = connection.change("discard_effect", effect._asdict())
    _count_effects(connection, -gone)
    return gone > 0


def revive_effects(connection: Connection, effects: Sequence[EffectId], clock: Clock) -> list[EffectId]:
    return [effect for effect in effects if revive_effect(connection, effect, clock)]


def discard_effects(connection: Connection, effects: Sequence[EffectId]) -> list[EffectId]:
    return [effect for effect in effects if discard_effect(connection, effect)]


def _count_effects(connection: Connection, change: int) -> None:
    # The head counts effects; one that is removed on purpose must not look like one that was lost.
    if change:
        connection.change("move_head", {"segments": 0, "digest": 0, "effects": change})


def replace_history(connection: Connection, checkpoint: Segment, clock: Clock) -> int:
    upto = {**checkpoint.stream._asdict(), "version": checkpoint.version}
    # Who repeats a key that is kept is answered from its segment.
    if connection.value("history_is_needed", {**upto, "now": clock()}):
        return 0
    count, last_seq = connection.json("history_end", upto)
    if count:
        # Dropped first: the checkpoint takes the number of the last one, and numbers are unique.
        connection.change("drop_history", upto)
        row = connection.value("row_number", checkpoint.stream._asdict())
        connection.change_rows("append_segments", [segment_columns(checkpoint, row, last_seq)])
        # Searches by instant pass over blocks that cannot hold it.
        connection.change("widen_block", {"seq": last_seq, "at": checkpoint.at})
    return int(count)


def forget(connection: Connection, before_at: Instant, limit: int, clock: Clock) -> int:
    keys = connection.change("forget_keys", {"now": clock(), "limit": limit})
    effects = connection.change("forget_effects", {"before_at": before_at, "limit": limit})
    _count_effects(connection, -effects)
    return keys + effects
