"""The tally: outcomes of all domains counted by tenant and minute, hour and day, from the ledger, by one process.

**What is counted.** Every outcome of every segment, spelt as `outcomes_of` spells it: a verdict, or what the events of
a domain without verdicts decided. A segment that cannot be read counts as `unreadable`.

**Who counts.** Any process with workers looks once a second. The one that holds the lease (`ReadModel.take_tally`)
reads on after the tally's position and adds what it found together with the new position, in one commit that compares
the old one. If it dies, or loses its lease, nothing was added that the position does not say; the next one goes on
there. Nobody who decides waits for it: it reads a page beside them, and its one commit a second is a few rows.

**What is kept.** Minutes for two days, hours for ninety, days for as long as there is a ledger. All three are written
at once, so forgetting is removing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

import msgspec

from betimes.catalogue import DOMAIN_OF, spell_answer
from betimes.core.deciders import Event
from betimes.core.errors import BetimesError, Fenced, Unavailable, Unknown
from betimes.core.instants import DAY, HOUR, Instant
from betimes.core.outcomes import EventOutcome
from betimes.core.segments import CHECKPOINT_TURN, Segment
from betimes.core.streams import StreamId
from betimes.engine.codecs import Kinds
from betimes.engine.engine import Engine
from betimes.engine.read_model import LEVELS, REASONS_SEPARATOR, TallyEntry, TallyPosition, TallySource
from betimes.engine.reports import Report, Reporter, log_report
from betimes.engine.store import Store

LEASE_S = 10.0
LOOK_S = 1.0
"""Between two looks at the end of the ledger."""
PAGE = 500
"""Segments counted at once: a few milliseconds, in which the process does nothing else."""
PASS_MAX = 20_000
"""Segments that one pass of a tick counts."""
MINUTES_KEPT = 2 * DAY
HOURS_KEPT = 90 * DAY
TRIM_MAX = 5_000
TEXT_CHARS_MAX = 200
"""Of an outcome, and of all its reasons together."""
UNREADABLE = "unreadable"
HEADS_KEPT = 4_096
"""Beginnings of verdicts that are known by heart."""
BY_EVENTS = tuple(kind for kind, domain in DOMAIN_OF.items() if domain.outcome_of is not None)
"""Kinds whose events say what was decided."""

_Counts = dict[tuple[str, Instant, str, str, str], list[int]]


class _Verdict(msgspec.Struct, frozen=True, gc=False):
    """The part of a verdict that is counted; the decoder skips its trace."""

    answer: str
    reasons: tuple[str, ...] = ()


_verdicts = msgspec.json.Decoder(_Verdict)


@lru_cache(maxsize=HEADS_KEPT)
def _read_head(kind: str, head: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the outcome that the beginning of a verdict says, up to the end of its reasons; few are different."""
    verdict = _verdicts.decode(head + "}")
    return ((spell_answer(kind, verdict.answer), verdict.reasons),)


def outcomes_in(kinds: Kinds, row: TallySource) -> Sequence[tuple[str, tuple[str, ...]]]:
    """Return the outcomes of a segment with their reasons, as `outcomes_of` does of a whole one."""
    domain = DOMAIN_OF.get(row.kind)
    if domain is None:
        return []
    try:
        if domain.outcome_of is None:
            if row.verdict is None:
                return []
            # A verdict begins with its answer and its reasons, which no code ends early.
            return _read_head(row.kind, row.verdict[: row.verdict.find("]") + 1])
        if row.events is None or row.events == "[]":
            return []
        return list(_event_outcomes(kinds, domain.outcome_of, row))
    except (BetimesError, msgspec.MsgspecError) as error:
        code = error.code if isinstance(error, BetimesError) else "MALFORMED_ROW"
        return [(UNREADABLE, (code,))]


def tally_source(segment: Segment) -> TallySource:
    """Return a whole segment as far as it is counted."""
    events = None if segment.turn == CHECKPOINT_TURN else segment.events
    return TallySource(
        segment.seq, segment.stream.tenant, segment.stream.kind, segment.at, segment.schema, segment.verdict, events
    )


def _event_outcomes(
    kinds: Kinds, outcome_of: Callable[[Event], EventOutcome | None], row: TallySource
) -> Iterator[tuple[str, tuple[str, ...]]]:
    stream = StreamId(row.tenant, row.kind, "")
    segment = Segment(stream, 0, "", row.at, row.schema, None, row.events or "[]", "", "", "")
    for event in kinds.of(stream).events(segment):
        decided = outcome_of(event)
        if decided is not None:
            yield decided.outcome, decided.reasons


