"""Replay: what the ledger says happened, folded again and compared byte for byte with what the store holds.

`verify` first asks the store about itself as a whole (`audit`): the head its commits recorded against what is there,
and rows that lead nowhere. Then it reads each stream's row and history from one snapshot per page, checks the chain of
digests, folds every event from empty (or from the checkpoint that stands for pruned history) and compares every column
that the history gives with the row. It changes nothing and ends with a report, whatever is damaged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from betimes.core.canonical import encode
from betimes.core.errors import MalformedRow, NewerVersion, NotFound, StoreError, UnknownKind
from betimes.core.instants import Instant, render, seconds
from betimes.core.segments import CHECKPOINT_TURN, GENESIS, Head, Segment, segment_digest
from betimes.core.streams import StreamId
from betimes.engine.audit import Audits, head_problems
from betimes.engine.codecs import Kind, Kinds, checkpoint_of, raw_state, repair_of
from betimes.engine.store import PAGE_MAX, Store, StreamQuery, StreamRow
from betimes.engine.turn import fold_events


class LedgerFinding(msgspec.Struct, frozen=True):
    """Something that is not as the ledger says: where, and what. Not every row belongs to a stream."""

    stream: StreamId | None
    version: int
    what: str
    row: str = ""
    """The part of the store that is meant if it is not a stream."""

    def __str__(self) -> str:
        where = f"{self.stream} at version {self.version}" if self.stream else self.row
        return f"{where}: {self.what}"


class VerifyReport(msgspec.Struct):
    """The outcome of verifying: how much was looked at, and what was found."""

    streams: int = 0
    segments: int = 0
    findings: list[LedgerFinding] = []
    head: Head | None = None
    """What the streams come to; write it down elsewhere to find out later whether a copy is as long."""
    notes: list[str] = []
    """Checks that were not possible."""

    @property
    def is_sound(self) -> bool:
        return not self.findings


def fold_segment(kind: Kind, state: Any, segment: Segment) -> Any:
    """Return the state after a segment; a checkpoint and a repair say it themselves."""
    if restart := repair_of(segment) or checkpoint_of(segment):
        return kind.state(segment.stream, segment.schema, raw_state(restart.state))
    return fold_events(kind.decider, state, kind.events(segment))


class Replayed:
    """A stream folded segment by segment; `findings` grows where the ledger contradicts itself."""

    def __init__(self, stream: StreamId, kind: Kind) -> None:
        self.stream = stream
        self.kind = kind
        self.version = 0
        self.state: Any = None
        self.at: Instant = 0
        self.seq = 0
        self.schema: int | None = None
        self.created_at: Instant | None = None
        self.policy = ""
        self.digest = GENESIS
        self.segments = 0
        self.findings: list[LedgerFinding] = []
        self.unread: set[int] = set()
        """Versions that cannot be trusted, and that no repair stands for: from the first on the state is not known."""
        self.is_newer = False
        """Whether a newer version wrote some of it."""
        self.error: Exception | None = None
        """The first error that `follow` met."""
        self.mended: set[int] = set()
        """Versions that repairs stand for."""

    def apply(self, segment: Segment) -> None:
        """Fold the next segment; raise what it raises."""
        self._check(segment)
        self._fold(segment)
        self._move(segment)

    def follow(self, segment: Segment) -> None:
        """Fold the next segment; what it raises is kept in `error` until a repair stands for it."""
        try:
            self._check(segment)
            self._fold(segment)
        except Exception as error:  # noqa: BLE001 — whoever needs the state is told
            self.unread.add(segment.version)
            self.error = self.error or error
        self._move(segment)

    def examine(self, segment: Segment) -> None:
        """Fold the next segment, if it can be; what is wrong with it is a finding."""
        before = len(self.findings)
        self._check(segment)
        try:
            self._fold(segment)
        except Exception as error:  # noqa: BLE001 — whatever a row or a fold does is a finding about this stream
            self.is_newer = self.is_newer or isinstance(error, NewerVersion)
            self.add_finding(segment.version, f"it cannot be read: {error}")
        if len(self.findings) > before:
            self.unread.add(segment.version)
        self._move(segment)

    def _fold(self, segment: Segment) -> None:
        """Take the state a segment leads to; while it is not known, only a repair or a checkpoint says it."""
        repair = repair_of(segment)
        if repair or not self.unread or checkpoint_of(segment):
            self.state = fold_segment(self.kind, self.state, segment)
        if repair:
            # A repair stands for these versions: what is wrong with them is known and told as a note, not found again.
            self.findings = [found for found in self.findings if found.version not in repair.lost]
            self.unread -= set(repair.lost)
            self.mended |= set(repair.lost)

    def _move(self, segment: Segment) -> None:
        is_checkpoint = segment.turn == CHECKPOINT_TURN
        # A checkpoint takes the place of history: the next segment is chained to what it replaced, not to itself.
        self.digest = segment.prev if is_checkpoint else segment.digest
        if not is_checkpoint:
            self.schema = segment.schema
            self.created_at = segment.at if segment.version == 1 else self.created_at
        self.version, self.at, self.seq, self.policy = segment.version, segment.at, segment.seq, segment.policy
        self.segments += 1

    def _check(self, segment: Segment) -> None:
        # A store may find segments by something else than the name of their stream, whose row could have been renamed.
        if segment.stream != self.stream:
            self.add_finding(segment.version, f"it is of {segment.stream}, not of this stream")
        starts = self.segments == 0 and checkpoint_of(segment) is not None
        if not starts and segment.version != self.version + 1:
            self.add_finding(segment.version, f"it follows version {self.version}; segments are missing")
        if not starts and segment.prev != self.digest:
            self.add_finding(segment.version, "its link to the segment before it is broken")
        # Positions follow versions within a stream; a segment that was moved to another place in the ledger shows here
        # alone.
        if segment.seq and segment.seq <= self.seq:
            self.add_finding(segment.version, "it is stored before the version it follows")
        if segment_digest(segment) != segment.digest:
            self.add_finding(segment.version, "its digest does not match its content; a column was changed")

    def compare(self, row: StreamRow) -> None:
        """Hold the stream's row against what its history gives."""
        decider, state = self.kind.decider, self.state
        if self.unread:
            return  # what its history gives is not known
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
            # Where only a checkpoint is left neither is in the history, and the row is believed.
            "schema": row.schema if self.schema is None else self.schema,
            "created_at": row.created_at if self.created_at is None else self.created_at,
        }
        for column, value in expected.items():
            if getattr(row, column) != value:
                self.add_finding(row.version, f"the row's {column} differs from what its history gives")

    def add_finding(self, version: int, what: str) -> None:
        self.findings.append(LedgerFinding(self.stream, version, what))


