"""`betimes trigger …`."""

from __future__ import annotations

from cyclopts import App

from betimes.cli.options import Tenant, for_tenant
from betimes.cli.output import show

app = App(name="trigger", help="Triggers.", help_format="plaintext")


@app.command(name="show")
def show_(key: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Say what became of a trigger.

    Parameters
    ----------
    key
        Its idempotency key.
    """
    show(for_tenant(at, lambda bt: bt.runs.trigger_status(key)), json=at.json)


@app.command
def cancel(key: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Drop a trigger that waits, with all that joined it.

    Parameters
    ----------
    key
        Its idempotency key.
    """
    show(for_tenant(at, lambda bt: bt.runs.cancel_trigger(key)), json=at.json)
