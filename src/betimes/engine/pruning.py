"""Pruning: history older than an instant is replaced, stream by stream, by one checkpoint.

A checkpoint carries the state the pruned segments led to and, as its link, the digest of the last of them, so that the
chain goes on and `verify` starts there. A segment that a live idempotency key still answers from is never pruned.
A stream whose history does not verify is left as it is and reported: pruning would hide what happened to it.

A long history is replaced part by part, the oldest first, so that no transaction grows with it. Each part is a
checkpoint in its own right: whoever stops in between, or is stopped, has a sound history that begins there.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from betimes.core.canonical import encode
from betimes.core.deciders import Checkpoint
from betimes.core.errors import Invalid, StoreError
from betimes.core.instants import Instant, seconds
from betimes.core.segments import Segment, segment_digest
from betimes.core.streams import StreamId
from betimes.engine.codecs import Kinds
from betimes.engine.replay import LedgerFinding, Replayed, all_streams
from betimes.engine.store import PAGE_MAX, Store

SWEEP_MAX = 10_000
PART_MAX = 20_000
"""Segments of a stream that are folded and replaced at once."""


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The retention of things that ended. `None`: for ever."""

    history_days: float | None = None
    """Older segments are replaced by one checkpoint per stream."""
    effects_days: float = 7.0
    """Calls that ended longer ago are removed; dead letters are kept."""


class PruneReport(msgspec.Struct):
    """The outcome of pruning: what was removed, and what was left alone because it does not verify."""

    streams: int = 0
    segments: int = 0
    forgotten: int = 0
    examined: int = 0
    """Streams that were looked at."""
    read: int = 0
    """Segments that were folded."""
    findings: list[LedgerFinding] = []


class FoundCheckpoint(NamedTuple):
    """The checkpoint that would replace the oldest part of a stream's history."""

    segment: Segment
    has_more: bool
    """Whether more history is old enough to be pruned after it."""


async def prune(store: Store, kinds: Kinds, retention: Retention, *, tenant: str | None = None) -> PruneReport:
    """Apply the retention once over everything."""
    if retention.effects_days < 0 or (retention.history_days is not None and retention.history_days < 0):
        raise Invalid("retention cannot be negative; give days, or null to keep history for ever")
    now = await store.now()
    report = PruneReport()
    if retention.history_days is not None:
        before_at = now - seconds(retention.history_days * 86_400)
        async for stream in all_streams(store, tenant=tenant, kind=None):
            report.examined += 1
            report.streams += await _prune_stream(store, kinds, stream, before_at, report)
    before_at = now - seconds(retention.effects_days * 86_400)
    while gone := await store.forget(before_at=before_at, limit=SWEEP_MAX):
        report.forgotten += gone
    return report


async def _prune_stream(store: Store, kinds: Kinds, stream: StreamId, before_at: Instant, report: PruneReport) -> bool:
    """Replace a stream's history before an instant, part by part; return whether some of it went."""
    gone = 0
    # Part by part: what one checkpoint stands for is folded at a stretch, so it is bounded.
    while found := await find_checkpoint(store, kinds, stream, before_at, report):
        part = await store.replace_history(found.segment)
        gone += part
        # While a live key answers from it nothing goes, and the same part would be found for ever.
        if not part or not found.has_more:
            break
    report.segments += gone
    return gone > 0


async def find_checkpoint(
    store: Store, kinds: Kinds, stream: StreamId, before_at: Instant, report: PruneReport
) -> FoundCheckpoint | None:
    """Return what would stand for a stream's history before an instant, or for the oldest part of a long one.

    `None` if that saves nothing or is unsound; `report` has the findings then.
    """
    try:
        replayed = Replayed(stream, kinds.of(stream))
        last, has_more = await _fold_before(store, replayed, before_at)
    # Trouble with the store is no finding about this stream.
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 — whatever a row or a fold does is a finding about this stream
        report.findings.append(LedgerFinding(stream, 0, f"it cannot be read: {error!r}"))
        return None
    report.read += replayed.segments
    report.findings += replayed.findings
    # In place of a single segment a checkpoint would save nothing.
    is_worth_it = replayed.segments > 1 and not replayed.findings
    return FoundCheckpoint(checkpoint(replayed, last), has_more) if last and is_worth_it else None


async def _fold_before(store: Store, replayed: Replayed, before_at: Instant) -> tuple[Segment | None, bool]:
    """Fold what is older than the instant, up to a bound; return the last of it, and whether there is more."""
    last: Segment | None = None
    while True:
        _, page = await store.history(replayed.stream, replayed.version, PAGE_MAX)
        for segment in page:
            if segment.at >= before_at:
                return last, False
            if replayed.segments >= PART_MAX:
                return last, True
            replayed.examine(segment)
            last = segment
        if len(page) < PAGE_MAX:
            return last, False


def checkpoint(replayed: Replayed, last: Segment) -> Segment:
    """The segment that stands for everything up to `last`."""
    state = b"null" if replayed.state is None else encode(replayed.state).encode()
    command = encode(Checkpoint(msgspec.Raw(state), replayed.segments))
    # Its `prev` is the digest of the last segment it stands for, to which the one behind it is chained.
    bare = Segment(
        last.stream,
        last.version,
        "checkpoint",
        last.at,
        replayed.kind.decider.schema,
        command,
        "[]",
        last.policy,
        replayed.digest,
        "",
    )
    return msgspec.structs.replace(bare, digest=segment_digest(bare))
