"""Health: whether a tenant's alarms rang on time, what is pending and for whom, and when its ledger was verified."""

from __future__ import annotations

from datetime import datetime

from betimes.core.datetimes import moment
from betimes.domain.json_view import JsonView
from betimes.ledger.alarm_lag import AlarmLag, AlarmLagView
from betimes.ledger.fleet import ExecutorView, Fleet
from betimes.ledger.verifications import Verifications, VerificationView


class HealthView(JsonView, frozen=True, kw_only=True):
    now: datetime
    alarm_lag: AlarmLagView
    """Lateness of alarms in the last 24 hours."""
    executors: list[ExecutorView]
    """Executors with pending effects, the one with the most first; of the first 50 by name."""
    verifications: list[VerificationView]
    """The last verification of the tenant's streams and the last of all tenants', the later one first."""


class Health(Fleet, AlarmLag, Verifications):
    """Says how a tenant's work goes."""

    async def health(self) -> HealthView:
        """Return how late alarms rang, what is pending by executor, and when the ledger was last verified.

        A wake counts from its alarm, or from the end of the hold that kept it. The p50 and p99 are upper bounds, to
        about a factor of two; counts of other processes from the last ten seconds are missing. Effects are counted
        along an index, for each executor up to a bound. Verifications are those that `betimes verify` put on record.
        """
        return HealthView(
            now=moment(await self.engine.store.now()),
            alarm_lag=await self.alarm_lag(),
            executors=await self.executors(),
            verifications=await self.verifications(),
        )
