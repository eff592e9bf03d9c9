"""Questions to a store's lists: which streams, segments or effects, in which order, from where on; some answers.

They are part of the store contract and imported from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Required, TypeAlias, TypedDict

import msgspec

from betimes.core.instants import Instant
from betimes.core.segments import Segment
from betimes.core.streams import EffectId, StreamId

EffectStatus: TypeAlias = Literal["pending", "leased", "done", "failed", "dead"]


class StreamQuery(msgspec.Struct, frozen=True):
    """A choice of streams to list; a field left out does not narrow. Deleted ones only with `tombstones`.

    In order of their ids after `after`; or, with `newest_first`, from the last created on, against the order of
    `(created_at, id)` from before `(after_created_at, after)`; or, when `due_before` is given, in order of
    `(due_at, id)` after `(after_due_at, after)`; or, when `listed_before` is given, the same by `listed_at`.
    """

    tenant: str | None = None
    kind: str | None = None
    owner: str | None = None
    status: str | None = None
    prefix: str | None = None
    """The beginning of the id; in order of ids, of one tenant and kind."""
    among: tuple[str, ...] = ()
    """Of any of these statuses; streams that are due and have no owner are in no such list."""
    due_before: Instant | None = None
    """At or before this instant."""
    after: StreamId | None = None
    after_due_at: Instant | None = None
    listed_before: Instant | None = None
    """At or before this instant."""
    after_listed_at: Instant | None = None
    newest_first: bool = False
    after_created_at: Instant | None = None
    tombstones: bool = False
    limit: int = 100


class LedgerQuery(msgspec.Struct, frozen=True):
    """A choice of segments to read; a field left out does not narrow.

    In commit order after the position `after`, or backwards from before it (from the end when it is 0). `since_at` is
    included, `until_at` is not; `key` is looked for in every collection.

    A key, a correlation, a single stream or a range of instants must be found without reading everything else: a ledger
    has millions of segments. Instants nearly follow the commit order but need not: a stream may be ahead of the clock.
    """

    after: int = 0
    backwards: bool = False
    tenant: str | None = None
    kind: str | None = None
    id: str | None = None
    key: str | None = None
    correlation: str | None = None
    turn: str | None = None
    since_at: Instant | None = None
    until_at: Instant | None = None
    limit: int = 100

    def selects(self, segment: Segment) -> bool:
        """Return whether a segment matches the query, wherever the page begins."""
        stream, key = segment.stream, segment.key
        return (
            self.tenant in (None, stream.tenant)
            and self.kind in (None, stream.kind)
            and self.id in (None, stream.id)
            and self.key in (None, key and key.key)
            and self.correlation in (None, segment.correlation)
            and self.turn in (None, segment.turn)
            and (self.since_at is None or self.since_at <= segment.at)
            and (self.until_at is None or segment.at < self.until_at)
        )


class EffectQuery(msgspec.Struct, frozen=True):
    """A choice of effects to list; a field left out does not narrow.

    In order of their ids after `after`; or, with `newest_first`, against the order of `(created_at, id)` from before
    `(after_created_at, after)`; or, with `oldest_first`, which needs a tenant and a status, in that order after it.
    """

    tenant: str | None = None
    source: StreamId | None = None
    version: int | None = None
    """Of the source: the effects of one segment."""
    executor: str | None = None
    status: EffectStatus | None = None
    after: EffectId | None = None
    newest_first: bool = False
    oldest_first: bool = False
    after_created_at: Instant | None = None
    limit: int = 100


class Reached(NamedTuple):
    """The last stream that was taken, and when it was due."""

    at: Instant
    stream: StreamId


class DueBounds(TypedDict, total=False):
    """Narrow which of the streams that are due are taken; a bound left out, or `None`, does not."""

    after: Reached | None
    until_at: Instant | None
    tenant: str | None
    shares: Mapping[str, int] | None


class Backlog(NamedTuple):
    """The work that is owed: how much, and since when it could have been done, snoozes heeded.

    `effects_pending` are sends and calls not yet ended; `orphaned`, by executor, are calls nobody took for a minute.
    """

    alarms_due: int
    oldest_alarm_at: Instant | None
    snoozed: int
    effects_pending: int
    effects_dead: int
    orphaned: dict[str, int]


class DueTenants(NamedTuple):
    """Tenants that have something due, in the order of their names."""

    tenants: tuple[str, ...]
    reached: str
    """The last one that was read; empty if none follows."""
    looked_at: int = 0
    """How many were, those that have nothing due yet included."""


class WaitingSend(NamedTuple):
    """A command to another stream that has not been applied yet."""

    id: EffectId
    to: StreamId
    command: str
    created_at: Instant


class SendBounds(TypedDict, total=False):
    """Narrow which of the sends that wait are listed; `kinds` are those of the streams they go to."""

    created_before: Required[Instant]
    tenant: str | None
    kinds: Sequence[str] | None
    after: WaitingSend | None
