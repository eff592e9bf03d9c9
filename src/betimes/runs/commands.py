"""`betimes trigger …` and `betimes run …`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import App, Parameter

from betimes.cli.options import NOTED, PAGING, TENANT, Noted, Paging, Tenant, show_answer
from betimes.runs.views import RunHandler, RunStatus

COLUMNS = ("run_id", "account_id", "trigger_type", "status", "handler", "allowed_at", "finished_at", "error")
TriggerKey = Annotated[str, Parameter(help="Its idempotency key.")]

trigger = App(name="trigger", help="Triggers.", help_format="plaintext")
run = App(name="run", help="Runs.", help_format="plaintext")


@trigger.command(name="show")
def show_trigger(key: TriggerKey, /, *, at: Tenant = TENANT) -> None:
    """Show the status of a trigger."""
    show_answer(at, lambda bt: bt.runs.trigger_status(key))


@trigger.command
def cancel(key: TriggerKey, /, *, at: Noted = NOTED) -> None:
    """Drop a waiting trigger and all triggers that joined it."""
    show_answer(at, lambda bt: bt.runs.cancel_trigger(key))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The filters of `betimes run list`, named like those of the service."""

    account_id: str | None = None
    """Only those of this account."""
    status: RunStatus | None = None
    """Only these: allowed, started, succeeded, failed or abandoned."""
    trigger_type: str | None = None
    """Only those of this type."""
    handler: RunHandler | None = None
    """Only runs with this kind of handler: python, webhook or claim."""


@run.command(name="list")
def list_runs(*, where: RunOptions = RunOptions(), paging: Paging = PAGING, at: Tenant = TENANT) -> None:  # noqa: B008 — frozen
    """List the runs that the gate admitted, newest first."""
    show_answer(at, lambda bt: bt.runs.runs(**vars(where), **vars(paging)), columns=COLUMNS, empty="No runs.")


@run.command(name="show")
def show_run(run_id: str, /, *, at: Tenant = TENANT) -> None:
    """Show one run."""
    show_answer(at, lambda bt: bt.runs.run(run_id))


@run.command
def account(account_id: str, /, *, at: Tenant = TENANT) -> None:
    """Show an account's counters: usage, waiting triggers, when it may run again."""
    show_answer(at, lambda bt: bt.runs.run_state(account_id))
