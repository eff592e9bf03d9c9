"""The rows of a commit, written in the writer's thread: every guard is the count of rows a statement changed.

Streams are updated by row number. The alarm, the lists and the status have statements of their own, run only for rows
whose values changed, because touching an index costs more than writing the row; where only one of them changed, the row
is written by that statement, once. The rows of a pass over a thousand streams are written hundreds to a statement, with
what they have in common bound once.

The ledger finds segments by the row number of their stream. New streams are numbered one after the other, so that their
first segments go to the end of that index, where an index by name would have them all over the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from betimes.core.errors import Conflict, Duplicate, Fenced
from betimes.core.instants import Instant
from betimes.core.segments import Segment, head_change
from betimes.core.streams import EffectId, StreamId
from betimes.engine.store import (
    NOT_CACHED,
    Changes,
    DeadSend,
    EffectWrite,
    KeyWrite,
    Settlement,
    StreamWrite,
)
from betimes.stores.sqlite.connection import Connection
from betimes.stores.sqlite.rows import RowPlace

ALIKE_MIN = 64
"""How many segments in a row must be alike for a statement of their own."""
BLOCK_SEGMENTS = 1_024
"""How many numbers of the ledger a block has."""


def find_places(connection: Connection, streams: Sequence[StreamId]) -> dict[StreamId, RowPlace]:
    """Where the rows of these streams are, for those that exist."""
    asked = [(number, *stream, NOT_CACHED) for number, stream in enumerate(streams)]
    return {streams[found[0]]: RowPlace(*found[1:9]) for found in connection.json_of_rows("find_streams", asked)}


def write_changes(connection: Connection, changes: Changes, places: Mapping[StreamId, RowPlace], now: Instant) -> None:
    """Write everything but the commit itself, or raise what forbids it; most batches have only some of it."""
    # The streams first: a batch whose versions moved is refused before the rest is written for nothing.
    row_numbers = _write_streams(connection, changes.streams, places)
    if changes.keys:
        _use_keys(connection, changes.keys, now)
    if changes.sends_applied:
        _apply_sends(connection, changes.sends_applied)
    if changes.sends_dead:
        _bury_sends(connection, changes.sends_dead)
    if changes.settlements:
        _settle(connection, changes.settlements)
    if changes.segments:
        append = _append_segments if len(changes.segments) < ALIKE_MIN else _append_runs
        append(connection, changes.segments, row_numbers)
        last = connection.last_number()
        if last // BLOCK_SEGMENTS > (last - len(changes.segments)) // BLOCK_SEGMENTS:
            _end_blocks(connection, last)
    if changes.effects:
        effects = sorted(changes.effects, key=lambda effect: effect.id.id)
        connection.change_rows("insert_effects", [effect_columns(effect) for effect in effects])
    _move_head(connection, changes)
    for fingerprint, body in changes.policies.items():
        connection.change("save_policy", {"fingerprint": fingerprint, "body": body})


def _write_streams(
    connection: Connection, writes: Sequence[StreamWrite], places: Mapping[StreamId, RowPlace]
) -> dict[StreamId, int]:
    """Write the rows of streams; return their numbers."""
    # A stream that was deleted keeps its row and its version, so only one that never was expects 0. New rows are
    # written in the order of their names: those of one instant then follow each other in most indexes.
    created = sorted([write for write in writes if write.expected == 0], key=attrgetter("stream"))
    moved = [write for write in writes if write.expected != 0]
    unplaced = [write.stream for write in moved if write.stream not in places]
    if unplaced:
        places = {**places, **find_places(connection, unplaced)}
    written = connection.change_rows("insert_streams", [_new_row(write) for write in created]) if created else 0
    # SQLite numbers new rows one after the other; if one was there already, the batch is refused below.
    first = connection.last_number() - len(created) + 1
    written += _update_streams(connection, [(write, places[write.stream]) for write in moved if write.stream in places])
    if written != len(writes):
        raise _conflict(connection, created, moved, places)
    row_numbers = {write.stream: n for n, write in enumerate(created, first)}
    row_numbers.update((write.stream, places[write.stream].n) for write in moved)
    return row_numbers


def _new_row(write: StreamWrite) -> tuple[object, ...]:
    return (
        *write.stream,
        write.version,
        write.schema,
        write.owner,
        write.status,
        # A row's `created_at` and `at`: its first segment is its last.
        write.at,
        write.at,
        write.alarm_at,
        write.due_at,
        write.listed_at,
        write.digest,
        write.state,
    )


def _update_streams(connection: Connection, writes: Sequence[tuple[StreamWrite, RowPlace]]) -> int:
    moved: list[tuple[StreamWrite, RowPlace]] = []
    alike: dict[tuple[str, int, Instant], list[tuple[Any, ...]]] = {}
    for both in writes:
        write, at = both
        # Those statements set the next version; a stream with several turns in this batch moves further.
        changed = _changed_index(write, at) if write.version == write.expected + 1 else None
        if changed:
            statement, value = changed
            row = (at.n, write.expected, write.digest, write.state, value)
            alike.setdefault((statement, write.schema, write.at), []).append(row)
        else:
            moved.append(both)
    updated = 0
    for (statement, *shared), rows in alike.items():
        # In the order of row numbers, so that each page of the table is written once.
        updated += connection.change_alike(statement, shared, sorted(rows))
    return updated + _update_other_streams(connection, moved) if moved else updated


def _update_other_streams(connection: Connection, moved: Sequence[tuple[StreamWrite, RowPlace]]) -> int:
    """Update streams of which no index changes, or several do."""
    updated = connection.change_rows(
        "update_streams", [(at.n, w.expected, w.version, w.schema, w.at, w.digest, w.state) for w, at in moved]
    )
    # Any commit ends a snooze, also one that leaves the alarm where it was.
    alarms = [(at.n, w.alarm_at) for w, at in moved if w.alarm_at != at.alarm_at or at.snooze_until is not None]
    lists = [
        (at.n, w.owner, w.due_at, w.listed_at)
        for w, at in moved
        if (w.owner, w.due_at, w.listed_at) != (at.owner, at.due_at, at.listed_at)
    ]
    statuses = [(at.n, w.status) for w, at in moved if w.status != at.status]
    for name, rows in (("move_alarms", alarms), ("relist_streams", lists), ("restatus_streams", statuses)):
        if rows:
            connection.change_rows(name, rows)
    return updated


def _changed_index(write: StreamWrite, at: RowPlace) -> tuple[str, Any] | None:
    """Return the statement and the value for a stream of which one index alone changes, as for a tick or in a sweep."""
    if write.owner != at.owner or write.listed_at != at.listed_at:
        return None
    changed: list[tuple[str, Any]] = []
    if write.alarm_at != at.alarm_at or at.snooze_until is not None:
        changed.append(("ring_streams", write.alarm_at))
    if write.due_at != at.due_at:
        changed.append(("reschedule_streams", write.due_at))
    if write.status != at.status:
        changed.append(("settle_streams", write.status))
    return changed[0] if len(changed) == 1 else None


def _conflict(
    connection: Connection,
    created: Sequence[StreamWrite],
    moved: Sequence[StreamWrite],
    places: Mapping[StreamId, RowPlace],
) -> Conflict:
    for write in moved:
        version = places[write.stream].version if write.stream in places else 0
        if version != write.expected:
            return Conflict(f"{write.stream} is at version {version}, not {write.expected}")
    # The write lock is still held, so what is found here is what stood in the way.
    stored = find_places(connection, [write.stream for write in created])
    taken = [
        f"{w.stream} is at version {stored[w.stream].version}, not 0"
        for w in created
        if w.stream in stored and stored[w.stream].version != w.version
    ]
    return Conflict(taken[0] if taken else "a stream that the batch writes moved meanwhile")


def _append_runs(connection: Connection, segments: Sequence[Segment], row_numbers: Mapping[StreamId, int]) -> None:
    """In the order they are given, runs of alike ones with what they share bound once."""
    others: list[Segment] = []
    for shared, alike in _alike_runs(segments):
        if shared is None or len(alike) < ALIKE_MIN:
            others += alike
            continue
        _append_segments(connection, others, row_numbers)
        others = []
        rows = [(row_numbers[s.stream], s.stream.id, s.version, s.turn, s.events, s.prev, s.digest) for s in alike]
        connection.change_alike("append_alike_segments", shared, rows)
    _append_segments(connection, others, row_numbers)


def _append_segments(connection: Connection, segments: Sequence[Segment], row_numbers: Mapping[StreamId, int]) -> None:
    rows = [segment_columns(segment, row_numbers[segment.stream]) for segment in segments]
    connection.change_rows("append_segments", rows)


def _end_blocks(connection: Connection, last: int) -> None:
    """End the blocks of the ledger that the segments up to the last one have filled."""
    # A trigger would do, but for its sake SQLite would keep a copy of every page that an insert touches.
    end = {"last": last // BLOCK_SEGMENTS * BLOCK_SEGMENTS}
    connection.change("end_blocks", end)
    connection.change("open_block", end)


def _alike_runs(segments: Sequence[Segment]) -> Iterator[tuple[tuple[Any, ...] | None, list[Segment]]]:
    """Yield runs of neighbours with what they share, `None` if that was not looked for.

    Only neighbours are grouped: the order of segments is their order in the ledger.
    """
    for may_be_alike, run in groupby(segments, _is_of_pass):
        found = list(run)
        # What is too short for a statement of its own need not be compared: one in two segments of triggers is.
        if not may_be_alike or len(found) < ALIKE_MIN:
            yield None, found
        else:
            yield from ((shared, list(alike)) for shared, alike in groupby(found, _shared_columns))


def _move_head(connection: Connection, changes: Changes) -> None:
    """Record what this commit adds; what it only settles leaves the head as it is."""
    # A send that was applied has no row any more; a dead letter and a settled call still have theirs.
    effects = len(changes.effects) - len(changes.sends_applied)
    if changes.segments or effects:
        segments, digest, _ = head_change(changes.segments)
        connection.change("move_head", {"segments": segments, "digest": digest, "effects": effects})


def _is_of_pass(segment: Segment) -> bool:
    """Return whether a segment may be one of a pass, which have neither keys nor verdicts."""
    return segment.key is None and segment.verdict is None


def _shared_columns(segment: Segment) -> tuple[Any, ...]:
    """Return what the segments of a pass have in common."""
    tenant, kind, _ = segment.stream
    return (
        tenant,
        kind,
        segment.at,
        segment.schema,
        segment.command,
        segment.policy,
        segment.reply,
        segment.actor,
        segment.correlation,
        segment.cause,
    )


def _use_keys(connection: Connection, keys: Sequence[KeyWrite], now: Instant) -> None:
    rows = [(*write.key, write.request, *write.stream, write.version, write.expires_at) for write in keys]
    used = connection.change_rows("use_keys", rows)
    if used < len(rows):
        # A key that has expired still has its row, which an insert leaves alone.
        used += connection.change_rows("use_keys_again", rows, now)
    if used < len(rows):
        names = ", ".join(str(write.key) for write in keys[:3])
        raise Duplicate(f"a key is on record already: one of {names}" + (" …" if len(keys) > 3 else ""))


def _apply_sends(connection: Connection, sends: Sequence[EffectId]) -> None:
    if connection.change_rows("delete_sends", sends) != len(sends):
        raise Fenced(f"a command was applied by another process: one of {_handles(sends)}")


def _bury_sends(connection: Connection, sends: Sequence[DeadSend]) -> None:
    rows = [(*dead.id, dead.at, dead.error) for dead in sends]
    if connection.change_rows("bury_sends", rows) != len(rows):
        raise Fenced(f"a command was applied by another process: one of {_handles([dead.id for dead in sends])}")


def _settle(connection: Connection, settlements: Sequence[Settlement]) -> None:
    rows = [settlement_columns(settled) for settled in settlements]
    if connection.change_rows("settle_effects", rows) != len(rows):
        raise Fenced(f"the lease on an effect was lost: one of {_handles([settled.id for settled in settlements])}")


def _handles(effects: Sequence[EffectId]) -> str:
    return ", ".join(effect.handle for effect in effects[:3]) + (" …" if len(effects) > 3 else "")


def segment_columns(segment: Segment, stream_n: int, seq: int | None = None) -> tuple[Any, ...]:
    """Return the columns of a segment of the stream in a row; without a number the ledger gives it the next."""
    key = segment.key
    return (
        stream_n,
        seq,
        *segment.stream,
        segment.version,
        segment.turn,
        segment.at,
        segment.schema,
        segment.command,
        segment.events,
        segment.policy,
        segment.prev,
        segment.digest,
        key and key.collection,
        key and key.key,
        segment.verdict,
        segment.reply,
        segment.actor,
        segment.correlation,
        segment.cause,
    )


def effect_columns(effect: EffectWrite) -> tuple[Any, ...]:
    status, attempts = ("leased", 1) if effect.is_leased else ("pending", 0)
    return (
        *effect.id,
        effect.executor,
        status,
        # Its attempts, and its fence.
        attempts,
        attempts,
        effect.payload,
        effect.created_at,
        effect.next_attempt_at,
        int(effect.at_most_once),
        effect.attempts_max,
        effect.lease_s,
        *(effect.to or (None, None, None)),
    )


def settlement_columns(settled: Settlement) -> tuple[Any, ...]:
    finished_at = None if settled.status == "pending" else settled.at
    return (
        *settled.id,
        settled.fence,
        settled.status,
        settled.next_attempt_at,
        finished_at,
        settled.error,
        settled.at,
        settled.duration_ms,
    )
