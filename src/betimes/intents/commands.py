"""`betimes intent …`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from betimes.cli.definitions import DefinitionCommands
from betimes.cli.documents import File, document
from betimes.cli.options import PAGING, TENANT, WRITABLE, Paging, Tenant, Writable, for_tenant, show_answer
from betimes.cli.output import show
from betimes.core.errors import STATUS

_COLUMNS = ("intent_id", "user_id", "trigger_type", "enabled", "due_at", "last_status", "execution_count")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class IntentFilters:
    """The options of `betimes intent list`."""

    user_id: Annotated[str | None, Parameter(name="--user")] = None
    """Only this person's."""


intent = DefinitionCommands(
    noun="intent", service=lambda services: services.intents, columns=_COLUMNS, filters=IntentFilters
).app()


@intent.command
def pending(*, user: str | None = None, paging: Paging = PAGING, at: Tenant = TENANT) -> None:
    """List intents that are due and unclaimed.

    Parameters
    ----------
    user
        Only this person's.
    """
    show_answer(
        at, lambda bt: bt.intents.pending(user_id=user, **vars(paging)), columns=_COLUMNS, empty="Nothing is due."
    )


@intent.command
def check(file: File, /, *, at: Writable = WRITABLE) -> int:
    """Check whether an intent is valid and show its first check; record nothing. Exits with 65 if it is not valid.

    Parameters
    ----------
    file
        Its definition, as JSON, TOML or YAML; '-' reads JSON from standard input.
    """
    body = document(file)
    found = for_tenant(at, lambda bt: bt.intents.check(body), else_memory=True)
    show(found, json=at.json)
    return 0 if found.valid else STATUS["INVALID"][1]


@intent.command
def history(intent_id: str, /, *, paging: Paging = PAGING, at: Tenant = TENANT) -> None:
    """Show the executions of an intent, newest first.

    Parameters
    ----------
    intent_id
        The intent.
    """
    columns = ("executed_at", "status", "worker", "message_preview", "next_check", "error_message")
    show_answer(
        at,
        lambda bt: bt.intents.history(intent_id, **vars(paging)),
        columns=columns,
        empty="It has not been checked yet.",
    )
