"""`betimes status`: one screen that says what is decided, what is due, and what is stuck."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Annotated

from cyclopts import Parameter

from betimes.cli.options import TENANT, Tenant
from betimes.cli.output import clear_screen, say, show_json
from betimes.core.errors import Invalid
from betimes.domain.json_view import JsonView
from betimes.ledger.effect_commands import ask_ledger
from betimes.ledger.fleet import BacklogView, ProcessView
from betimes.ledger.service import Ledger
from betimes.ledger.statistics import StatisticsCell

LATE_S = 5.0
"""An alarm that should have rung longer ago is late."""
EVERY_S_MIN = 0.5


class StatusView(JsonView, frozen=True, kw_only=True):
    """The state of a tenant at one instant."""

    now: datetime
    decided_last_hour: dict[str, dict[str, int]]
    """By domain and outcome."""
    backlog: BacklogView
    processes: list[ProcessView]
    late_s: float
    """How late the oldest alarm is."""
    problems: list[str]
    """What somebody should look at, each with the next step."""


def status(
    *,
    watch: Annotated[bool, Parameter(negative=())] = False,
    every_s: float = 2.0,
    at: Tenant = TENANT,
) -> None:
    """Say on one screen what was decided in the last hour, what is due, and what is stuck.

    Parameters
    ----------
    watch
        Show it again and again, until Ctrl-C.
    every_s
        Seconds between two looks, with --watch.
    """
    if every_s < EVERY_S_MIN:
        raise Invalid(f"look at most every {EVERY_S_MIN} s", (("every_s", f"at least {EVERY_S_MIN}"),))

    async def work(ledger: Ledger) -> None:
        while True:
            _show(await read_status(ledger), at, again=watch)
            if not watch:
                return
            await asyncio.sleep(every_s)

    ask_ledger(at, work)


async def read_status(ledger: Ledger) -> StatusView:
    """Return the state of the caller's tenant now."""
    backlog = await ledger.backlog()
    stats = await ledger.stats(
        since=backlog.now - timedelta(hours=1), until=backlog.now, step="1h", by="domain,outcome"
    )
    late_s = max((backlog.now - backlog.oldest_alarm_at).total_seconds(), 0.0) if backlog.oldest_alarm_at else 0.0
    processes = (await ledger.processes()).items
    return StatusView(
        now=backlog.now,
        decided_last_hour=_sum_outcomes(stats.cells),
        backlog=backlog,
        processes=processes,
        late_s=late_s,
        problems=_find_problems(backlog, processes, late_s),
    )


def _sum_outcomes(cells: list[StatisticsCell]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for cell in cells:
        counts[cell.domain or ""][cell.outcome or ""] += cell.count
    return {domain: dict(outcomes) for domain, outcomes in sorted(counts.items())}


def _find_problems(backlog: BacklogView, processes: list[ProcessView], late_s: float) -> list[str]:
    found = []
    if hold := backlog.hold:
        held, until = ", ".join(hold.domains), _spell(hold.until)
        found.append(f"held until {until}: {held} ({hold.reason}); `betimes hold --end` lets them fire again")
    if late_s > LATE_S and not hold:
        is_idle = not any(process.alive for process in processes)
        idle = "; no process works: start betimes serve or worker" if is_idle else ""
        found.append(f"{backlog.alarms_due:,} alarms are due, the oldest for {late_s:,.0f} s{idle}")
    if backlog.snoozed:
        found.append(f"{backlog.snoozed:,} wakes failed and rest; `betimes doctor` names rows that cannot be read")
    if backlog.effects_dead:
        found.append(f"{backlog.effects_dead:,} dead letters: see `betimes effects list --status dead`")
    found += [f"nobody takes {name}: {count:,} calls wait for it" for name, count in sorted(backlog.orphaned.items())]
    return found


def _show(view: StatusView, at: Tenant, *, again: bool) -> None:
    if at.json:
        show_json(view)
        return
    if again:
        clear_screen()
    for line in _lines(view, at.tenant):
        say(line)


def _lines(view: StatusView, tenant: str) -> list[str]:
    backlog = view.backlog
    decided = [f"{domain} {_spell_outcomes(outcomes)}" for domain, outcomes in view.decided_last_hour.items()]
    alive = [process.name for process in view.processes if process.alive]
    more = " or more" if backlog.capped else ""
    return [
        f"{_spell(view.now)}  tenant {tenant}",
        f"  decided   {' · '.join(decided) or 'nothing'} (last hour)",
        f"  alarms    {backlog.alarms_due:,}{more} due, oldest {view.late_s:,.1f} s late, {backlog.snoozed:,} snoozed",
        f"  effects   {backlog.effects_pending:,}{more} pending, {backlog.effects_dead:,} dead letters",
        f"  processes {len(alive)} alive{': ' + ', '.join(alive) if alive else ''}",
        *([f"  ! {problem}" for problem in view.problems] or ["  Nothing is stuck."]),
    ]


def _spell_outcomes(outcomes: dict[str, int]) -> str:
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
    return f"{sum(outcomes.values()):,} ({counts})"


def _spell(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
