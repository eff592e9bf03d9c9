"""Wakes that fail: each rests beside its stream's state, longer with every failure in a row."""

from __future__ import annotations

from betimes.core.errors import BetimesError, StoreError
from betimes.core.instants import seconds
from betimes.core.streams import StreamId
from betimes.engine.reports import Report, Reporter, storable_text
from betimes.engine.settings import EngineSettings
from betimes.engine.store import Store

FAILURES_REMEMBERED_MAX = 10_000
SNOOZE_ERROR_CHARS_MAX = 500
"""Of what is kept of a failed wake's error."""


class WakeFailures:
    """How often wakes have failed in a row, by stream, as far as this process knows."""

    def __init__(self, store: Store, settings: EngineSettings, report: Reporter) -> None:
        self._store = store
        self._settings = settings
        self._report = report
        self.counts: dict[StreamId, int] = {}
        """Empty as a rule, which spares whoever looks a call for every command."""

    def forget(self, stream: StreamId) -> None:
        """Count from the beginning: once it has worked, the next failure is the first again and rests the shortest."""
        self.counts.pop(stream, None)

    async def snooze(self, stream: StreamId, error: BetimesError) -> None:
        """Let a stream's alarm rest, unless the stream has moved on."""
        # Forgetting only shortens the next rests, so a crude bound will do.
        if len(self.counts) >= FAILURES_REMEMBERED_MAX:
            self.counts.clear()
        count = self.counts[stream] = self.counts.get(stream, 0) + 1
        rest_s = min(self._settings.snooze_min_s * 2 ** (count - 1), self._settings.snooze_max_s)
        try:
            row = (await self._store.load([stream])).get(stream)
            # The version is compared: a stream that moved since has another alarm, which this error is not about.
            if row:
                until = await self._store.now() + seconds(rest_s)
                await self._store.snooze(stream, row.version, until, storable_text(str(error), SNOOZE_ERROR_CHARS_MAX))
        except StoreError as failure:
            self._report(Report("snooze_failed", str(stream), failure))
