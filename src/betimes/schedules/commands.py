"""`betimes schedule …`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from msgspec.structs import replace

from betimes.cli.definitions import DefinitionCommands
from betimes.cli.options import (
    NOTED,
    PAGING,
    TENANT,
    WRITABLE,
    Noted,
    Paging,
    Tenant,
    Writable,
    for_tenant,
    show_answer,
)
from betimes.cli.output import show, show_json
from betimes.core.checks import check_value
from betimes.core.instants import parse_seconds
from betimes.domain.run_briefs import RunBrief
from betimes.schedules.views import PreviewRequest, Tick

TICK_COLUMNS = (
    *("scheduled_for", "status", "cause", "reason", "count"),
    *("run_id", "run", "attempts", "next_attempt_at", "error"),
)

ScheduleName = Annotated[str, Parameter(help="The schedule.")]
Every = Annotated[str | None, Parameter(help="Instead of an expression: an interval of real time, such as 15m.")]
Anchor = Annotated[
    str | None, Parameter(help="The instant the interval is counted from; 1970-01-01T00:00:00Z by default.")
]
Excluded = Annotated[
    list[str],
    Parameter(help="A local day on which nothing ticks, such as 2026-12-25 or SAT; may be repeated.", negative=()),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ScheduleFilters:
    """The options of `betimes schedule list`."""

    status: Literal["active", "paused", "ended", "error"] | None = None
    """Only these: active, paused, ended or error."""


schedule = DefinitionCommands(
    noun="schedule",
    service=lambda services: services.schedules,
    columns=("schedule_id", "cron", "timezone", "status", "next_tick_at", "last_error"),
    filters=ScheduleFilters,
).app()


@schedule.command
def trigger(schedule_id: str, /, *, at: Noted = NOTED) -> None:
    """Make a schedule tick now, whatever its status."""
    show_answer(at, lambda bt: bt.schedules.trigger(schedule_id))


@schedule.command
def ticks(
    schedule_id: ScheduleName,
    /,
    *,
    status: Literal["fired", "skipped", "failed"] | None = None,
    paging: Paging = PAGING,
    at: Tenant = TENANT,
) -> None:
    """List the ticks of a schedule that were fired, skipped or failed, newest first.

    Parameters
    ----------
    status
        Only these: fired, skipped or failed.
    """
    page = for_tenant(at, lambda bt: bt.schedules.ticks(schedule_id, status=status, **vars(paging)))
    if at.json:
        show_json(page)
        return
    lines = [_tick_line(tick) for tick in page.items]
    # Most ticks have neither been skipped nor failed, and a narrow table can be read.
    columns = [name for name in TICK_COLUMNS if any(line[name] is not None for line in lines)]
    show(replace(page, items=lines), json=False, columns=columns, empty="No ticks yet.")


def _tick_line(tick: Tick) -> dict[str, Any]:
    """Return a tick as a line of a table, with how its run goes."""
    run = tick.run or RunBrief("", None)
    return {
        "scheduled_for": tick.scheduled_for,
        "status": tick.status,
        "cause": tick.cause,
        "reason": tick.reason,
        "count": tick.count,
        "run_id": tick.run_id,
        "run": run.status or None,
        "attempts": run.attempts or None,
        "next_attempt_at": run.next_attempt_at,
        "error": tick.error or run.error,
    }


@schedule.command
def preview(
    *cron: Annotated[str, Parameter(help="Five fields, or six with seconds first; several may be given.")],
    every: Every = None,
    anchor: Anchor = None,
    exclude: Excluded = [],  # noqa: B006 — never changed
    timezone: Annotated[str, Parameter(alias="--tz", help="The zone its times are in.")] = "UTC",
    start: Annotated[str | None, Parameter(help="The instant to start from; now by default.")] = None,
    count: Annotated[int, Parameter(help="How many ticks to show, up to 100.")] = 5,
    at: Writable = WRITABLE,
) -> None:
    """Show when expressions or an interval tick next, in UTC and local time, without saving anything."""
    body = {
        "cron": cron or None,
        "every": {"seconds": parse_seconds(every), "anchor": anchor} if every else None,
        "exclude": _exclude_body(exclude) if exclude else None,
        "from": start,
        "timezone": timezone,
        "count": count,
    }
    request = check_value(body, PreviewRequest)
    preview = for_tenant(at, lambda bt: bt.schedules.preview(request), else_memory=True)
    show(preview, json=at.json, columns=("scheduled_for", "local"), empty="It never ticks.")


def _exclude_body(days: list[str]) -> dict[str, list[str]]:
    """Return the days as a request sends them: dates, which begin with a digit, apart from names of weekdays."""
    dates = [day for day in days if day[:1].isdigit()]
    return {"dates": dates, "weekdays": [day.upper() for day in days if day not in dates]}
