"""Tables of states: what each stream had become at the end of a batch, folded by its own decider.

The state before a batch is read from the lake itself, so that an export never folds a long history again; a stream the
lake does not know yet is replayed from the store. Secrets are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from betimes.core.canonical import encode
from betimes.core.errors import StoreError
from betimes.core.instants import nearest
from betimes.core.lake_tables import Row
from betimes.core.secret_fields import without_secrets
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.engine.codecs import Kinds, checkpoint_of
from betimes.engine.replay import fold_segment, replay
from betimes.engine.store import Store

UNREADABLE = "unreadable"
"""The status of a stream whose state cannot be read."""
Known = dict[StreamId, str | None]


async def state_rows(store: Store, kinds: Kinds, kind: str, segments: Iterable[Segment], known: Known) -> list[Row]:
    """One row for each stream of the kind that the segments touch."""
    if kind not in kinds.names:
        return []
    by_stream: dict[StreamId, list[Segment]] = {}
    for segment in segments:
        if segment.stream.kind == kind:
            by_stream.setdefault(segment.stream, []).append(segment)
    return [await _row(store, kinds, stream, history, known) for stream, history in by_stream.items()]


async def _row(store: Store, kinds: Kinds, stream: StreamId, history: list[Segment], known: Known) -> Row:
    last = history[-1]
    row = {"tenant": stream.tenant, "id": stream.id, "version": last.version, "recorded_at": nearest(last.at)}
    try:
        state = await _after(store, kinds, stream, history, known)
        text = None if state is None else encode(without_secrets(msgspec.json.decode(encode(state))))
        status = kinds.of(stream).decider.index(state).status if state is not None else ""
    except StoreError:
        raise
    except Exception:  # noqa: BLE001 — whatever is wrong with one stream, the others are exported
        return {**row, "status": UNREADABLE, "is_deleted": False, "state": None}
    return {**row, "status": status, "is_deleted": state is None, "state": text}


async def _after(store: Store, kinds: Kinds, stream: StreamId, history: list[Segment], known: Known) -> Any:
    """Return the state of a stream after these segments."""
    state = await _before(store, kinds, stream, history[0], known)
    for segment in history:
        state = fold_segment(kinds.of(stream), state, segment)
    return state


async def _before(store: Store, kinds: Kinds, stream: StreamId, first: Segment, known: Known) -> Any:
    if first.version == 1 or checkpoint_of(first):
        return None
    if stream in known:
        return kinds.of(stream).state(stream, first.schema, known[stream])
    return (await replay(store, kinds, stream, version=first.version - 1)).state
