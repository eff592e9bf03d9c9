"""Everything a connection can see of a database, as one value that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from betimes.core.segments import Segment
from betimes.core.streams import KeyId, StreamId
from betimes.engine.store import (
    PAGE_MAX,
    Backlog,
    EffectQuery,
    EffectRow,
    LedgerQuery,
    Row,
    SeenKey,
    Store,
    StreamQuery,
    StreamRow,
    WaitingSend,
)


class Visible(NamedTuple):
    """What is there, in the order the store gives it."""

    listed: list[StreamRow]
    rows: dict[StreamId, Row]
    histories: dict[StreamId, tuple[StreamRow | None, list[Segment]]]
    ledger: list[Segment]
    effects: list[EffectRow]
    sends: list[WaitingSend]
    keys: dict[KeyId, SeenKey | None]
    backlog: Backlog


async def everything(store: Store, streams: Sequence[StreamId], keys: Iterable[KeyId] = ()) -> Visible:
    """What the store shows of these streams and keys, and all that is listed."""
    return Visible(
        listed=await store.streams(StreamQuery(limit=PAGE_MAX)),
        rows=await store.load(streams),
        histories={stream: await store.history(stream, 0, PAGE_MAX) for stream in streams},
        ledger=await store.ledger(LedgerQuery(limit=PAGE_MAX)),
        effects=await store.effects(EffectQuery(limit=PAGE_MAX)),
        sends=await store.waiting_sends(PAGE_MAX, created_before=await store.now() + 1),
        keys={key: await store.seen(key) for key in keys},
        backlog=await store.backlog(sorted({stream.kind for stream in streams})),
    )
