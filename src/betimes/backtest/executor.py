"""The executor of backtests: makes one that was asked for, tells how far it is, and stops when nobody waits for it.

A process makes a few at a time, each of another tenant, and takes no other meanwhile; they are queued for as long, so
that a tenant with a long history does not keep those of all others waiting. The report is the result of the
call, and so is a refusal: either is recorded in the commit that ends the call. A process that is told to stop gives
back what it has not finished, and another begins it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from betimes.backtest.jobs import BacktestRequest, plan_of, segment_of
from betimes.backtest.model import AskBacktest, BacktestOutcome, ReportProgress
from betimes.backtest.plan import Plan
from betimes.backtest.report import BacktestReport, CandidateReport
from betimes.core.canonical import encode
from betimes.core.deciders import EffectCall
from betimes.core.errors import BetimesError, NotFound, Refused, TooLarge
from betimes.engine.effects import BoundedExecutor, Executor, NotStarted
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission

ENVELOPE_CHARS = 2_000
"""Characters of a segment besides the report."""
TELL_S = 1.0
TELL_PERCENT = 5
"""Progress is recorded at most so often, and only in such steps."""
BACKTESTS_MAX = 3
"""How many a process makes at once, each of another tenant: a long one takes a third of the time of those that wait."""
PROCESSES = 2
"""How many it is made in, so that this one goes on with its own work; with a store in memory, in this one alone."""
_commands = msgspec.json.Decoder(AskBacktest)


class Rehearse(Protocol):
    """Runs a plan on an application."""

    def __call__(
        self, plan: Plan, *, jobs: int | None = None, progress: Callable[[float], None] | None = None
    ) -> Awaitable[BacktestReport]: ...


def backtester(engine: Callable[[], Engine], rehearse: Rehearse, *, tell_s: float = TELL_S) -> Executor:
    """Return the executor of backtests: a few at a time in a process, so that many tenants leave other calls room."""

    async def carry_out(call: EffectCall) -> Any:
        job = BacktestJob(engine(), call, tell_s)
        try:
            return msgspec.to_builtins(await job.carry_out(rehearse))
        except asyncio.CancelledError:
            # It changes nothing, so it may be begun again, which is up to whoever takes it next.
            raise NotStarted("the process that made it stopped; it begins again", (0.0,)) from None

    return BoundedExecutor(carry_out, BACKTESTS_MAX)


class BacktestJob:
    """One backtest being made."""

    def __init__(self, engine: Engine, call: EffectCall, tell_s: float) -> None:
        self._engine = engine
        self._tell_s = tell_s
        self._stream = call.id.source
        self._version = call.id.version
        self._id: str = call.payload["backtest_id"]
        self._share = 0.0
        self._told = -1

    async def carry_out(self, rehearse: Rehearse) -> BacktestOutcome:
        """Run the backtest and return its outcome; a refusal is an outcome like others."""
        try:
            if not await self._tell(0):
                return BacktestOutcome(code="DROPPED", message="nobody waits for it any more")
            plan = await self._plan()
            report = await self._watch(rehearse(plan, jobs=PROCESSES, progress=self._note_progress))
            return BacktestOutcome(fitting(report, self._engine.settings.effect_chars_max - ENVELOPE_CHARS))
        except BetimesError as error:
            return BacktestOutcome(code=error.reason if isinstance(error, Refused) else error.code, message=str(error))

    async def _plan(self) -> Plan:
        segment = await segment_of(self._engine.store, self._stream, self._version)
        command = segment and segment.command and _commands.decode(segment.command)
        if not command:
            raise NotFound("what was asked went with the history that was pruned; ask again")
        return await plan_of(self._engine, self._stream.tenant, msgspec.convert(command.plan, BacktestRequest))

    def _note_progress(self, share: float) -> None:
        self._share = share

    async def _watch(self, work: Awaitable[BacktestReport]) -> BacktestReport:
        """Wait for the report and record progress; stop the work if the backtest was dropped."""
        making = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({making}, timeout=self._tell_s))[0]:
                if not await self._tell(int(self._share * 100) // TELL_PERCENT * TELL_PERCENT):
                    raise Refused("DROPPED", "nobody waits for it any more")
            return await making
        finally:
            # Waited for as well, so that nothing goes on behind a backtest that is over.
            making.cancel()
            with suppress(asyncio.CancelledError, BetimesError):
                await making

    async def _tell(self, percent: int) -> bool:
        """Record progress; return whether the backtest is still wanted."""
        if percent <= self._told:
            # There is nothing new to record; this only asks whether it was dropped.
            [state] = await self._engine.load_states(self._stream)
            found = state.get(self._id) if state else None
            return bool(found and found.is_under_way)
        try:
            await self._engine.submit(
                Submission(stream=self._stream, command=ReportProgress(self._id, percent), actor="backtest")
            )
        except Refused:
            return False
        self._told = percent
        return True


def fitting(report: BacktestReport, chars_max: int) -> dict[str, Any]:
    """Return the report as data, with as many changed answers of each candidate as fit; raise `TooLarge` otherwise."""
    each = max((len(candidate.samples) for candidate in report.candidates), default=0)
    while len(encode(report)) > chars_max:
        if not each:
            raise TooLarge(f"the report is over {chars_max:,} characters; try fewer policies at once")
        each //= 2
        report = replace(report, candidates=[_fewer(candidate, each) for candidate in report.candidates])
    data: dict[str, Any] = msgspec.to_builtins(report)
    return data


def _fewer(candidate: CandidateReport, most: int) -> CandidateReport:
    """Keep at most so many samples, evenly spread over the window."""
    samples = candidate.samples
    if len(samples) <= most:
        return candidate
    return replace(candidate, samples=[samples[place * len(samples) // most] for place in range(most)])
