"""Counts of upcoming events: alarms and due times, by kind and time.

Both are counted along an index up to a bound; a tenant that has more is counted by a sample of its streams, and the row
says so. Kinds that recur, such as schedules, are shown with all their occurrences; kinds that somebody takes, such as
intents, with when they are due and their alarm; others with their one alarm.
"""

from __future__ import annotations

from datetime import datetime

from betimes.catalogue import DOMAIN_OF
from betimes.core.datetimes import instant, moment
from betimes.core.instants import DAY, Instant
from betimes.core.occurrence_counts import StepCounts, StepGrid
from betimes.domain.json_view import JsonView
from betimes.domain.paging import Listing, check_filters, wrong_parameter
from betimes.engine.read_model import SAMPLE, AlarmCount, UpcomingQuery
from betimes.engine.store import StreamQuery, StreamRow
from betimes.ledger.reader import STEPS, Step, When, check_range, domain_of
from betimes.ledger.upcoming_items import DUE_KINDS, FOREVER, UpcomingItems
from betimes.ledger.upcoming_items import UpcomingItem as UpcomingItem

COUNTED_MAX = 5_000
"""Alarms, and streams that are due of one kind, that are counted one by one; of more, a sample is."""
SAMPLED_MAX = 60_000
STEPS_MAX = 400
STEPS_FIT = 100
LONGEST: Step = "7d"
RECURRING_MAX = 100
"""Streams of a kind that recurs, of which occurrences are shown."""
WORK_MAX = 5_000
"""Days and occurrences of all of them together that are looked at; what lies behind is estimated."""
LATE_MAX = 5_000


class LateAlarms(JsonView, frozen=True):
    """Overdue alarms, and due checks that no worker has taken."""

    count: int
    oldest_at: datetime | None
    capped: bool
    """Whether the count reached its limit."""


class UpcomingRow(JsonView, frozen=True):
    kind: str
    domain: str
    counts: list[int]
    """Of each step, from the first on."""
    estimated: bool
    """Whether counts come from a sample, or later steps were extrapolated from earlier ones."""
    truncated: bool
    """Whether the count reached its limit."""


class UpcomingView(JsonView, frozen=True, kw_only=True, rename={"from_": "from"}):
    now: datetime
    from_: datetime
    to: datetime
    step: Step
    rows: list[UpcomingRow]
    late: LateAlarms
    estimated: bool
    """Whether a row is estimated."""
    truncated: bool
    """Whether the count reached its limit."""


class _Row:
    """The counts of a kind as they are gathered."""

    def __init__(self, steps: int) -> None:
        self.counts = [0] * steps
        self.is_estimated = False
        self.is_truncated = False

    def add(self, counts: list[int]) -> None:
        self.counts = [mine + more for mine, more in zip(self.counts, counts, strict=True)]


