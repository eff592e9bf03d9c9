"""Where in the ledger there are verdicts of a sort, the last ones first: the tally, opened as far as somebody looks.

A day that has such verdicts is opened into its hours when its turn comes, and an hour into its minutes, so that a rare
reason costs no look at the minutes of a day without it. Whoever holds the latest position has the next turn, because
neighbouring minutes may stand in any order in the ledger.
"""

from __future__ import annotations

from heapq import heappop, heappush

from msgspec.structs import replace

from betimes.core.instants import DAY, HOUR, MINUTE, Instant
from betimes.engine.read_model import KindRange, TallyPosition, TallyQuery, TallyRange
from betimes.engine.store import Store

SEQ_MAX = 2**62
DAYS_MAX = 500
TAKEN_MAX = 64
"""Ranges that are read at once."""
OPENED_MAX = 40
"""Days and hours that one page opens; further ones are read as a whole."""
WHOLE = 0
"""The level of a range that is not opened."""
SHORT = 32
"""Positions that are read rather than opened."""


class VerdictRanges:
    """The ranges that a query's verdicts are in, before a position; `query.level` is set here."""

    def __init__(self, store: Store, query: TallyQuery, position: TallyPosition, before: int) -> None:
        self._store = store
        self._query = query
        self._position = position
        self._before = before
        self._opens_left = OPENED_MAX
        self._floor = 0
        self._heap: list[tuple[int, int, TallyRange]] = []
        """Each behind the negative of its last position, and its level."""

    async def load(self) -> None:
        """Find the days, and what is not counted yet."""
        if self._before > self._position.seq + 1:
            self._push(WHOLE, TallyRange(0, self._position.seq + 1, SEQ_MAX, 0, self._query.kinds))
        days = await self._find(DAY, self._query.since_at, self._query.until_at, DAYS_MAX + 1)
        for day in days[:DAYS_MAX]:
            self._push(DAY, day)
        if len(days) > DAYS_MAX:
            self._floor = days[-1].last + 1

    @property
    def next_last(self) -> int:
        """Return the last position that was not taken yet; 0 when all were."""
        return max(-self._heap[0][0] if self._heap else 0, self._floor - 1)

    async def take(self, wanted: int) -> list[KindRange]:
        """Return the next ranges, with so many verdicts in them if there are, all of them after `next_last`."""
        taken: list[TallyRange] = []
        total = 0
        while self._heap and self.next_last >= self._floor:
            is_enough = total >= wanted or len(taken) >= TAKEN_MAX
            if is_enough and self.next_last < taken[-1].last:
                break
            _, level, found = heappop(self._heap)
            if self._is_worth_opening(level, found):
                await self._open(level, found)
            else:
                taken.append(found)
                total += found.total
        return self._cut(taken)

    def _cut(self, taken: list[TallyRange]) -> list[KindRange]:
        """Return ranges as far as they are after `next_last`, and keep the rest of them for their turn."""
        lowest = self.next_last + 1
        for one in taken:
            if one.first < lowest:
                self._push(WHOLE, one._replace(last=lowest - 1))
        return [KindRange(kind, max(one.first, lowest), one.last) for one in taken for kind in one.kinds]

    def _is_worth_opening(self, level: int, found: TallyRange) -> bool:
        if self._opens_left == 0 or found.total == 1 or found.last - found.first < SHORT:
            return False
        kept_from = {DAY: self._position.hours_from, HOUR: self._position.minutes_from}
        return level in kept_from and found.at >= kept_from[level]

    async def _open(self, level: int, found: TallyRange) -> None:
        self._opens_left -= 1
        inner = HOUR if level == DAY else MINUTE
        since_at, until_at = max(found.at, self._query.since_at), min(found.at + level, self._query.until_at)
        for one in await self._find(inner, since_at, until_at, level // inner):
            self._push(inner, one)

    async def _find(self, level: int, since_at: Instant, until_at: Instant, limit: int) -> list[TallyRange]:
        query = replace(self._query, level=level, since_at=since_at // level * level, until_at=until_at)
        return await self._store.tally_ranges(query, self._before, limit)

    def _push(self, level: int, found: TallyRange) -> None:
        last = min(found.last, self._before - 1)
        heappush(self._heap, (-last, level, found._replace(last=last)))
