"""`betimes sensor …`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from cyclopts import App, Parameter

from betimes.cli.definitions import add_definition_commands
from betimes.cli.documents import File, document
from betimes.cli.options import Tenant, for_tenant
from betimes.cli.output import show
from betimes.core.errors import Invalid
from betimes.sensors.service import sensor_request

app = App(name="sensor", help="Sensors.", help_format="plaintext")
add_definition_commands(app, "sensor", lambda services: services.sensors)


@app.command(name="list")
def list_(
    *,
    status: Literal["active", "paused", "error"] | None = None,
    limit: int = 50,
    cursor: str | None = None,
    at: Tenant = Tenant(),  # noqa: B008
) -> None:
    """Sensors, the last created first.

    Parameters
    ----------
    status
        Only these: active, paused or error.
    limit
        How many to show, up to 200.
    cursor
        Where to go on.
    """
    page = for_tenant(at, lambda bt: bt.sensors.list(status=status, limit=limit, cursor=cursor))
    columns = ("sensor_id", "sensor_type", "status", "next_evaluation_at", "consecutive_errors", "last_error")
    show(page, json=at.json, columns=columns, empty="No sensors.")


@app.command
def put(sensor_id: str, file: File, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Create or replace a sensor; a new one shows its secret, once.

    Parameters
    ----------
    sensor_id
        Its id.
    file
        Its definition, as JSON, TOML or YAML; '-' reads JSON from standard input.
    """
    request = sensor_request(document(file))
    show(for_tenant(at, lambda bt: bt.sensors.put(sensor_id, request)), json=at.json)


@app.command
def evaluate(
    sensor_id: str,
    /,
    *,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    at: Tenant = Tenant(),  # noqa: B008 — frozen
) -> None:
    """Evaluate a poll sensor now.

    Parameters
    ----------
    sensor_id
        The sensor.
    dry_run
        Only say what would happen.
    """
    show(for_tenant(at, lambda bt: bt.sensors.evaluate(sensor_id, dry_run=dry_run)), json=at.json)


@app.command
def evaluations(
    sensor_id: str,
    /,
    *,
    message_id: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    at: Tenant = Tenant(),  # noqa: B008 — frozen
) -> None:
    """What a sensor saw and asked for, newest first.

    Parameters
    ----------
    sensor_id
        The sensor.
    message_id
        Only what became of this message.
    limit
        How many to show, up to 200.
    cursor
        Where to go on.
    """
    page = for_tenant(
        at, lambda bt: bt.sensors.evaluations(sensor_id, message_id=message_id, limit=limit, cursor=cursor)
    )
    columns = ("evaluated_at", "status", "cause", "message_id", "cursor", "error")
    show(page, json=at.json, columns=columns, empty="Nothing was evaluated yet.")


@app.command
def cursor(
    sensor_id: str,
    cursor: Annotated[str, Parameter(allow_leading_hyphen=True)] = "null",
    /,
    *,
    state_version: int,
    at: Tenant = Tenant(),  # noqa: B008 — frozen
) -> None:
    """Put the cursor of a poll sensor elsewhere; what is under way lands as stale.

    Parameters
    ----------
    sensor_id
        The sensor.
    cursor
        The cursor as JSON, such as '"order-7"'; without one the evaluator starts anew.
    state_version
        Of the sensor as it was read; refused if it has moved since.
    """
    try:
        value = msgspec.json.decode(cursor)
    except msgspec.DecodeError as error:
        raise Invalid(f"the cursor is not JSON ({error}); put a text in quotes: '\"order-7\"'") from None
    show(
        for_tenant(at, lambda bt: bt.sensors.reset_cursor(sensor_id, value, state_version=state_version)), json=at.json
    )


@app.command
def rotate_secret(sensor_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Give a push sensor a new secret, shown once."""
    show(for_tenant(at, lambda bt: bt.sensors.rotate_secret(sensor_id)), json=at.json)
