"""The pulse: what is decided, as one frame a second; sums and a few samples in place of every verdict.

**One tail for all.** The readers of a process share a `PulseTail`. Once a second one of them reads what was committed
since, only as far as it is counted, and keeps the sums by tenant as a *beat*. Everybody's frame is made of beats, and
readers who ask for the same and are equally far share its bytes, so a further reader costs next to nothing.

**Nobody is too slow.** A reader that comes late gets all the beats since its last frame as one: fewer, bigger frames.
Only who has been away for longer than beats are kept misses something, and is told so.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any

import msgspec

from betimes.catalogue import area_of
from betimes.core.datetimes import moment
from betimes.core.instants import Instant
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.engine.read_model import TallySource
from betimes.engine.store import PAGE_MAX, LedgerQuery
from betimes.ledger.fleet import BacklogView, Fleet
from betimes.ledger.tally import BY_EVENTS, outcomes_in
from betimes.ledger.verdict_feed import DecodedSegment, FeedFilters, VerdictEvent

BEAT_S = 1.0
SHORTLY_S = 0.05
BEATS_KEPT = 600
CELLS_MAX = 200_000
"""Sums and positions in all beats together. With very many tenants at work, fewer beats are kept."""
PAGES_MAX = 10
"""Pages of the ledger that one beat reads; what is left is the next one's."""
SAMPLES_MAX = 50
FRAMES_MAX = 1_000
"""Frames of one beat that are kept for others."""
HEALTH_S = 5.0


class PulseCount(msgspec.Struct, frozen=True):
    domain: str
    outcome: str
    reasons: tuple[str, ...]
    count: int


class PulseFrame(msgspec.Struct, frozen=True):
    """Decisions since the previous frame."""

    now: datetime
    beats: int
    """The seconds it covers, approximately."""
    total: int
    counts: list[PulseCount]
    sample: list[VerdictEvent]
    """Some of them, the newest last."""
    missed: bool
    """Whether there were more decisions since the previous frame than counted here."""
    health: BacklogView
    """Due and pending work of the tenant, at most a few seconds old."""


