"""`betimes intent …`."""

from __future__ import annotations

from cyclopts import App

from betimes.cli.definitions import add_definition_commands
from betimes.cli.documents import File, document
from betimes.cli.options import Tenant, for_tenant
from betimes.cli.output import show
from betimes.core.errors import STATUS

app = App(name="intent", help="Intents.", help_format="plaintext")
_COLUMNS = ("intent_id", "user_id", "trigger_type", "enabled", "next_check", "last_status", "execution_count")
add_definition_commands(app, "intent", lambda services: services.intents)


@app.command(name="list")
def list_(
    *,
    user: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    at: Tenant = Tenant(),  # noqa: B008
) -> None:
    """Intents, the last created first.

    Parameters
    ----------
    user
        Only this person's.
    limit
        How many to show, up to 200.
    cursor
        Where to go on.
    """
    page = for_tenant(at, lambda bt: bt.intents.list(user_id=user, limit=limit, cursor=cursor))
    show(page, json=at.json, columns=_COLUMNS, empty="No intents.")


@app.command
def pending(
    *,
    user: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    at: Tenant = Tenant(),  # noqa: B008
) -> None:
    """Intents that are due and that nobody works on.

    Parameters
    ----------
    user
        Only this person's.
    limit
        How many to show, up to 200.
    cursor
        Where to go on.
    """
    page = for_tenant(at, lambda bt: bt.intents.pending(user_id=user, limit=limit, cursor=cursor))
    show(page, json=at.json, columns=_COLUMNS, empty="Nothing is due.")


@app.command
def put(intent_id: str, file: File, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Create or replace an intent.

    Parameters
    ----------
    intent_id
        Its id.
    file
        Its definition, as JSON, TOML or YAML; '-' reads JSON from standard input.
    """
    body = document(file)
    show(for_tenant(at, lambda bt: bt.intents.put(intent_id, body)), json=at.json)


@app.command
def check(file: File, /, *, at: Tenant = Tenant()) -> int:  # noqa: B008 — frozen
    """Say whether an intent is valid and when it would be looked at; records nothing. Exits with 65 when it is not.

    Parameters
    ----------
    file
        Its definition, as JSON, TOML or YAML; '-' reads JSON from standard input.
    """
    body = document(file)
    found = for_tenant(at, lambda bt: bt.intents.check(body))
    show(found, json=at.json)
    return 0 if found.valid else STATUS["INVALID"][1]


@app.command
def history(
    intent_id: str,
    /,
    *,
    limit: int = 50,
    cursor: str | None = None,
    at: Tenant = Tenant(),  # noqa: B008 — frozen
) -> None:
    """Show the executions of an intent, newest first.

    Parameters
    ----------
    intent_id
        The intent.
    limit
        How many to show, up to 200.
    cursor
        Where to go on.
    """
    page = for_tenant(at, lambda bt: bt.intents.history(intent_id, limit=limit, cursor=cursor))
    columns = ("executed_at", "status", "worker", "message_preview", "next_check", "error_message")
    show(page, json=at.json, columns=columns, empty="It was not looked at yet.")
