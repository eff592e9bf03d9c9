"""Statistics: how much was decided, by time, domain, outcome and reason; from the tally, and never from the ledger.

What the tally has not counted yet, at most a page of it, is counted on the spot, so that an answer is as of now. If
there is more, the answer says so.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TypeAlias

from msgspec.structs import replace

from betimes.catalogue import DOMAIN_OF, Area, area_of
from betimes.core.datetimes import instant, moment
from betimes.core.errors import Invalid
from betimes.core.instants import DAY, HOUR, MINUTE, Instant, render
from betimes.domain.json_view import JsonView
from betimes.domain.paging import check_filters, wrong_parameter
from betimes.domain.service import in_slices
from betimes.engine.read_model import LEVELS, REASONS_SEPARATOR, TallyPosition, TallyQuery, TallySource
from betimes.engine.store import PAGE_MAX
from betimes.ledger.known_names import check_names, split_names
from betimes.ledger.reader import STEPS, LedgerReader, Step, When, check_range
from betimes.ledger.tally import BY_EVENTS, outcomes_in

CELLS_MAX = 2_000
STEPS_MAX = 200
"""Steps of an answer at most, if the request does not choose the step."""
SUMS_MAX = 50_000
MINUTES_SPAN_MAX = DAY + HOUR
"""Of an answer in steps shorter than an hour: a day, and the step that it begins in."""
LOOKS_MAX = 3
"""Before an answer is given though the tally moved while it was made."""
GROUPS = ("domain", "kind", "outcome", "reason")
Counts: TypeAlias = Counter[tuple[int, tuple[str, ...]]]
"""By the number of the step, and what it is grouped by."""


class StatisticsCell(JsonView, frozen=True, kw_only=True):
    """A count. Fields it is not grouped by are `null`; an outcome with several reasons counts under each of them."""

    at: datetime
    """The beginning of its step."""
    domain: str | None
    kind: str | None
    outcome: str | None
    reason: str | None
    count: int


class StatisticsView(JsonView, frozen=True, kw_only=True):
    since: datetime
    """As requested, rounded down to a whole step."""
    until: datetime
    """Rounded up; not included."""
    step: Step
    by: list[str]
    cells: list[StatisticsCell]
    """Those that are not 0."""
    total: int
    """Outcomes in all."""
    complete: bool
    """Whether everything that was committed by now is counted."""


class Statistics(LedgerReader):
    """Counts of outcomes."""

    @check_filters
    async def stats(
        self,
        *,
        since: When = None,
        until: When = None,
        step: Step | None = None,
        by: str = "outcome",
        domain: Area | None = None,
        outcome: str | None = None,
        reason: str | None = None,
    ) -> StatisticsView:
        """Count outcomes from one instant until before another, in steps; by default those of the last 24 hours.

        Parameters
        ----------
        since
            Included; 24 hours before `until`, if not given.
        until
            Not included; now, if not given.
        step
            By default, the shortest that does not give too many steps.
        by
            Some of domain, kind, outcome, reason, with commas.
        outcome
            One of several, with commas.
        """
        groups = _groups(by)
        outcomes = split_names(outcome)
        check_names(outcomes=outcomes, reason=reason)
        now = await self.engine.store.now()
        until_at = instant(until) or now
        since_at = until_at - DAY if since is None else instant(since)
        check_range(since_at, until_at)
        query = TallyQuery(self.caller.tenant, 0, since_at, until_at, self._counted_kinds(domain), outcomes, reason)
        looks = 0
        while True:
            looks += 1
            position = await self.engine.store.tally_position()
            view = await self._in_fitting_steps(step, query, groups, position)
            if (await self.engine.store.tally_position()).seq == position.seq:
                return view  # else some were added to the tally meanwhile, and counted on the spot too
            if looks == LOOKS_MAX:
                return replace(view, complete=False)

    async def _in_fitting_steps(
        self, step: Step | None, query: TallyQuery, groups: tuple[str, ...], position: TallyPosition
    ) -> StatisticsView:
        """Return the counts in the shortest steps of which there are not too many."""
        rows = await self.engine.store.tally_source(position.seq, PAGE_MAX, BY_EVENTS)
        cells = 0
        for name in (step,) if step else _fitting_steps(query.since_at, query.until_at, position, groups):
            found = await self._in_steps(name, query, groups, position, rows)
            if isinstance(found, StatisticsView):
                return found
            cells = found
        raise _too_many(cells)

    async def _in_steps(
        self,
        name: Step,
        query: TallyQuery,
        groups: tuple[str, ...],
        position: TallyPosition,
        rows: list[TallySource],
    ) -> StatisticsView | int:
        """Return the counts in steps of a length, or how many there are if they are too many."""
        length = STEPS[name]
        since_at, until_at = query.since_at // length * length, -(-query.until_at // length) * length
        level = _level(name, since_at, position)
        if (until_at - since_at) // length > CELLS_MAX:
            return (until_at - since_at) // length
        if level == MINUTE and until_at - since_at > MINUTES_SPAN_MAX:
            message = f"steps shorter than an hour are for {MINUTES_SPAN_MAX // HOUR} hours at most; take a longer one"
            raise wrong_parameter("step", message)
        query = replace(query, level=level, since_at=since_at, until_at=until_at)
        counts, total = await self._counted(query, length, groups)
        total += self._count_rest(query, rows, length, groups, counts)
        if len(counts) > CELLS_MAX:
            return len(counts)
        cells = [_cell(since_at + number * length, groups, names, count) for (number, names), count in counts.items()]
        return StatisticsView(
            since=moment(since_at),
            until=moment(until_at),
            step=name,
            by=list(groups),
            cells=sorted(cells, key=lambda cell: (cell.at, -cell.count)),
            total=total,
            complete=len(rows) < PAGE_MAX,
        )

    def _counted_kinds(self, domain: Area | None) -> tuple[str, ...]:
        """Return the kinds that are counted; none says all, which a store need not compare."""
        kinds = self.kinds_of(domain)
        # No kind has an empty name: a caller who may see nothing is not taken for one who may see all.
        return () if len(kinds) == len(DOMAIN_OF) else kinds or ("",)

    async def _counted(self, query: TallyQuery, length: int, groups: tuple[str, ...]) -> tuple[Counts, int]:
        counts: Counts = Counter()
        sums = await self.engine.store.tally_counts(query, length, SUMS_MAX, by_reasons="reason" in groups)
        if len(sums) == SUMS_MAX:
            raise _too_many(SUMS_MAX)
        known: dict[tuple[str, str, str], list[tuple[str, ...]]] = {}
        async for number, kind, outcome, reasons, count in in_slices(sums):
            found = known.get((kind, outcome, reasons))
            if found is None:  # the same in every step
                found = _names(groups, kind, outcome, tuple(reasons.split(REASONS_SEPARATOR)), query.reason)
                known[kind, outcome, reasons] = found
            for names in found:
                counts[number, names] += count
        return counts, sum(cell.total for cell in sums)

    def _count_rest(
        self, query: TallyQuery, rows: list[TallySource], length: int, groups: tuple[str, ...], counts: Counts
    ) -> int:
        """Add what the tally does not have yet; return how many outcomes that were."""
        total = 0
        for row in rows:
            if row.tenant != query.tenant or (query.kinds and row.kind not in query.kinds):
                continue
            if not query.since_at <= row.at < query.until_at:
                continue
            for outcome, reasons in outcomes_in(self.engine.kinds, row):
                if (query.outcomes and outcome not in query.outcomes) or (
                    query.reason is not None and query.reason not in reasons
                ):
                    continue
                total += 1
                for names in _names(groups, row.kind, outcome, reasons, query.reason):
                    counts[(row.at - query.since_at) // length, names] += 1
        return total


def _groups(by: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in by.split(",")))
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        raise wrong_parameter("by", f"some of {', '.join(GROUPS)}, separated by commas")
    return names


def _names(
    groups: tuple[str, ...], kind: str, outcome: str, reasons: tuple[str, ...], asked: str | None
) -> list[tuple[str, ...]]:
    """Return the groups that an outcome counts in; several where it has several reasons and they are asked for."""
    if "reason" not in groups:
        return [tuple(_name(group, kind, outcome, "") for group in groups)]
    told = reasons or ("",) if asked is None else (asked,)
    return [tuple(_name(group, kind, outcome, reason) for group in groups) for reason in told]


def _name(group: str, kind: str, outcome: str, reason: str) -> str:
    return {"domain": area_of(kind) or "", "kind": kind, "outcome": outcome, "reason": reason}[group]


def _cell(at: Instant, groups: tuple[str, ...], names: tuple[str, ...], count: int) -> StatisticsCell:
    found: dict[str, str | None] = dict.fromkeys(GROUPS) | dict(zip(groups, names, strict=True))
    return StatisticsCell(at=moment(at), count=count, **found)


def _fitting_steps(
    since_at: Instant, until_at: Instant, position: TallyPosition, groups: tuple[str, ...]
) -> list[Step]:
    """Return the steps that are still counted and of which there are not too many, the shortest first.

    There are many counts a minute, by reason above all: half a day of them is counted by the hour.
    """
    shortest = HOUR if until_at - since_at > (DAY // 4 if "reason" in groups else DAY // 2) else 0
    return [
        name
        for name, length in STEPS.items()
        if length >= shortest
        and (until_at - since_at) // length <= STEPS_MAX
        and since_at // length * length >= _kept_from(length, position)
    ] or ["7d"]


def _kept_from(length: int, position: TallyPosition) -> Instant:
    if length % DAY == 0:
        return 0
    return position.hours_from if length % HOUR == 0 else position.minutes_from


def _level(name: Step, since_at: Instant, position: TallyPosition) -> int:
    """Return the longest level that a step is a whole number of; raise `Invalid` if it is not kept for so long."""
    length = STEPS[name]
    kept = _kept_from(length, position)
    if since_at < kept:
        message = f"steps of {name} are kept since {render(kept)}; take longer steps"
        raise wrong_parameter("step", message)
    return max(level for level in LEVELS if length % level == 0)


def _too_many(count: int) -> Invalid:
    message = f"this has {count:,} cells and an answer at most {CELLS_MAX:,}; take a longer step or fewer groups"
    return wrong_parameter("step", message)
