"""`betimes tally …`: show the progress of the counts of outcomes, or recount them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cyclopts import App

from betimes.cli.bootstrap import Application
from betimes.cli.options import AT, At, on
from betimes.cli.output import progress, show
from betimes.core.instants import render
from betimes.ledger.tally import PAGE, TallyProjection

app = App(name="tally", help="Counts of outcomes, as statistics show them.", help_format="plaintext")
HOLDER = "betimes-tally-rebuild"


@app.command
def status(*, at: At = AT) -> None:
    """Show how far the ledger is counted, and by which process."""
    show(on(at.target, _status), json=at.json)


@app.command
def rebuild(*, at: At = AT) -> None:
    """Count all outcomes of the ledger again, without pruned history."""
    with progress("counting", json=at.json) as bar:
        report = on(at.target, lambda application: _rebuild(application, bar))
    show(report, json=at.json)


async def _status(application: Application) -> dict[str, Any]:
    position = await application.engine.store.tally_position()
    behind = bool(await application.engine.store.tally_source(position.seq, 1))
    return {
        "position": position.seq,
        "counted_until": render(position.at) if position.seq else None,
        "complete": not behind,
        "holder": position.holder or None,
    }


async def _rebuild(application: Application, bar: Callable[..., None]) -> dict[str, Any]:
    """Start over; if another process takes over in the meantime, leave the rest to it."""
    store = application.engine.store
    await store.reset_tally()
    projection, total = TallyProjection(application.engine, HOLDER), 0
    while counted := await projection.catch_up(PAGE):
        total += counted
        bar(total)
    return {"segments": total, **await _status(application)}
