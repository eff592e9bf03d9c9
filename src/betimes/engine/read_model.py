"""The read model: what a store keeps and answers for people who look, never for a decision.

**The tally** counts outcomes by tenant, instant, kind, outcome and reasons, at three levels: minutes, hours and days.
It is a projection of the ledger, written by one process at a time: whoever holds the lease reads on after the tally's
position and adds what it found together with the new position, in one commit that compares the old one. So a process
that dies between two commits leaves nothing half counted, two that both believe to hold the lease cannot count anything
twice, and whoever comes next goes on exactly there. Emptied, it is counted again from the beginning of the ledger.

**Upcoming alarms** and what is due are counted along an index. Where a tenant has more than can be counted in time, an
index of every `SAMPLE`th stream is counted in its place.

**Processes** tell the store that they are alive; one that has not for long is forgotten. They also add up there how
late the alarms were that they rang, by the hour; that is no projection of the ledger, and two days of it are kept.

Every answer has a bound that does not depend on how much there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from betimes.core.instants import DAY, HOUR, MINUTE, Instant
from betimes.core.segments import Segment
from betimes.core.streams import StreamId

if TYPE_CHECKING:
    from betimes.engine.store import StreamRow

LEVELS = (MINUTE, HOUR, DAY)
"""The lengths of what the tally counts in, the shortest first; each is a whole number of those before."""
SAMPLE = 16
"""One stream in so many stands in the index that large tenants' alarms are counted by."""
REASONS_SEPARATOR = ","


class TallySource(NamedTuple):
    """A segment as far as it is counted: its events, of kinds that are counted by them; its verdict, of others.

    A verdict may end with its reasons.
    """

    seq: int
    tenant: str
    kind: str
    at: Instant
    schema: int
    verdict: str | None
    events: str | None


class TallyEntry(NamedTuple):
    """A count to add, and the first and last position in the ledger that it stands for."""

    level: int
    tenant: str
    at: Instant
    """The beginning of the minute, hour or day."""
    kind: str
    outcome: str
    reasons: str
    """All of an outcome's reasons, in their order, joined by `REASONS_SEPARATOR`."""
    total: int
    first_seq: int
    last_seq: int


class TallyPosition(NamedTuple):
    """How far the tally has counted, who counts, and from when on minutes and hours are kept."""

    seq: int = 0
    at: Instant = 0
    """The latest instant of what was counted."""
    holder: str = ""
    lease_until: Instant = 0
    minutes_from: Instant = 0
    """A whole hour; before it there are hours and days only."""
    hours_from: Instant = 0
    """A whole day; before it there are days only."""


class TallyQuery(msgspec.Struct, frozen=True):
    """A choice of counts of one tenant and level, from `since_at` until before `until_at`."""

    tenant: str
    level: int
    since_at: Instant
    until_at: Instant
    kinds: tuple[str, ...] = ()
    """Of any of these; none: of all."""
    outcomes: tuple[str, ...] = ()
    """Any of these; none: all."""
    reason: str | None = None
    """Among the reasons."""


class TallyCell(NamedTuple):
    """A sum of counts; `number` is that of the step it is in, from 0."""

    number: int
    kind: str
    outcome: str
    reasons: str
    total: int


class TallyRange(NamedTuple):
    """Positions of the ledger between which something was counted; the first and the last are such."""

    at: Instant
    """The beginning of the minute, hour or day."""
    first: int
    last: int
    total: int
    """Outcomes that were counted there."""
    kinds: tuple[str, ...]
    """The tenant they belong to."""


class KindRange(NamedTuple):
    """Positions of the ledger, both included, and the kind of streams that is looked for there."""

    kind: str
    first: int
    last: int


class AlarmCount(NamedTuple):
    """Alarms of a kind in a step, from 0; `first_at` is the first of them."""

    kind: str
    number: int
    total: int
    first_at: Instant


class UpcomingQuery(msgspec.Struct, frozen=True):
    """Alarms of one tenant from `since_at` until before `until_at`, the earliest `limit` of them.

    With `sampled`, only those of every `SAMPLE`th stream are looked at. With `due_kind`, streams of that kind are
    counted by when they are due in place of their alarms; a sample holds those that have an owner.
    """

    tenant: str
    since_at: Instant
    until_at: Instant
    step: int
    limit: int
    sampled: bool = False
    due_kind: str | None = None


class TenantBacklog(NamedTuple):
    """The backlog of one tenant, as in `Backlog`; every count stops at the given limit."""

    alarms_due: int
    oldest_alarm_at: Instant | None
    snoozed: int
    effects_pending: int
    effects_dead: int
    effects_failing: int
    """Pending calls whose last attempt failed."""
    orphaned: dict[str, dict[str, int]]
    """Calls that no process claimed for a minute, by executor and then by the kind of their streams."""


class ExecutorBacklog(NamedTuple):
    """The effects of one tenant's streams of one kind, for one executor.

    The count of an executor, over all kinds, stops at the limit that was asked for.
    """

    executor: str
    kind: str
    total: int
    first_at: Instant | None
    """When the first of them is due, or the lease on it ends; `None` of commands to other streams, due at once."""


class AlarmLagEntry(NamedTuple):
    """Alarms of a tenant that rang in an hour, at most so late."""

    tenant: str
    at: Instant
    """The beginning of the hour."""
    bound: int
    """In microseconds; there is another entry for those that were less late than the next lower bound."""
    total: int
    most: int
    """How late the latest of them was."""


