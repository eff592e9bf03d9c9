"""The stream `backtests`, one a tenant: which backtests were asked for, how far they are, how they ended.

States hold no bodies: what was asked is in the segment that asked, the report in the one that ended it. One is under
way at a time, and the last few are kept.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from betimes.core.instants import Instant
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import StreamId
from betimes.domain.struct_forms import From

KIND = "backtests"
EXECUTOR = "backtest"
"""The executor of a backtest."""
KEPT_MAX = 20
LEASE_S = 60
"""A process without a heartbeat for so long has ended; so has its backtest."""

Status: TypeAlias = Literal["queued", "running", "done", "failed"]


def backtests_stream(tenant: str) -> StreamId:
    return StreamId(tenant, KIND, tenant)


class AskBacktest(StoredMessage):
    backtest_id: str
    candidates: tuple[str, ...]
    """The names of the policies."""
    plan: dict[str, Any]
    """The request, as its executor reads it."""
    since_at: Instant | None = None
    until_at: Instant | None = None
    domain: str | None = None


class ReportProgress(StoredMessage):
    """It has come so far; first of all, it has begun."""

    backtest_id: str
    percent: int


class DropBacktest(StoredMessage):
    """Forget it; one that is under way is stopped."""

    backtest_id: str


class BacktestOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of the call: a report, or why there is none."""

    report: dict[str, Any] | None = None
    code: str = ""
    message: str = ""


class BacktestAsked(StoredMessage):
    backtest_id: str
    version: int
    """Of the segment that asked, which names the call too."""
    candidates: tuple[str, ...]
    at: Instant
    since_at: Instant | None = None
    until_at: Instant | None = None
    domain: str | None = None


class BacktestProgressed(StoredMessage):
    backtest_id: str
    percent: int
    at: Instant


class BacktestFinished(StoredMessage):
    backtest_id: str
    version: int
    """Of the segment that holds the report."""
    at: Instant


class BacktestFailed(StoredMessage):
    backtest_id: str
    code: str
    message: str
    at: Instant


class BacktestDropped(StoredMessage):
    backtest_id: str
    at: Instant


class RequestedBacktest(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One backtest."""

    backtest_id: str
    version: int
    candidates: tuple[str, ...]
    asked_at: Annotated[Instant, From("at")]
    since_at: Instant | None = None
    until_at: Instant | None = None
    domain: str | None = None
    status: Status = "queued"
    percent: int = 0
    started_at: Instant | None = None
    finished_at: Instant | None = None
    report_version: int | None = None
    code: str = ""
    message: str = ""

    @property
    def is_under_way(self) -> bool:
        return self.status in ("queued", "running")


class BacktestsState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    asked: tuple[RequestedBacktest, ...] = ()
    """The oldest first."""

    def get(self, backtest_id: str) -> RequestedBacktest | None:
        return next((asked for asked in self.asked if asked.backtest_id == backtest_id), None)


Commands: TypeAlias = AskBacktest | ReportProgress | DropBacktest
Events: TypeAlias = BacktestAsked | BacktestProgressed | BacktestFinished | BacktestFailed | BacktestDropped