class _Beat:
    """A second of everybody's verdicts: sums by tenant, and positions of a few segments of each."""

    def __init__(self, number: int, after: int) -> None:
        self.number = number
        self.after = self.upto = after
        self.counts: dict[str, Counter[tuple[str, str, tuple[str, ...]]]] = {}
        self.seqs: dict[str, deque[int]] = {}
        self.samples: dict[str, list[VerdictEvent]] = {}

    def add(self, row: TallySource, outcomes: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        tenant = row.tenant
        if tenant not in self.counts:
            self.counts[tenant], self.seqs[tenant] = Counter(), deque(maxlen=SAMPLES_MAX)
        counts = self.counts[tenant]
        for outcome, reasons in outcomes:
            counts[row.kind, outcome, reasons] += 1
        self.seqs[tenant].append(row.seq)

    def count_cells(self) -> int:
        return sum(map(len, self.counts.values())) + sum(map(len, self.seqs.values()))


class PulseTail:
    """The last minutes of verdicts in beats, for all readers of a process."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.segments = 0
        """Segments counted so far, for monitoring."""
        self._beats: deque[_Beat] = deque()
        self._cells = 0
        self._seq = -1
        self._number = 0
        self._lock = asyncio.Lock()
        self._beaten_s = 0.0
        self._health: dict[tuple[str, frozenset[str]], tuple[float, BacklogView]] = {}
        self._frame_lock = asyncio.Lock()
        self._frames: dict[Hashable, bytes] = {}
        """Of the last beat, by who they are for."""

    async def number_now(self) -> int:
        """Return the number of the last beat; what is committed from now on is in later ones."""
        async with self._lock:
            if self._seq < 0:
                newest = await self.engine.store.ledger(LedgerQuery(backwards=True, limit=1))
                self._seq = newest[0].seq if newest else 0
                self._beaten_s = asyncio.get_running_loop().time()
            else:
                await self._beat()
        return self._number

    async def number_at(self, seq: int) -> int:
        """Return the number of the beat up to a position, as a frame named it; -1 if it is not kept any more."""
        await self.number_now()
        return next((beat.number for beat in reversed(self._beats) if beat.upto <= seq), -1)

    async def after(self, number: int) -> list[_Beat]:
        """Return the beats after one; reads on if the last is a second old."""
        if asyncio.get_running_loop().time() - self._beaten_s >= BEAT_S:
            async with self._lock:
                # Asked again under the lock: whoever held it may have read on.
                if asyncio.get_running_loop().time() - self._beaten_s >= BEAT_S:
                    await self._beat()
        return list(takewhile(lambda beat: beat.number > number, reversed(self._beats)))[::-1]

    @property
    def next_in_s(self) -> float:
        """How long it is until a beat is due; a little, if one is."""
        return max(SHORTLY_S, self._beaten_s + BEAT_S - asyncio.get_running_loop().time())

    async def _beat(self) -> None:
        self._beaten_s = asyncio.get_running_loop().time()
        # The clock is set before anything is read: when the store fails, the next try comes a second later, not at
        # once.
        beat = _Beat(self._number + 1, self._seq)
        for _ in range(PAGES_MAX):
            page = await self.engine.store.tally_source(self._seq, PAGE_MAX, BY_EVENTS)
            for row in page:
                if row.verdict is None and row.events is None:
                    continue  # most of what is written is beside a decision
                if outcomes := outcomes_in(self.engine.kinds, row):
                    beat.add(row, outcomes)
            self.segments += len(page)
            self._seq = beat.upto = page[-1].seq if page else self._seq
            if len(page) < PAGE_MAX:
                break
            await asyncio.sleep(0)
        self._number = beat.number
        # A frame ends with the last beat, so those that were shared until now serve nobody any more.
        self._frames = {}
        self._keep(beat)

    def _keep(self, beat: _Beat) -> None:
        """Keep a beat, and drop the oldest past the bounds; readers that miss them are told so."""
        self._beats.append(beat)
        self._cells += beat.count_cells()
        while len(self._beats) > 1 and (len(self._beats) > BEATS_KEPT or self._cells > CELLS_MAX):
            self._cells -= self._beats.popleft().count_cells()

    async def share_frame(self, of: Hashable, make: Callable[[], Awaitable[PulseFrame]]) -> bytes:
        """Return the bytes of a frame that ends with the last beat, made once for all who ask for the same."""
        async with self._frame_lock:
            found = self._frames.get(of)
            if found is None:
                found = msgspec.json.encode(await make())
                if len(self._frames) < FRAMES_MAX:
                    self._frames[of] = found
            return found

    async def samples(self, beat: _Beat, tenant: str) -> list[VerdictEvent]:
        """Return verdicts of a tenant in a beat, read once for all its readers."""
        if tenant not in beat.samples:
            seqs = list(beat.seqs.get(tenant, ()))
            found: list[VerdictEvent] = []
            if seqs:
                query = LedgerQuery(tenant=tenant, after=seqs[0] - 1, limit=SAMPLES_MAX)
                for segment in await self.engine.store.ledger(query):
                    found += [event for _, event in DecodedSegment(self.engine, segment).events]
            beat.samples[tenant] = found
        return beat.samples[tenant]

    async def health(self, tenant: str, domains: frozenset[str]) -> BacklogView:
        """Return what is owed to a tenant, looked at every few seconds for all its readers of the same domains."""
        now_s, of = asyncio.get_running_loop().time(), (tenant, domains)
        known = self._health.get(of)
        if known is None or now_s - known[0] >= HEALTH_S:
            known = (now_s, await Fleet(self.engine, Caller(tenant), domains).backlog())
            # Tenants that nobody watches leave, or the table would grow with every tenant that was ever watched.
            self._health = {name: one for name, one in self._health.items() if now_s - one[0] < 10 * HEALTH_S}
            self._health[of] = known
        return known[1]


class PulseFeed:
    """One reader's way through the beats."""

    def __init__(
        self, tail: PulseTail, tenant: str, domains: frozenset[str], filters: FeedFilters, sample: int
    ) -> None:
        self._tail = tail
        self._tenant = tenant
        self._readable = domains
        self._domains = domains if filters.domain is None else domains & {filters.domain}
        self._filters = filters
        self._sample = sample
        self._number = 0
        self._missed = False

    async def start(self, seq: int | None) -> None:
        """Begin now, or after a position that a frame named."""
        if seq is None:
            self._number = await self._tail.number_now()
            return
        self._number = await self._tail.number_at(seq)
        self._missed = self._number < 0
        if self._missed:
            self._number = await self._tail.number_now()

    @property
    def rests_s(self) -> float:
        """How long there is nothing to read."""
        return self._tail.next_in_s

    async def read(self) -> tuple[int, bytes] | None:
        """Return a frame of everything since the last one, as JSON, and its position; `None` before the next beat."""
        beats = await self._tail.after(self._number)
        if not beats:
            return None
        # Numbers have no gaps: a first beat that is not the next one means that some were let go in between.
        missed = self._missed or beats[0].number > self._number + 1
        self._number, self._missed = beats[-1].number, False
        of = (self._tenant, self._readable, self._filters, self._sample, beats[0].number, beats[-1].number, missed)
        return beats[-1].upto, await self._tail.share_frame(of, lambda: self._make_frame(beats, missed))

    async def _make_frame(self, beats: list[_Beat], missed: bool) -> PulseFrame:
        counts: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
        for beat in beats:
            for (kind, outcome, reasons), count in beat.counts.get(self._tenant, {}).items():
                if self._wants(area_of(kind), outcome, reasons):
                    counts[area_of(kind) or "", outcome, reasons] += count
        now: Instant = await self._tail.engine.store.now()
        told: Any = [PulseCount(*name, count) for name, count in counts.most_common()]
        return PulseFrame(
            moment(now),
            len(beats),
            counts.total(),
            told,
            await self._samples(beats) if counts else [],
            missed,
            await self._tail.health(self._tenant, self._readable),
        )

    async def _samples(self, beats: list[_Beat]) -> list[VerdictEvent]:
        found: list[VerdictEvent] = []
        for beat in reversed(beats):
            if len(found) >= self._sample:
                break
            events = await self._tail.samples(beat, self._tenant)
            wanted = [event for event in events if self._wants(event.domain, event.outcome, event.reasons)]
            found = [*wanted, *found][-self._sample :] if self._sample else []
        return found

    def _wants(self, domain: str | None, outcome: str, reasons: tuple[str, ...]) -> bool:
        return domain in self._domains and self._filters.fits(outcome, reasons)