LIVE = 3 * 10_000_000
"""A process that was silent for longer is not taken to be alive."""
CLOSED = "closed"
"""The role of a process that shut down properly: it is not alive, however recent its last heartbeat."""
VIRTUAL_CLOCK = ", virtual clock"
"""The suffix of the role of a process whose virtual clock only moves when it is told to."""


class ProcessRow(NamedTuple):
    """A process, as of its last heartbeat."""

    name: str
    role: str
    version: str
    executors: tuple[str, ...]
    started_at: Instant
    seen_at: Instant

    def is_alive(self, now: Instant) -> bool:
        """Return whether its last heartbeat is recent and it has not shut down."""
        return self.role != CLOSED and now - self.seen_at <= LIVE

    @property
    def has_virtual_clock(self) -> bool:
        return self.role.endswith(VIRTUAL_CLOCK)


class NamedStream(NamedTuple):
    """A stream that was found by the beginning of its id."""

    kind: str
    id: str
    status: str


class NamedKey(NamedTuple):
    """A key that was found by its beginning, and the segment that it was used for."""

    collection: str
    key: str
    kind: str
    id: str
    version: int


class AlarmPlace(NamedTuple):
    """The place of a stream among the alarms of its tenant."""

    at: Instant
    kind: str
    id: str


class ReadModel(Protocol):
    """The part of a store that people's questions are answered from."""

    # -- the tally

    async def tally_source(self, after: int, limit: int, by_events: Sequence[str] = ()) -> list[TallySource]:
        """Return segments after a position in commit order; none can appear later before one already returned.

        `by_events` are the kinds whose events are counted.
        """

    async def tally_position(self) -> TallyPosition: ...

    async def take_tally(self, holder: str, lease_s: float) -> TallyPosition | None:
        """Take or renew the lease on the tally; `None` while another process holds it."""

    async def add_tally(
        self, holder: str, lease_s: float, entries: Sequence[TallyEntry], *, after: int, upto: int, at: Instant
    ) -> None:
        """Add counts, move from one position to another and renew the lease, in one commit; `at` is as counted last.

        Raise `Fenced` unless the lease is still this holder's and the tally still at `after`.
        """

    async def trim_tally(self, *, minutes_from: Instant, hours_from: Instant, limit: int) -> int:
        """Keep no minutes and hours from before these instants; remove up to `limit` of each and say how many went."""

    async def reset_tally(self) -> None:
        """Empty the tally, so that it is counted again from the beginning of the ledger."""

    async def tally_counts(
        self, query: TallyQuery, step: int, limit: int, *, by_reasons: bool = True
    ) -> list[TallyCell]:
        """Return sums by steps from `since_at` on, kind, outcome and, if asked for, reasons; at most `limit`."""

    async def tally_ranges(self, query: TallyQuery, before_seq: int, limit: int) -> list[TallyRange]:
        """Return where the counts that begin before a position lie, by minute, hour or day, the latest first."""

    async def segments_within(self, tenant: str, ranges: Sequence[KindRange], limit: int) -> list[Segment]:
        """Return segments of a tenant in some ranges, the last one first; what is in two of them may come twice."""

    # -- alarms, names, processes

    async def upcoming(self, query: UpcomingQuery) -> list[AlarmCount]:
        """Count alarms by kind and step, snoozes heeded; or what is due, of one kind."""

    async def upcoming_streams(
        self, tenant: str, since_at: Instant, until_at: Instant, limit: int, *, after: AlarmPlace | None = None
    ) -> list[StreamRow]:
        """Return streams of a tenant in the order of their alarms, snoozes heeded."""

    async def snoozed_streams(self, tenant: str, limit: int, *, after: StreamId | None = None) -> list[StreamRow]:
        """Return streams of a tenant whose wakes failed and rest, in the order of their names."""

    async def names_like(self, tenant: str, kinds: Sequence[str], prefix: str, limit: int) -> list[NamedStream]:
        """Return streams whose ids begin with a text, of each kind the first `limit`; deleted ones are left out."""

    async def keys_like(self, tenant: str, collections: Sequence[str], prefix: str, limit: int) -> list[NamedKey]:
        """Return keys that are kept and begin with a text, of each collection the first `limit`."""

    async def tenant_backlog(self, tenant: str, limit: int) -> TenantBacklog: ...

    async def executor_backlog(self, tenant: str, limit: int, executors_max: int) -> list[ExecutorBacklog]:
        """Return the effects of a tenant that have not ended, by executor and kind, in the order of their names.

        Of each of the first `executors_max` executors up to `limit` are counted, along an index.
        """

    async def add_alarm_lags(self, entries: Sequence[AlarmLagEntry], *, forget_before: Instant) -> None:
        """Add alarms that rang to those of the same tenant, hour and bound; forget the hours before an instant."""

    async def alarm_lags(self, tenant: str, since_at: Instant, until_at: Instant) -> list[AlarmLagEntry]:
        """Return what was added of a tenant for hours from `since_at` until before `until_at`."""

    async def beat(self, process: ProcessRow, *, forget_before: Instant) -> None:
        """Note that a process is alive, and forget those that were last seen before an instant."""

    async def processes(self, limit: int) -> list[ProcessRow]:
        """Return the processes that are known, the last seen first."""


def prefix_end(prefix: str) -> str:
    """Return a text after every id or key that begins with this one."""
    # The last character there is, which no id or key holds.
    return prefix + "\U0010ffff"
