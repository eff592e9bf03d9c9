"""The command `betimes sweep`: let every score that is due decay."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from betimes.cli.bootstrap import Application
from betimes.cli.options import EVERYBODY, At, on
from betimes.cli.output import progress, show
from betimes.domain.service import Caller
from betimes.scores.sweep import SweepRequest, SweepResult


def sweep(
    *,
    tenant: str = EVERYBODY,
    limit: int | None = None,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    at: At = At(),  # noqa: B008 — frozen
) -> None:
    """Let every score that is due decay, to the end.

    Parameters
    ----------
    tenant
        Sweep only this tenant's scores.
    limit
        Scores to take at most.
    dry_run
        Only say what would happen.
    """
    with progress("sweeping", json=at.json) as bar:

        def tell(result: SweepResult) -> None:
            bar(result.processed)

        async def work(application: Application) -> SweepResult:
            scores = application.for_caller(Caller(tenant, "cli")).scores
            request = SweepRequest(limit=limit, dry_run=dry_run)
            return await scores.sweep(request, progress=tell, unbounded=True)

        result = on(at.target, work)
    show(result, json=at.json)
