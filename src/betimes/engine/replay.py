"""Replay: what the ledger says happened, folded again and compared byte for byte with what the store holds.

`verify` reads each stream's row and history from one snapshot per page, checks the chain of digests, folds every event
from empty (or from the checkpoint that stands for pruned history) and compares state, alarm and index with the row. It
changes nothing. Each finding names the stream, the version and the column.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from betimes.core.canonical import encode
from betimes.core.errors import NotFound, StoreError, UnknownKind
from betimes.core.instants import Instant
from betimes.core.segments import GENESIS, Segment, segment_digest
from betimes.core.streams import StreamId
from betimes.engine.kinds import Kind, Kinds, checkpoint_of
from betimes.engine.store import PAGE_MAX, Store, StreamQuery, StreamRow


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as the ledger says: where, and what."""

    stream: StreamId
    version: int
    what: str

    def __str__(self) -> str:
        return f"{self.stream} at version {self.version}: {self.what}"


class VerifyReport(msgspec.Struct):
    """How much was looked at, and what was found."""

    streams: int = 0
    segments: int = 0
    findings: list[Finding] = []

    @property
    def is_sound(self) -> bool:
        return not self.findings


class Replayed:
    """A stream folded segment by segment; `findings` grows where the ledger contradicts itself."""

    def __init__(self, stream: StreamId, kind: Kind) -> None:
        self.stream = stream
        self.kind = kind
        self.version = 0
        self.state: Any = None
        self.at: Instant = 0
        self.digest = GENESIS
        self.segments = 0
        self.findings: list[Finding] = []

    def apply(self, segment: Segment) -> None:
        self._check(segment)
        checkpoint = checkpoint_of(segment)
        if checkpoint:
            self.state = self.kind.state(self.stream, segment.schema, _raw_state(checkpoint.state))
            self.digest = segment.prev
        else:
            for event in self.kind.events(segment):
                self.state = self.kind.decider.fold(self.state, event)
            self.digest = segment.digest
        self.version, self.at = segment.version, segment.at
        self.segments += 1

    def _check(self, segment: Segment) -> None:
        starts = self.segments == 0 and checkpoint_of(segment) is not None
        if not starts and segment.version != self.version + 1:
            self.found(segment.version, f"it follows version {self.version}; segments are missing")
        if not starts and segment.prev != self.digest:
            self.found(segment.version, "its link to the segment before it is broken")
        if segment_digest(segment) != segment.digest:
            self.found(segment.version, "its digest does not fit its content; a column was changed")

    def compare(self, row: StreamRow) -> None:
        """Hold the stream's row against what its history gives."""
        decider, state = self.kind.decider, self.state
        index = decider.index(state) if state is not None else None
        expected = {
            "version": self.version,
            "state": None if state is None else encode(state),
            "alarm_at": None if state is None else decider.alarm(state),
            "at": self.at,
            "digest": self.digest,
            "status": index.status if index else "",
            "owner": index.owner if index else "",
            "due_at": index.due_at if index else None,
            "listed_at": index.listed_at if index else None,
        }
        for column, value in expected.items():
            if getattr(row, column) != value:
                self.found(row.version, f"the row's {column} is not what its history gives")

    def found(self, version: int, what: str) -> None:
        self.findings.append(Finding(self.stream, version, what))


async def replay(
    store: Store, kinds: Kinds, stream: StreamId, *, version: int | None = None, until_at: Instant | None = None
) -> Replayed:
    """The stream as it was at a version, or before an instant, or is now."""
    replayed = Replayed(stream, kinds.of(stream))
    async for segment, _ in _history(store, stream):
        if (version is not None and segment.version > version) or (until_at is not None and segment.at >= until_at):
            break
        replayed.apply(segment)
    if replayed.segments == 0:
        raise NotFound(f"there is no history of {stream} so early; it never was, or it was pruned")
    return replayed


async def verify_stream(store: Store, kinds: Kinds, stream: StreamId) -> Replayed:
    """Fold one stream from its ledger and hold its row against it."""
    replayed = Replayed(stream, kinds.of(stream))
    row: StreamRow | None = None
    try:
        async for segment, row in _history(store, stream):  # noqa: B007 — the last row belongs to the last segment
            replayed.apply(segment)
        if row:
            replayed.compare(row)
        else:
            replayed.found(0, "it has a row but no history")
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 — whatever a row or a fold does is a finding about this stream
        replayed.found(replayed.version + 1, f"it cannot be read: {error}")
    return replayed


async def verify(
    store: Store,
    kinds: Kinds,
    *,
    tenant: str | None = None,
    kind: str | None = None,
    progress: Callable[[VerifyReport], None] = lambda report: None,
) -> VerifyReport:
    """Verify every stream, those that were deleted too."""
    report = VerifyReport()
    async for stream in all_streams(store, tenant=tenant, kind=kind):
        report.streams += 1
        try:
            replayed = await verify_stream(store, kinds, stream)
            report.segments += replayed.segments
            report.findings += replayed.findings
        except UnknownKind as error:
            report.findings.append(Finding(stream, 0, f"it cannot be read: {error}"))
        progress(report)
    return report


async def all_streams(store: Store, *, tenant: str | None, kind: str | None) -> AsyncIterator[StreamId]:
    """Every stream that has a history, page by page."""
    after: StreamId | None = None
    while True:
        query = StreamQuery(tenant=tenant, kind=kind, after=after, limit=PAGE_MAX, tombstones=True)
        page = await store.streams(query)
        for row in page:
            yield row.stream
        if len(page) < PAGE_MAX:
            return
        after = page[-1].stream


async def _history(store: Store, stream: StreamId) -> AsyncIterator[tuple[Segment, StreamRow]]:
    """Segments in order, each with the row as it was in the snapshot the segment was read in."""
    after = 0
    while True:
        row, page = await store.history(stream, after, PAGE_MAX)
        if row is None:
            return
        for segment in page:
            yield segment, row
        if not page or page[-1].version >= row.version:
            return
        after = page[-1].version


def _raw_state(raw: msgspec.Raw) -> str | None:
    text = bytes(raw).decode()
    return None if text == "null" else text
