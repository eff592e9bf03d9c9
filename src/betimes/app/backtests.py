"""Backtests of an open application: in this process, or in as many as there are cores.

A process reads the whole ledger and rehearses its own part of the streams. They talk over standard input and output, so
that a backtest can be started from any program, one with its own event loop or threads included.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from betimes.backtest.lockstep import Lockstep, PartResult
from betimes.backtest.part_runner import Progress, rehearse_part
from betimes.backtest.partition import (
    Entangled,
    Lookout,
    Parts,
    choose_groups,
    entangled_tenants,
    sample_parts,
    split_links,
    survey_links,
)
from betimes.backtest.plan import Plan
from betimes.backtest.plan_builder import in_force
from betimes.backtest.report import BacktestReport, build_report
from betimes.backtest.speed import SPEED
from betimes.backtest.traffic import Reach, last_seq, reach_of
from betimes.catalogue import AREAS
from betimes.core.errors import BetimesError, Fault, Invalid, Refused
from betimes.engine.engine import Engine
from betimes.engine.settings import EngineSettings

if TYPE_CHECKING:
    from betimes.app.betimes import Betimes

SPLIT_FROM = 20_000
"""Segments from which on it is worth starting processes, unless a number of them is asked for."""
PROCESSES_MAX = 256
"""Each reads the whole ledger."""
LINE_MAX = 256 * 1024 * 1024
"""Bytes of one result."""
WHOLE_AGAIN_MAX = 100
"""How often tenants may be found to hang together after all."""


class Task(msgspec.Struct, frozen=True):
    """The task of a process."""

    url: str
    plan: Plan
    reach: Reach
    parts: Parts
    part: int
    settings: EngineSettings


class PartMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line that a process writes."""

    progress: float = 0.0
    result: PartResult | None = None
    entangled: str = ""
    refused: tuple[str, str] | None = None
    """Reason and message."""


_said = msgspec.json.Decoder(PartMessage)


async def run_backtest(bt: Betimes, plan: Plan, jobs: int | None, progress: Progress | None) -> BacktestReport:
    """Rehearse the recorded traffic under every candidate of the plan."""
    engine, tell = bt.engine, progress or (lambda share: None)
    plan.check(engine.book, AREAS, await in_force(engine, None))
    count = await _processes(bt, jobs)
    if plan.sample is not None:
        return await _run_sample(bt, plan, count, tell)
    began_s = monotonic()
    if count == 1:
        parts: Sequence[PartResult] = [await _rehearse_here(engine, plan, tell)]
    else:
        parts = await _run_in_parts(bt, plan, count, tell)
    report = build_report(plan, parts, engine.kinds)
    took_s = (monotonic() - began_s) * count
    SPEED.note(report.segments, report.commands * (1 + len(plan.candidates)), took_s)
    return report


async def _run_sample(bt: Betimes, plan: Plan, count: int, progress: Progress) -> BacktestReport:
    """Rehearse a part of the subjects; raise `Refused` if a candidate ties them to others."""
    engine = bt.engine
    assert plan.sample is not None
    reach = await reach_of(engine.store, plan.tenant, plan.since_at, plan.until_at)
    links = await survey_links(engine.store, engine.kinds, plan)
    chosen = choose_groups(links, engine.kinds, plan.sample)
    parts = sample_parts(links, chosen)
    entangled: set[str] = set()
    results: Sequence[PartResult] = []
    if count == 1:
        try:
            results = [await _rehearse_here(engine, plan, progress, reach, Lookout(parts, 0))]
        except Entangled as error:
            entangled = {error.tenant}
    else:
        results, entangled = await _run_tasks([Task(bt.url, plan, reach, parts, 0, engine.settings)], progress)
    if entangled:
        message = "under a policy that is tried, subjects of the sample hang together with others; try it on everybody"
        raise Refused("SAMPLE_ENTANGLED", message)
    return build_report(plan, results, engine.kinds, chosen.report)


async def _processes(bt: Betimes, jobs: int | None) -> int:
    if jobs is not None and not 1 <= jobs <= PROCESSES_MAX:
        raise Invalid(f"jobs is {jobs}; it must be from 1 to {PROCESSES_MAX}", (("jobs", f"1 to {PROCESSES_MAX}"),))
    # Another process would open a store of its own, and find it empty.
    if bt.url.startswith("memory:"):
        return 1
    if jobs is not None:
        return jobs
    return len(os.sched_getaffinity(0)) if await last_seq(bt.engine.store) >= SPLIT_FROM else 1


async def _rehearse_here(
    engine: Engine, plan: Plan, progress: Progress, reach: Reach | None = None, lookout: Lookout | None = None
) -> PartResult:
    """Rehearse a part, or all, in this process."""
    lockstep = Lockstep(engine.kinds, engine.book, engine.settings, plan, lookout=lookout)
    result = await rehearse_part(engine.store, lockstep, reach, progress)
    # As it would come from another process, so that the number of processes makes no difference.
    return msgspec.json.decode(msgspec.json.encode(result), type=PartResult)


async def _run_in_parts(bt: Betimes, plan: Plan, count: int, progress: Progress) -> Sequence[PartResult]:
    engine = bt.engine
    reach = await reach_of(engine.store, plan.tenant, plan.since_at, plan.until_at)
    links = await survey_links(engine.store, engine.kinds, plan)
    whole: set[str] = set()
    for _ in range(WHOLE_AGAIN_MAX):
        parts = split_links(links, count, whole)
        tasks = [Task(bt.url, plan, reach, parts, part, engine.settings) for part in range(count)]
        results, entangled = await _run_tasks(tasks, progress)
        entangled |= entangled_tenants(results)
        if not entangled:
            return results
        # Kept for all rounds to come: the tenants that hang together only grow, so this ends.
        whole |= entangled
    raise Fault("the streams of the tenants could not be separated; run it with jobs=1")


async def _run_tasks(tasks: Sequence[Task], progress: Progress) -> tuple[list[PartResult], set[str]]:
    shares = [0.0] * len(tasks)

    def note_share(part: int, share: float) -> None:
        shares[part] = share
        progress(sum(shares) / len(shares))

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(_run_task(task, note_share)) for task in tasks]
    except* BetimesError as failed:
        raise failed.exceptions[0] from None
    said = [one.result() for one in running]
    return [one.result for one in said if one.result], {one.entangled for one in said if one.entangled}


async def _run_task(task: Task, progress: Callable[[int, float], None]) -> PartMessage:
    """Start a process for one part and wait for its last message."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "betimes.app.backtest_part", stdin=PIPE, stdout=PIPE, limit=LINE_MAX
    )
    try:
        return await _read_messages(process, task, progress)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _read_messages(process: Process, task: Task, progress: Callable[[int, float], None]) -> PartMessage:
    assert process.stdin
    assert process.stdout
    process.stdin.write(msgspec.json.encode(task))
    await process.stdin.drain()
    # The other side reads to the end of its input.
    process.stdin.close()
    async for line in process.stdout:
        said = _said.decode(line)
        if said.refused:
            raise Refused(*said.refused)
        if said.result or said.entangled:
            return said
        progress(task.part, said.progress)
    raise Fault(f"the process that rehearsed part {task.part} ended without an answer (exit {await process.wait()})")
