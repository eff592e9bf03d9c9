"""`betimes score …`, and `betimes sweep`, which applies all decay that is due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import App, Parameter

from betimes.cli.bootstrap import Application
from betimes.cli.options import AT, EVERYBODY, PAGING, TENANT, At, Paging, Tenant, on, show_answer
from betimes.cli.output import progress, show
from betimes.cli.passes import demand_real_time
from betimes.domain.service import Caller
from betimes.scores.sweep import SweepRequest, SweepResult
from betimes.scores.views import HistoryType

score = App(name="score", help="Scores.", help_format="plaintext")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """The filters of `betimes score list`, named like those of the service."""

    game_status: str | None = None
    """Only those with this status."""
    chapter: str | None = None
    """Only those of this stage."""
    overdue: bool | None = None
    """Only those whose grace period is over, or only those whose grace period is not."""


@score.command(name="list")
def list_scores(*, where: ScoreOptions = ScoreOptions(), paging: Paging = PAGING, at: Tenant = TENANT) -> None:  # noqa: B008 — frozen
    """List scores, newest first."""
    columns = ("user_id", "score", "effective_score", "game_status", "chapter", "grace_ends_at", "hours_overdue")
    show_answer(at, lambda bt: bt.scores.list(**vars(where), **vars(paging)), columns=columns, empty="No scores.")


@score.command(name="show")
def show_score(user_id: str, /, *, at: Tenant = TENANT) -> None:
    """Show one score, and its forecast without activity."""
    show_answer(at, lambda bt: bt.scores.get(user_id))


@score.command
def history(
    user_id: str, /, *, event_type: HistoryType | None = None, paging: Paging = PAGING, at: Tenant = TENANT
) -> None:
    """List the history of a score, newest first.

    Parameters
    ----------
    event_type
        Only these: created, interaction, decay, decay_game_over, adjust or status.
    """
    columns = ("timestamp", "event_type", "score_before", "score_after", "event_details", "segment_id")
    show_answer(at, lambda bt: bt.scores.history(user_id, event_type=event_type, **vars(paging)), columns=columns)


def sweep(
    *,
    tenant: str = EVERYBODY,
    limit: int | None = None,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    at: At = AT,
) -> None:
    """Apply decay to every score that is due, until none is left.

    Parameters
    ----------
    tenant
        Sweep only this tenant's scores.
    limit
        Maximum number of scores.
    dry_run
        Only show what would happen.
    """
    with progress("sweeping", json=at.json) as bar:

        def tell(result: SweepResult) -> None:
            bar(result.processed)

        async def work(application: Application) -> SweepResult:
            await demand_real_time(application)
            scores = application.for_caller(Caller(tenant, "cli")).scores
            request = SweepRequest(limit=limit, dry_run=dry_run)
            return await scores.sweep(request, progress=tell, unbounded=True)

        result = on(at.local(over_http="POST /v1/scores/sweep"), work)
    show(result, json=at.json)
