"""`betimes schedule …`."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from betimes.cli.definitions import add_definition_commands
from betimes.cli.documents import File, document
from betimes.cli.options import Tenant, for_tenant
from betimes.cli.output import show
from betimes.core.checks import check_value
from betimes.core.instants import parse_seconds
from betimes.schedules.recurrence_views import PreviewRequest
from betimes.schedules.service import schedule_request

app = App(name="schedule", help="Schedules.", help_format="plaintext")
add_definition_commands(app, "schedule", lambda services: services.schedules)


@app.command(name="list")
def list_(
    *,
    status: Literal["active", "paused", "ended", "error"] | None = None,
    limit: int = 50,
    cursor: str | None = None,
    at: Tenant = Tenant(),  # noqa: B008
) -> None:
    """Schedules, the last created first.

    Parameters
    ----------
    status
        Only these: active, paused, ended or error.
    limit
        How many to show, up to 200.
    cursor
        Where to go on.
    """
    page = for_tenant(at, lambda bt: bt.schedules.list(status=status, limit=limit, cursor=cursor))
    columns = ("schedule_id", "cron", "timezone", "status", "next_tick_at", "last_error")
    show(page, json=at.json, columns=columns, empty="No schedules.")


@app.command
def put(schedule_id: str, file: File, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Create or replace a schedule.

    Parameters
    ----------
    schedule_id
        Its id.
    file
        Its definition, as JSON, TOML or YAML; '-' reads JSON from standard input.
    """
    request = schedule_request(document(file))
    show(for_tenant(at, lambda bt: bt.schedules.put(schedule_id, request)), json=at.json)


@app.command
def trigger(schedule_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Let a schedule tick now, whatever its status."""
    show(for_tenant(at, lambda bt: bt.schedules.trigger(schedule_id)), json=at.json)


@app.command
def ticks(
    schedule_id: str,
    /,
    *,
    status: Literal["fired", "skipped", "failed"] | None = None,
    limit: int = 50,
    cursor: str | None = None,
    at: Tenant = Tenant(),  # noqa: B008 — frozen
) -> None:
    """What was fired, skipped or failed, newest first.

    Parameters
    ----------
    schedule_id
        The schedule.
    status
        Only these: fired, skipped or failed.
    limit
        How many to show, up to 200.
    cursor
        Where to go on.
    """
    page = for_tenant(at, lambda bt: bt.schedules.ticks(schedule_id, status=status, limit=limit, cursor=cursor))
    columns = ("scheduled_for", "status", "cause", "reason", "count", "run_id", "error")
    show(page, json=at.json, columns=columns, empty="No ticks yet.")


@app.command
def preview(
    *cron: str,
    every: str | None = None,
    anchor: str | None = None,
    exclude: Annotated[list[str], Parameter(negative=())] = [],  # noqa: B006 — never changed
    timezone: str = "UTC",
    start: str | None = None,
    count: int = 5,
    at: Tenant = Tenant(),  # noqa: B008 — frozen
) -> None:
    """When expressions or an interval tick next, in UTC and local time, without saving anything.

    Parameters
    ----------
    cron
        Five fields, or six with seconds first; several may be given.
    every
        Instead of an expression: an interval of real time, such as 15m.
    anchor
        The instant the interval is counted from; 1970-01-01T00:00:00Z by default.
    exclude
        A local day on which nothing ticks, such as 2026-12-25 or SAT; may be repeated.
    timezone
        The zone its times are in.
    start
        The instant to start from; now by default.
    count
        How many ticks to show, up to 100.
    """
    body = {
        "cron": cron or None,
        "every": {"seconds": parse_seconds(every), "anchor": anchor} if every else None,
        "exclude": _excluded(exclude) if exclude else None,
        "from": start,
        "timezone": timezone,
        "count": count,
    }
    request = check_value(body, PreviewRequest)
    preview = for_tenant(at, lambda bt: bt.schedules.preview(request))
    show(preview, json=at.json, columns=("scheduled_for", "local"), empty="It never ticks.")


def _excluded(days: list[str]) -> dict[str, list[str]]:
    """Return dates, which begin with a digit, and names of weekdays apart."""
    dates = [day for day in days if day[:1].isdigit()]
    return {"dates": dates, "weekdays": [day.upper() for day in days if day not in dates]}
