"""The ledger in commit order, checked on the way, and which of its commands came from outside.

A backtest rests on the ledger, so every segment's digest and its link to the one before are checked while it is read;
one that does not fit ends the backtest. A history that was pruned into the window cannot be rehearsed: the refusal says
from which instant on it can.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, TypeAlias

import msgspec

from betimes.backtest.model import KIND as BACKTESTS
from betimes.core.errors import BetimesError, Refused
from betimes.core.instants import Instant, render
from betimes.core.segments import GENESIS, Segment, segment_digest
from betimes.core.streams import EffectId, StreamId, parse_effect_handle
from betimes.engine.codecs import checkpoint_of, repair_of
from betimes.engine.store import PAGE_MAX, LedgerQuery, Store
from betimes.engine.tenants.model import DEPLOYMENT

Role: TypeAlias = Literal["outside", "wake", "settled", "caused", "beside"]
PROBES = 5
PROBE_SEGMENTS = 200
"""Looks at the ledger, and segments in each, that an estimate is made from."""
_WAKE = '{"type":"Wake"'
_SETTLED = '{"type":"Settled"'
_RECONSIDER = '{"type":"Reconsider"'


async def pages(store: Store, tenant: str | None, until_at: Instant | None = None) -> AsyncIterator[list[Segment]]:
    """Yield all segments, or a tenant's and the deployment's, in commit order, without those of backtests."""
    if tenant is None:
        async for page in _pages(store, None, until_at):
            yield [segment for segment in page if segment.stream.kind != BACKTESTS]
        return
    # The deployment's own segments are few (its policy, its keys); they are merged in by position, as they came.
    ours = [segment async for page in _pages(store, DEPLOYMENT.tenant, until_at) for segment in page]
    # What the deployment wrote after the tenant's last segment matters to nothing that is rehearsed.
    async for page in _pages(store, tenant, until_at):
        last = page[-1].seq
        together = [segment for segment in ours if segment.seq <= last]
        ours = ours[len(together) :]
        merged = sorted([*page, *together], key=lambda segment: segment.seq)
        yield [segment for segment in merged if segment.stream.kind != BACKTESTS]


async def _pages(store: Store, tenant: str | None, until_at: Instant | None) -> AsyncIterator[list[Segment]]:
    after = 0
    while page := await store.ledger(LedgerQuery(after=after, tenant=tenant, until_at=until_at, limit=PAGE_MAX)):
        yield page
        after = page[-1].seq


async def last_seq(store: Store) -> int:
    """Return the last position of the ledger."""
    page = await store.ledger(LedgerQuery(backwards=True, limit=1))
    return page[0].seq if page else 0


class Reach(msgspec.Struct, frozen=True):
    """The end and the window of a backtest, the same for every part of it."""

    last_seq: int
    """Segments written while it runs are not read."""
    starts_at: Instant | None = None
    ends_at: Instant | None = None
    """The window as far as there is a ledger of it; `None` if there is none."""


async def reach_of(
    store: Store, tenant: str | None, since_at: Instant | None = None, until_at: Instant | None = None
) -> Reach:
    """Return the window cut to the traffic: nothing is known of alarms before it began and after it ended."""
    end = await last_seq(store)
    first, last = await _outermost(store, tenant, end), await _outermost(store, tenant, end, backwards=True)
    if first is None or last is None:
        return Reach(end)
    starts_at = first.at if since_at is None else max(since_at, first.at)
    ends_at = last.at if until_at is None else min(until_at, last.at)
    return Reach(end, starts_at, ends_at) if starts_at <= ends_at else Reach(end)


async def estimate_traffic(
    store: Store, tenant: str, since_at: Instant | None, until_at: Instant | None
) -> tuple[int, int]:
    """Return about how many segments a tenant has in a window, and how many of their commands came from outside."""
    within = LedgerQuery(tenant=tenant, since_at=since_at, until_at=until_at, limit=1)
    first, last = await store.ledger(within), await store.ledger(msgspec.structs.replace(within, backwards=True))
    if not first or not last:
        return 0, 0
    start, span = first[0].seq - 1, last[0].seq - first[0].seq + 1
    seen = ours = outside = 0
    for number in range(PROBES):
        page = await store.ledger(LedgerQuery(after=start + span * number // PROBES, limit=PROBE_SEGMENTS))
        page = [segment for segment in page if segment.seq <= start + span]
        own = [segment for segment in page if segment.stream.tenant == tenant and segment.stream.kind != BACKTESTS]
        seen, ours = seen + len(page), ours + len(own)
        outside += sum(role_of(segment) == "outside" for segment in own)
    return round(span * ours / max(seen, 1)), round(span * outside / max(seen, 1))


async def _outermost(store: Store, tenant: str | None, end: int, *, backwards: bool = False) -> Segment | None:
    """Return the first segment of the traffic, or the last."""
    after = end + 1 if backwards else 0
    while page := await store.ledger(LedgerQuery(after=after, backwards=backwards, tenant=tenant)):
        for segment in page:
            if segment.stream.kind != BACKTESTS:
                return segment
        after = page[-1].seq
    return None


def role_of(segment: Segment) -> Role:
    """Return what brought a segment about."""
    command = segment.command
    if command is None:
        return "beside"
    if command.startswith(_WAKE):
        return "wake"
    if command.startswith(_SETTLED):
        return "settled"
    if command.startswith(_RECONSIDER):  # asked of one stream after another by a worker, at its own pace
        return "outside"
    return "caused" if segment.effect_cause else "outside"


def cause_of(segment: Segment) -> EffectId | None:
    """Return the effect that sent a segment's command."""
    if not segment.effect_cause:
        return None
    try:
        return parse_effect_handle(segment.stream.tenant, segment.cause)
    except BetimesError:
        return None


