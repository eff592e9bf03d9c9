"""Holds as they were: what must not fire, and what could not until lately, when a segment was decided."""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.engine.codecs import Kinds, checkpoint_of, repair_of
from betimes.engine.queries import LedgerQuery
from betimes.engine.replay import fold_segment
from betimes.engine.store import PAGE_MAX, Store
from betimes.engine.tenants.model import HOLD_MAX, TenantState, tenant_stream

PAGES_MAX = 20
"""Pages of a tenant's history that are read to find out what was held."""


async def read_past_holds(store: Store, kinds: Kinds, segment: Segment) -> TenantState | None:
    """Return the holds of a segment's tenant as they were before it; `None` if there were none.

    What ended longer ago than a hold may last is left out: all that waited for it has rung since.
    """
    stream = tenant_stream(segment.stream.tenant)
    kind, row = kinds.of(stream), (await store.load([stream])).get(stream)
    state = kind.state(stream, row.schema, row.state) if row else None
    # Most tenants never had a hold, and their history need not be read.
    if state is None or not (state.hold or state.released):
        return None
    past = TenantState()
    for one in reversed(await _read_hold_changes(store, stream, segment)):
        past = fold_segment(kind, past, one)
    return past


async def _read_hold_changes(store: Store, stream: StreamId, segment: Segment) -> list[Segment]:
    """Read the segments before another that say what is held, the newest first."""
    found: list[Segment] = []
    query = LedgerQuery(
        after=segment.seq, backwards=True, tenant=stream.tenant, kind=stream.kind, id=stream.id, limit=PAGE_MAX
    )
    for _ in range(PAGES_MAX):
        page = await store.ledger(query)
        for one in page:
            # A hold that still matters ended at most one longest hold ago, and was set at most another before that.
            if one.at < segment.at - 2 * HOLD_MAX:
                return found
            starts = checkpoint_of(one) or repair_of(one)
            # By the tag in the text: most segments of a tenant are about its keys and its policy, and need no decoding.
            if starts or '"Hold' in one.events:
                found.append(one)
            if starts:
                return found
        if len(page) < PAGE_MAX:
            break
        query = replace(query, after=page[-1].seq)
    return found
