"""`betimes trigger …` and `betimes run …`."""

from __future__ import annotations

from typing import Any

from cyclopts import App

from betimes.cli.options import Paging, Tenant, for_tenant
from betimes.cli.output import show
from betimes.runs.views import RunHandler, RunStatus

COLUMNS = ("run_id", "account_id", "trigger_type", "status", "handler", "allowed_at", "finished_at", "error")

trigger = App(name="trigger", help="Triggers.", help_format="plaintext")
run = App(name="run", help="Runs.", help_format="plaintext")


@trigger.command(name="show")
def show_trigger(key: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Say what became of a trigger.

    Parameters
    ----------
    key
        Its idempotency key.
    """
    show(for_tenant(at, lambda bt: bt.runs.trigger_status(key)), json=at.json)


@trigger.command
def cancel(key: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Drop a trigger that waits, with all that joined it.

    Parameters
    ----------
    key
        Its idempotency key.
    """
    show(for_tenant(at, lambda bt: bt.runs.cancel_trigger(key)), json=at.json)


@run.command(name="list")
def list_runs(
    *,
    account_id: str | None = None,
    status: RunStatus | None = None,
    trigger_type: str | None = None,
    handler: RunHandler | None = None,
    paging: Paging = Paging(),  # noqa: B008 — frozen
    at: Tenant = Tenant(),  # noqa: B008 — frozen
) -> None:
    """List the runs that the gate admitted, newest first.

    Parameters
    ----------
    account_id
        Only those of this account.
    status
        Only these: allowed, started, succeeded, failed or abandoned.
    trigger_type
        Only those of this type.
    handler
        Only those that these carry out: python, webhook or claim.
    """
    filters: dict[str, Any] = {
        "account_id": account_id,
        "status": status,
        "trigger_type": trigger_type,
        "handler": handler,
    }
    page = for_tenant(at, lambda bt: bt.runs.runs(**filters, **vars(paging)))
    show(page, json=at.json, columns=COLUMNS, empty="No runs.")


@run.command(name="show")
def show_run(run_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Show one run."""
    show(for_tenant(at, lambda bt: bt.runs.run(run_id)), json=at.json)


@run.command
def account(account_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Show the counters of an account: what it used up, what waits, when it may run again."""
    show(for_tenant(at, lambda bt: bt.runs.run_state(account_id)), json=at.json)