class Chain:
    """The last version and digest of every stream that was read."""

    def __init__(self, since_at: Instant | None) -> None:
        self._since_at = since_at
        self._last: dict[StreamId, tuple[int, str]] = {}
        self.possible_from: Instant | None = None
        """After the newest history that was pruned into the window, if any was."""

    def check(self, segment: Segment) -> None:
        """Refuse a segment that was changed or does not follow."""
        version, digest = self._last.get(segment.stream, (0, GENESIS))
        checkpoint = checkpoint_of(segment)
        if repair_of(segment):
            self.note_pruned(segment)
        if checkpoint and version == 0:
            self.note_pruned(segment)
        # A rehearsal of a ledger with a hole would blame the candidate for what the hole did.
        elif segment.version != version + 1 or segment.prev != digest:
            raise unsound(segment, f"it does not follow version {version}; segments are missing or were changed")
        if segment_digest(segment) != segment.digest:
            raise unsound(segment, "its digest does not match its content; a column was changed")
        # The next segment is chained to what a checkpoint replaced, not to the checkpoint.
        self._last[segment.stream] = (segment.version, segment.prev if checkpoint else segment.digest)

    def note_pruned(self, segment: Segment) -> None:
        """Remember from when on a backtest is possible, if this segment stands for history inside the window."""
        if (checkpoint_of(segment) or repair_of(segment)) and (self._since_at is None or segment.at >= self._since_at):
            self.possible_from = max(self.possible_from or 0, segment.at + 1)


def unsound(segment: Segment, why: str) -> Refused:
    return Refused(
        "LEDGER_UNSOUND",
        f"{segment.handle} of {segment.stream.tenant!r} cannot be rehearsed: {why}. Run `betimes verify`",
    )


def pruned_refusal(possible_from: Instant) -> Refused:
    return Refused(
        "HISTORY_PRUNED",
        f"history inside the window was pruned; a backtest is possible from {render(possible_from)} on: say "
        f"--since {render(possible_from)}",
    )
