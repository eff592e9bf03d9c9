"""How late the alarms of a tenant rang in the last 24 hours, hour by hour, as all processes together counted it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import accumulate

from betimes.core.instants import HOUR, SECOND
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.engine.read_model import AlarmLagEntry
from betimes.ledger.reader import LedgerReader

HOURS = 24
_MS = SECOND // 1_000


class LagView(JsonView, frozen=True, kw_only=True):
    """How late some alarms rang."""

    alarms: int
    """Number of alarms that rang."""
    p50_ms: float | None
    """Median lateness, as an upper bound; `null` if none rang."""
    p99_ms: float | None
    max_ms: float | None
    """The maximum lateness."""


class HourlyLag(LagView, frozen=True, kw_only=True):
    at: datetime
    """The beginning of the hour, in UTC."""


class AlarmLagView(LagView, frozen=True, kw_only=True):
    since: datetime
    until: datetime
    """Not included: the end of the hour that is not over yet."""
    hours: list[HourlyLag]
    """The oldest first; hours in which nothing rang are among them."""


class AlarmLag(LedgerReader):
    """Says how late alarms rang."""

    async def alarm_lag(self) -> AlarmLagView:
        """Return how late the tenant's alarms rang in the last 24 hours, by the hour."""
        until_at = await self.engine.store.now() // HOUR * HOUR + HOUR
        since_at = until_at - HOURS * HOUR
        found = await self.engine.store.alarm_lags(self.caller.tenant, since_at, until_at)
        found += [one for one in self.engine.alarm_lag.unwritten(self.caller.tenant) if since_at <= one.at < until_at]
        hours = [
            derive(HourlyLag, sum_up(one for one in found if one.at == at), at=at)
            for at in range(since_at, until_at, HOUR)
        ]
        return derive(AlarmLagView, sum_up(found), since=since_at, until=until_at, hours=hours)


def sum_up(entries: Iterable[AlarmLagEntry]) -> LagView:
    """Return how late the alarms of some entries rang, all together."""
    by_bound = sorted(entries, key=lambda entry: entry.bound)
    if not by_bound:
        return LagView(alarms=0, p50_ms=None, p99_ms=None, max_ms=None)
    most = max(entry.most for entry in by_bound)
    # The latest of all is known exactly, so no bound beyond it is named.
    p50, p99 = (min(_bound_of(by_bound, share), most) for share in (0.5, 0.99))
    alarms = sum(entry.total for entry in by_bound)
    return LagView(alarms=alarms, p50_ms=p50 / _MS, p99_ms=p99 / _MS, max_ms=most / _MS)


def _bound_of(entries: list[AlarmLagEntry], share: float) -> int:
    """Return the bound that this share of all kept; the entries are in its order."""
    wanted = share * sum(entry.total for entry in entries)
    reached = accumulate(entry.total for entry in entries)
    return next(entry.bound for entry, count in zip(entries, reached, strict=True) if count >= wanted)