async def replay(
    store: Store, kinds: Kinds, stream: StreamId, *, version: int | None = None, until_at: Instant | None = None
) -> Replayed:
    """The stream as it was at a version, or before an instant, or is now."""
    replayed = Replayed(stream, kinds.of(stream))
    async for segment, _ in _history(store, stream):
        if (version is not None and segment.version > version) or (until_at is not None and segment.at >= until_at):
            break
        replayed.follow(segment)
    # A segment that cannot be read matters only if no repair further on stands for it.
    if replayed.unread and replayed.error:
        raise replayed.error
    if replayed.segments == 0:
        raise NotFound(f"there is no history of {stream} that early; it was never written, or it was pruned")
    return replayed


async def verify_stream(store: Store, kinds: Kinds, stream: StreamId) -> Replayed:
    """Fold one stream from its ledger and hold its row against it."""
    replayed = Replayed(stream, kinds.of(stream))
    row: StreamRow | None = None
    try:
        async for segment, row in _history(store, stream):  # noqa: B007 — the last row belongs to the last segment
            replayed.examine(segment)
        if row:
            replayed.compare(row)
        else:
            replayed.add_finding(0, "it has a row but no history")
    # A store that is not there says nothing about what it holds.
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 — whatever a row or a fold does is a finding about this stream
        replayed.add_finding(replayed.version + 1, f"it cannot be read: {error}")
    return replayed


async def verify(
    store: Store,
    kinds: Kinds,
    *,
    tenant: str | None = None,
    kind: str | None = None,
    progress: Callable[[VerifyReport], None] = lambda report: None,
    key_retention_s: int | None = None,
    expected: Head | None = None,
) -> VerifyReport:
    """Verify every stream, those that were deleted too; without `tenant` and `kind` also the store as a whole.

    `expected` is a head that was noted elsewhere: the store must not be shorter.
    """
    report = VerifyReport()
    if tenant is None and kind is None:
        await _verify_whole(store, report, key_retention_s, expected)
    try:
        async for stream in all_streams(store, tenant=tenant, kind=kind):
            report.streams += 1
            try:
                replayed = await verify_stream(store, kinds, stream)
                report.segments += replayed.segments
                report.findings += replayed.findings
                if replayed.mended:
                    told = f"{stream} was mended; versions {_list_versions(replayed.mended)} are not replayed"
                    report.notes.append(told)
            except (UnknownKind, MalformedRow) as error:
                report.findings.append(LedgerFinding(stream, 0, f"it cannot be read: {error}"))
            progress(report)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 — whatever damage leads to is told
        told = f"it stopped after {report.streams:,} streams: {error}"
        report.findings.append(LedgerFinding(None, 0, told, "the list of streams"))
    return report


def _list_versions(versions: set[int]) -> str:
    shown = ", ".join(str(version) for version in sorted(versions)[:10])
    return shown + (" …" if len(versions) > 10 else "")


async def _verify_whole(store: Store, report: VerifyReport, key_retention_s: int | None, expected: Head | None) -> None:
    if not isinstance(store, Audits):
        report.notes.append("this store records no head, so streams that are missing entirely were not looked for")
        return
    try:
        keys_since = None if key_retention_s is None else await store.now() - seconds(key_retention_s)
        audit = await store.audit(keys_since=keys_since)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 — whatever damage leads to is told
        report.findings.append(LedgerFinding(None, 0, f"it cannot be read as a whole: {error}", "the database"))
        return
    report.head = audit.found
    if not audit.found.segments and not audit.recorded.segments:
        report.notes.append("the database is empty; a copy made without its write-ahead log looks like this")
    report.findings += [LedgerFinding(None, 0, what, row) for row, what in audit.problems]
    report.findings += [LedgerFinding(None, 0, what, "the database") for what in head_problems(audit, expected)]
    if audit.unrecorded:
        until = f" of {render(audit.unrecorded_until)}" if audit.unrecorded_until is not None else ""
        report.notes.append(
            f"no head was recorded before segment {audit.unrecorded + 1:,}, the first after the one{until}; "
            "losses before that are not detected"
        )


async def all_streams(
    store: Store, *, tenant: str | None, kind: str | None, after: StreamId | None = None
) -> AsyncIterator[StreamId]:
    """Every stream that has a history, page by page, in the order of their names past `after`."""
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
        # The row is of the page's own snapshot: a stream that is written all the while still has an end in each.
        if not page or page[-1].version >= row.version:
            return
        after = page[-1].version
