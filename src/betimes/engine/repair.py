"""Repair: rows that cannot be read or do not match their history, and the state their stream continues from.

**A repair is a segment.** Nothing in the ledger is changed or removed. The rows that are wrong stay where they are, and
one segment is appended, a `Repair`: the state to go on from, why, and the versions that cannot be read. Replay takes
the state from there on; `verify` no longer complains about those versions and says that the stream was mended. A
backtest can begin after it.

The state a repair goes on from, the best first:

1. what the history gives, if all of it can be read: the row was damaged;
2. the state in the row, if that can be read: the history was damaged, or the row has instants no calendar has, which
   are put to its first or last;
3. nothing: the stream is set aside, as if it had been deleted. Its history stays.

A tenant's own stream (its keys, its policy) is never set aside, and what a newer version wrote is left to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from betimes.core.canonical import encode
from betimes.core.deciders import Index, Repair
from betimes.core.errors import MalformedRow, NewerVersion, StoreError, UnknownKind
from betimes.core.instants import Instant, nearest
from betimes.core.segments import Segment, segment_digest
from betimes.core.streams import StreamId
from betimes.engine.codecs import Kind, Kinds
from betimes.engine.replay import Replayed, all_streams, verify_stream
from betimes.engine.store import NOT_CACHED, Changes, LockRequest, Row, Store, StreamWrite

REPAIR_TURN = "repair"
NEVER_SET_ASIDE = frozenset({"tenant"})
_NO_INDEX = Index()
_anything: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


class Ailment(msgspec.Struct, frozen=True):
    """A stream that needs a repair: what is wrong, and what would be done; `None` is nothing."""

    stream: StreamId
    what: str
    remedy: str | None


class _Remedy(msgspec.Struct, frozen=True):
    """The state a stream continues from."""

    told: str
    state: Any = None


async def examine(store: Store, kinds: Kinds) -> AsyncIterator[Ailment]:
    """Yield every stream that cannot be read or does not fit its history."""
    async for stream in all_streams(store, tenant=None, kind=None):
        if ailment := await examine_stream(store, kinds, stream):
            yield ailment


async def examine_stream(store: Store, kinds: Kinds, stream: StreamId) -> Ailment | None:
    """Return what is wrong with a stream, if anything is."""
    try:
        kind = kinds.of(stream)
        replayed = await verify_stream(store, kinds, stream)
        row = (await store.load([stream])).get(stream)
    except (UnknownKind, MalformedRow) as error:
        return Ailment(stream, str(error), None)
    if row is None:
        return None
    what = [found.what for found in replayed.findings] or _out_of_calendar(row)
    if not what:
        return None
    remedy = _remedy_for(kind, stream, row, replayed)
    return Ailment(stream, "; ".join(dict.fromkeys(what)), remedy.told if remedy else None)


async def repair_stream(store: Store, kinds: Kinds, stream: StreamId) -> Ailment | None:
    """Append the repair a stream needs, if it needs one that can be made; return what was wrong."""
    ailment = await examine_stream(store, kinds, stream)
    if ailment is None or ailment.remedy is None:
        return ailment
    kind = kinds.of(stream)
    async with store.begin(LockRequest({stream: NOT_CACHED}, waits={stream})) as tx:
        row = tx.rows[stream]
        # Once more, under the lock: somebody may have written to it, or repaired it, since it was examined.
        replayed = await verify_stream(store, kinds, stream)
        remedy = _remedy_for(kind, stream, row, replayed)
        if remedy is None:
            return msgspec.structs.replace(ailment, remedy=None)
        # What is damaged may be the instant itself, and no calendar may have it.
        segment = _segment(kind, replayed, remedy, ailment.what, max(nearest(replayed.at), tx.now))
        await tx.commit(Changes(streams=[_row(kind, row, segment, remedy.state)], segments=[segment]))
    return ailment


def _remedy_for(kind: Kind, stream: StreamId, row: Row, replayed: Replayed) -> _Remedy | None:
    """Return the state to continue from; `None` if a repair cannot find one."""
    if replayed.is_newer or row.schema > kind.decider.schema:
        return None
    if not replayed.unread:
        state = _within_calendar(kind, stream, replayed.state)
        return _Remedy("the row is rebuilt from its history", state)
    try:
        state = _within_calendar(kind, stream, kind.state(stream, row.schema, row.state))
        return _Remedy("it continues from the state in its row; unreadable history stays as it is", state)
    except Exception:  # noqa: BLE001 — whatever is wrong with it, it cannot be gone on from
        if stream.kind in NEVER_SET_ASIDE:
            return None
        return _Remedy("it is set aside like a deleted stream; its history stays")


def _within_calendar(kind: Kind, stream: StreamId, state: Any) -> Any:
    """Return the state with every instant that no calendar has put to its first or last."""
    if state is None:
        return None
    text = encode(state)
    clamped = encode(_clamp_instants(_anything.decode(text)))
    return state if clamped == text else kind.state(stream, kind.decider.schema, clamped)


def _clamp_instants(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _clamp_instants(part, key) for key, part in value.items()}
    if isinstance(value, list):
        return [_clamp_instants(part, name) for part in value]
    # Instants are known by their names, which end in `_at`.
    return nearest(value) if type(value) is int and name.endswith("_at") else value


def _out_of_calendar(row: Row) -> list[str]:
    """Say that a state holds instants no calendar has, if it does."""
    try:
        state = _anything.decode(row.state or "null")
    except msgspec.MsgspecError:
        return []
    return ["it contains instants outside the calendar"] if _clamp_instants(state) != state else []


def _segment(kind: Kind, replayed: Replayed, remedy: _Remedy, why: str, at: Instant) -> Segment:
    text = "null" if remedy.state is None else encode(remedy.state)
    command = Repair(msgspec.Raw(text.encode()), why[:1_000], tuple(sorted(replayed.unread)))
    bare = Segment(
        replayed.stream,
        replayed.version + 1,
        REPAIR_TURN,
        at,
        kind.decider.schema,
        encode(command),
        "[]",
        replayed.policy,
        replayed.digest,
        "",
        actor="doctor",
    )
    return msgspec.structs.replace(bare, digest=segment_digest(bare))


def _row(kind: Kind, row: Row, segment: Segment, state: Any) -> StreamWrite:
    index = _NO_INDEX if state is None else kind.decider.index(state)
    return StreamWrite(
        segment.stream,
        row.version,
        segment.version,
        segment.schema,
        None if state is None else encode(state),
        segment.at,
        None if state is None else kind.decider.alarm(state),
        segment.digest,
        index.status,
        index.owner,
        index.due_at,
        index.listed_at,
    )


async def mend(store: Store, kinds: Kinds) -> AsyncIterator[Ailment]:
    """Repair every stream that needs it; yield what was wrong with each."""
    # All of them first: a repair adds to the lists that are being gone through.
    found = [ailment.stream async for ailment in examine(store, kinds)]
    for stream in found:
        try:
            if ailment := await repair_stream(store, kinds, stream):
                yield ailment
        except (MalformedRow, NewerVersion) as error:
            yield Ailment(stream, str(error), None)
        except StoreError:
            raise
