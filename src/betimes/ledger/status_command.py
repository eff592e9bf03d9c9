"""`betimes status`: show on one screen what is decided, due and stuck."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated

from cyclopts import Parameter

from betimes.cli.options import TENANT, Tenant, check_zone
from betimes.cli.output import clear_screen, count_noun, say, show_json, spell_moment
from betimes.core.errors import Invalid, MissingScope
from betimes.core.instants import spell_duration
from betimes.domain.json_view import JsonView
from betimes.engine.orphans import spell_start
from betimes.ledger.alarm_lag import AlarmLagView
from betimes.ledger.effect_commands import ask_ledger
from betimes.ledger.fleet import BacklogView, ProcessView
from betimes.ledger.service import Ledger
from betimes.ledger.statistics import StatisticsCell
from betimes.ledger.verifications import VerificationView

LATE_S = 5.0
"""An alarm that should have rung longer ago is late."""
EVERY_S_MIN, EVERY_S_MAX = 0.5, 86_400


class StatusView(JsonView, frozen=True, kw_only=True):
    """The state of a tenant at one instant."""

    now: datetime
    decided_last_hour: dict[str, dict[str, int]]
    """By domain and outcome."""
    backlog: BacklogView
    processes: list[ProcessView] | None
    """`null` if the key may not read them."""
    late_s: float
    """Lateness of the oldest alarm that is due."""
    alarm_lag: AlarmLagView
    """Lateness of alarms in the last 24 hours."""
    verifications: list[VerificationView]
    """The last of the tenant and the last of everything, the later one first."""
    problems: list[str]
    """Problems to look at, each with the next step."""


def status(
    *,
    watch: Annotated[bool, Parameter(negative=())] = False,
    every_s: float = 2.0,
    zone: str = "UTC",
    at: Tenant = TENANT,
) -> None:
    """Show on one screen what was decided in the last hour, what is due, and what is stuck.

    Parameters
    ----------
    watch
        Refresh until Ctrl-C.
    every_s
        Seconds between refreshes, with --watch.
    zone
        Time zone for display.
    """
    if not EVERY_S_MIN <= every_s <= EVERY_S_MAX:
        raise Invalid(f"look at most every {EVERY_S_MIN} s", (("every_s", f"{EVERY_S_MIN} to {EVERY_S_MAX:,}"),))
    check_zone(zone)

    async def work(ledger: Ledger) -> None:
        while True:
            _show(await read_status(ledger), at, zone, again=watch)
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
    processes, health = await _read_processes(ledger), await ledger.health()
    return StatusView(
        now=backlog.now,
        decided_last_hour=_sum_outcomes(stats.cells),
        backlog=backlog,
        processes=processes,
        late_s=late_s,
        alarm_lag=health.alarm_lag,
        verifications=health.verifications,
        problems=_find_problems(backlog, processes, health.verifications, late_s),
    )


async def _read_processes(ledger: Ledger) -> list[ProcessView] | None:
    with suppress(MissingScope):  # a server tells them only to its administrators
        return (await ledger.processes()).items
    return None


def _sum_outcomes(cells: list[StatisticsCell]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for cell in cells:
        counts[cell.domain or ""][cell.outcome or ""] += cell.count
    return {domain: dict(outcomes) for domain, outcomes in sorted(counts.items())}


def _find_problems(
    backlog: BacklogView, processes: list[ProcessView] | None, verified: list[VerificationView], late_s: float
) -> list[str]:
    found = []
    if hold := backlog.hold:
        held, until = ", ".join(hold.domains), spell_moment(hold.until, "UTC")
        found.append(f"held until {until}: {held} ({hold.reason}); `betimes hold --end` lets them fire again")
    if late_s > LATE_S and not hold:
        is_idle = processes is not None and not any(process.alive for process in processes)
        idle = "; no process is running: start betimes serve or worker" if is_idle else ""
        due = count_noun(backlog.alarms_due, "alarm is", "alarms are")
        found.append(f"{due} due, the oldest for {spell_duration(round(late_s))}{idle}")
    if backlog.oldest_check_at and not hold:
        overdue = count_noun(backlog.checks_overdue, "check of an intent is", "checks of intents are")
        span = spell_duration(round((backlog.now - backlog.oldest_check_at).total_seconds()))
        found.append(
            f"{overdue} due and no worker takes them, the oldest for {span}: `betimes intent pending` lists them, "
            "`betimes why <intent>` says which source or channel is missing"
        )
    if backlog.snoozed:
        failed = count_noun(backlog.snoozed, "wake failed and is snoozed", "wakes failed and are snoozed")
        found.append(f"{failed}; `betimes doctor` names rows that cannot be read")
    if backlog.effects_failing:
        failing = count_noun(backlog.effects_failing, "call failed and is", "calls failed and are")
        found.append(f"{failing} retried: see last_error in `betimes effects list --status pending`")
    if backlog.effects_dead:
        found.append(f"{count_noun(backlog.effects_dead, 'dead letter')}: see `betimes effects list --status dead`")
    for name, count in sorted(backlog.orphaned.items()):
        waiting = count_noun(count, "call waits", "calls wait")
        found.append(f"no process has {name}: {waiting} for one that does; start {spell_start(name)}")
    found += [f"{last.findings:,} not as the ledger says; run `betimes verify`" for last in verified if not last.sound]
    return found


def _show(view: StatusView, at: Tenant, zone: str, *, again: bool) -> None:
    if at.json:
        show_json(view)
        return
    if again:
        clear_screen()
    served = at.target
    # A server takes the tenant from the key, whatever is named here.
    whose = f"{served.url}, tenant of the key" if served.url and served.key else f"tenant {at.tenant}"
    for line in _lines(view, whose, zone):
        say(line)


def _lines(view: StatusView, whose: str, zone: str) -> list[str]:
    backlog = view.backlog
    decided = [f"{domain} {_spell_outcomes(outcomes)}" for domain, outcomes in view.decided_last_hour.items()]
    more = " or more" if backlog.capped else ""
    pending = f"{backlog.effects_pending:,}{more} pending, {backlog.effects_failing:,} of them failing"
    late = f"oldest {_spell_late(view.late_s)} late"
    return [
        f"{spell_moment(view.now, zone)}  {whose}",
        f"  decided   {' · '.join(decided) or 'nothing'} (last hour)",
        f"  alarms    {backlog.alarms_due:,}{more} due, {late}, {backlog.snoozed:,} snoozed",
        f"  rang      {_spell_lag(view.alarm_lag)}",
        f"  effects   {pending}, {count_noun(backlog.effects_dead, 'dead letter')}",
        f"  processes {_spell_processes(view.processes)}",
        f"  verified  {_spell_verification(view.verifications, zone)}",
        *([f"  ! {problem}" for problem in view.problems] or ["  Nothing is stuck."]),
    ]


def _spell_processes(processes: list[ProcessView] | None) -> str:
    if processes is None:
        return "not known: the key lacks the scope admin"
    alive = [process.name for process in processes if process.alive]
    return f"{len(alive)} alive{': ' + ', '.join(alive) if alive else ''}"


def _spell_late(late_s: float) -> str:
    return spell_duration(round(late_s)) if late_s >= 60 else f"{late_s:,.3g} s"


def _spell_lag(lag: AlarmLagView) -> str:
    if lag.p50_ms is None or lag.p99_ms is None or lag.max_ms is None:
        return "nothing (last 24 hours)"
    half, most, latest = (_spell_late(ms / 1_000) for ms in (lag.p50_ms, lag.p99_ms, lag.max_ms))
    return f"{lag.alarms:,}: half within {half}, 99 of 100 within {most}, the latest {latest} late (last 24 hours)"


def _spell_verification(verified: list[VerificationView], zone: str) -> str:
    if not verified:
        return "never, according to the ledger; run `betimes verify`"
    last = verified[0]
    what = f"{'all tenants' if last.everything else 'this tenant'}{f', kind {last.kind}' if last.kind else ''}"
    result = "sound" if last.sound else count_noun(last.findings, "finding")
    return f"{spell_moment(last.at, zone)} by {last.by}, {what}: {result}"


def _spell_outcomes(outcomes: dict[str, int]) -> str:
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
    return f"{sum(outcomes.values()):,} ({counts})"