class Upcoming(UpcomingItems):
    """Says what comes next."""

    @check_filters
    async def upcoming(
        self, *, from_: When = None, to: When = None, step: Step | None = None, kinds: str | None = None
    ) -> UpcomingView:
        """Count what comes by kind and step; by default in the next 24 hours.

        Upcoming alarms in each step, by kind of stream. Schedules are shown with all their ticks, intents with
        their next check and their end, others with their next alarm. Large counts come from a sample, or are
        extrapolated from earlier steps (`estimated`, by row).

        Parameters
        ----------
        from_
            Now, if not given.
        to
            24 hours later, if not given.
        kinds
            Of streams, with commas.
        """
        wanted = self.check_kinds(kinds)
        now = await self.engine.store.now()
        since_at = now if from_ is None else instant(from_)
        until_at = since_at + DAY if to is None else instant(to)
        check_range(since_at, until_at, ("from", "to"))
        name = step if step is not None else _fitting_step(until_at - since_at)
        grid = StepGrid(since_at, until_at, STEPS[name])
        if grid.size > STEPS_MAX:
            message = f"{grid.size:,} steps, and an answer has at most {STEPS_MAX}; take a longer one"
            raise wrong_parameter("step", message)
        rows: dict[str, _Row] = {kind: _Row(grid.size) for kind in sorted(wanted)}
        await self._count(rows, grid, None)
        for kind in DUE_KINDS:
            if kind in wanted:
                await self._count(rows, grid, kind)
        for kind in [kind for kind in rows if kind in DOMAIN_OF[kind].occurrences]:
            rows[kind] = await self._recurring(kind, grid)
        return UpcomingView(
            now=moment(now),
            from_=moment(since_at),
            to=moment(until_at),
            step=name,
            rows=[
                UpcomingRow(kind, domain_of(kind), row.counts, row.is_estimated, row.is_truncated)
                for kind, row in rows.items()
                if any(row.counts)
            ],
            late=await self._late(wanted, now),
            estimated=any(row.is_estimated for row in rows.values()),
            truncated=any(row.is_truncated for row in rows.values()),
        )

    async def _count(self, rows: dict[str, _Row], grid: StepGrid, due_kind: str | None) -> None:
        """Add alarms, or what is due of a kind: one by one, or those of a sample."""
        share, most = 1, COUNTED_MAX
        counts = await self._counts(grid, most, due_kind)
        if sum(found.total for found in counts) >= COUNTED_MAX:
            share, most = SAMPLE, SAMPLED_MAX
            counts = await self._counts(grid, most, due_kind, is_sampled=True)
        is_cut = sum(found.total for found in counts) >= most
        for kind, number, total, _ in counts:
            if kind in rows:
                rows[kind].counts[number] += total * share
                rows[kind].is_estimated = rows[kind].is_estimated or share > 1
        # past the bound, nobody knows of which kinds the rest is
        for kind in rows if due_kind is None else (due_kind,):
            rows[kind].is_truncated = rows[kind].is_truncated or is_cut

    async def _counts(
        self, grid: StepGrid, limit: int, due_kind: str | None, *, is_sampled: bool = False
    ) -> list[AlarmCount]:
        query = UpcomingQuery(
            self.caller.tenant, grid.since_at, grid.until_at, grid.length, limit, sampled=is_sampled, due_kind=due_kind
        )
        return await self.engine.store.upcoming(query)

    async def _late(self, wanted: frozenset[str], now: Instant) -> LateAlarms:
        if now <= 0:
            return LateAlarms(0, None, False)
        grid = StepGrid(0, now, FOREVER)
        found = [await self._counts(grid, LATE_MAX, None)]
        found += [await self._counts(grid, LATE_MAX, kind) for kind in DUE_KINDS if kind in wanted]
        late = [one for counts in found for one in counts if one.kind in wanted]
        is_capped = any(sum(one.total for one in counts) >= LATE_MAX for counts in found)
        oldest_at = min((one.first_at for one in late), default=None)
        return LateAlarms(sum(one.total for one in late), moment(oldest_at), is_capped)

    async def _recurring(self, kind: str, grid: StepGrid) -> _Row:
        """Count the occurrences of streams that recur; what rare ones leave of the bound is there for frequent ones."""
        query = StreamQuery(
            tenant=self.caller.tenant, kind=kind, among=("active",), newest_first=True, limit=RECURRING_MAX + 1
        )
        rows = await self.engine.store.streams(query)
        found = _Row(grid.size)
        found.is_truncated = len(rows) > RECURRING_MAX
        del rows[RECURRING_MAX:]
        first = [self._occurrences(row, grid, WORK_MAX // len(rows)) for row in rows]
        left = WORK_MAX - sum(counted.work for counted in first)
        frequent = sum(counted.is_estimated for counted in first)
        for row, counted in zip(rows, first, strict=True):
            again = counted
            if counted.is_estimated:
                again = self._occurrences(row, grid, counted.work + left // frequent)
            found.add(again.counts)
            found.is_estimated = found.is_estimated or again.is_estimated
        return found

    def _occurrences(self, row: StreamRow, grid: StepGrid, work_max: int) -> StepCounts:
        counted: list[StepCounts] = []
        with Listing[object]().reading(row.stream):  # one that cannot be read is told of where it is listed
            state = self.engine.kinds.state_in(row.stream, row)
            counted.append(DOMAIN_OF[row.stream.kind].occurrences[row.stream.kind](state, grid, work_max))
        return counted[0] if counted else StepCounts([0] * grid.size, False, 1)


def _fitting_step(span: int) -> Step:
    """Return the shortest step of which there are not too many."""
    return next((name for name, length in STEPS.items() if span // length <= STEPS_FIT), LONGEST)