def count_outcomes(kinds: Kinds, rows: Iterable[TallySource]) -> list[TallyEntry]:
    """Return the outcomes of segments as counts to add, at every level."""
    counts: _Counts = {}
    minute = LEVELS[0]
    for row in rows:
        # Counted by the minute and summed up to the longer levels after: a page has far fewer minutes than segments.
        at = row.at - row.at % minute
        for outcome, reasons in outcomes_in(kinds, row):
            joined = REASONS_SEPARATOR.join(reasons)[:TEXT_CHARS_MAX]
            name = (row.tenant, at, row.kind, outcome[:TEXT_CHARS_MAX], joined)
            found = counts.get(name)
            if found is None:
                counts[name] = [1, row.seq, row.seq]
            else:
                found[0] += 1
                found[2] = row.seq
    return [entry for level in LEVELS for entry in _raise_to(level, counts)]


def _raise_to(level: int, counts: _Counts) -> Iterator[TallyEntry]:
    """Yield the counts of minutes as those of a longer level."""
    raised: _Counts = {}
    for (tenant, at, *rest), (total, first, last) in counts.items():
        kind, outcome, reasons = rest
        found = raised.setdefault((tenant, at - at % level, kind, outcome, reasons), [0, first, last])
        found[0] += total
        found[1], found[2] = min(found[1], first), max(found[2], last)
    for (tenant, at, kind, outcome, reasons), (total, first, last) in raised.items():
        yield TallyEntry(level, tenant, at, kind, outcome, reasons, total, first, last)


class TallyProjection:
    """Keeps the tally up to date on behalf of one process."""

    def __init__(self, engine: Engine, holder: str, *, report: Reporter = log_report) -> None:
        self._engine = engine
        self._holder = holder
        self._report = report
        self._trimmed_at: Instant = 0

    @property
    def _store(self) -> Store:
        return self._engine.store

    async def run(self) -> None:
        """Count until cancelled; while it is behind, rest for as long as it worked, so that others get their turn."""
        loop = asyncio.get_running_loop()
        while True:
            begun_s = loop.time()
            try:
                counted = await self.count_page()
            except Exception as error:  # noqa: BLE001 — the loop goes on, whatever a store does
                self._report(Report("tally_failed", "store", error))
                counted = 0
            await asyncio.sleep(loop.time() - begun_s if counted == PAGE else LOOK_S)

    async def catch_up(self, limit: int = PASS_MAX) -> int:
        """Count what there is, up to a limit; return how many segments were counted."""
        total = 0
        while total < limit:
            counted = await self.count_page()
            total += counted
            if counted < PAGE:
                break
        return total

    async def count_page(self) -> int:
        """Count up to `PAGE` segments; none while somebody else does. Return how many."""
        position = await self._store.tally_position()
        now = await self._store.now()
        # Asked before the lease is, because most processes find every time that another one counts.
        if position.holder != self._holder and position.lease_until > now:
            return 0
        page = await self._store.tally_source(position.seq, PAGE, BY_EVENTS)
        if not page:
            return 0
        try:
            return await self._add(position, page, now)
        except (Fenced, Unknown, Unavailable):
            return 0  # the position says what was counted; the next look goes on there

    async def _add(self, position: TallyPosition, page: list[TallySource], now: Instant) -> int:
        if position.holder != self._holder:
            # Somebody else may have counted between the look and the lease; then this page is not the next one any
            # more.
            taken = await self._store.take_tally(self._holder, LEASE_S)
            if taken is None or taken.seq != position.seq:
                return 0
        entries = count_outcomes(self._engine.kinds, page)
        latest = max(row.at for row in page)
        await self._store.add_tally(self._holder, LEASE_S, entries, after=position.seq, upto=page[-1].seq, at=latest)
        await self._trim(now)
        return len(page)

    async def _trim(self, now: Instant) -> None:
        """Forget minutes and hours that are no longer kept; once an hour, and on while there is more."""
        if now - self._trimmed_at < HOUR:
            return
        # Cut at whole hours, and at whole days below: a step of the longer level is there in the shorter one as a
        # whole, or not at all.
        minutes_from = max(0, (now - MINUTES_KEPT) // HOUR * HOUR)
        hours_from = max(0, (now - HOURS_KEPT) // DAY * DAY)
        gone = await self._store.trim_tally(minutes_from=minutes_from, hours_from=hours_from, limit=TRIM_MAX)
        # With more to forget, the next page trims on: one pass removes a bounded number, so that nobody waits for it.
        if gone < TRIM_MAX:
            self._trimmed_at = now
