"""`betimes sensor …`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from betimes.cli.definitions import DefinitionCommands
from betimes.cli.options import NOTED, PAGING, TENANT, Noted, Paging, Tenant, for_tenant, show_answer
from betimes.cli.output import show
from betimes.core.errors import Invalid

SensorName = Annotated[str, Parameter(help="The sensor.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SensorFilters:
    """The options of `betimes sensor list`."""

    status: Literal["active", "paused", "error"] | None = None
    """Only these: active, paused or error."""


sensor = DefinitionCommands(
    noun="sensor",
    service=lambda services: services.sensors,
    columns=("sensor_id", "sensor_type", "status", "next_evaluation_at", "consecutive_errors", "last_error"),
    filters=SensorFilters,
    put_note="; a new one shows its secret, once",
).app()


@sensor.command
def evaluate(
    sensor_id: SensorName, /, *, dry_run: Annotated[bool, Parameter(negative=())] = False, at: Noted = NOTED
) -> None:
    """Evaluate a poll sensor now.

    Parameters
    ----------
    dry_run
        Only show what would happen.
    """
    show_answer(at, lambda bt: bt.sensors.evaluate(sensor_id, dry_run=dry_run))


@sensor.command
def evaluations(
    sensor_id: SensorName, /, *, message_id: str | None = None, paging: Paging = PAGING, at: Tenant = TENANT
) -> None:
    """List the evaluations of a sensor with the runs they asked for, newest first.

    Parameters
    ----------
    message_id
        Only the evaluation of this message.
    """
    columns = ("evaluated_at", "status", "cause", "message_id", "cursor", "error")
    show_answer(
        at,
        lambda bt: bt.sensors.evaluations(sensor_id, message_id=message_id, **vars(paging)),
        columns=columns,
        empty="Nothing was evaluated yet.",
    )


@sensor.command
def cursor(
    sensor_id: SensorName,
    cursor: Annotated[str, Parameter(allow_leading_hyphen=True)] = "null",
    /,
    *,
    state_version: int,
    at: Noted = NOTED,
) -> None:
    """Move the cursor of a poll sensor; an evaluation under way is recorded as stale.

    Parameters
    ----------
    cursor
        The cursor as JSON, such as '"order-7"'; without one the evaluator starts anew.
    state_version
        The sensor's state version as you read it; refused if it has changed since.
    """
    try:
        value = msgspec.json.decode(cursor)
    except msgspec.DecodeError as error:
        raise Invalid(f"the cursor is not JSON ({error}); put a text in quotes: '\"order-7\"'") from None
    written = for_tenant(at, lambda bt: bt.sensors.reset_cursor(sensor_id, value, state_version=state_version))
    show(written, json=at.json)


@sensor.command
def rotate_secret(sensor_id: SensorName, /, *, at: Noted = NOTED) -> None:
    """Give a push sensor a new secret, shown once."""
    show_answer(at, lambda bt: bt.sensors.rotate_secret(sensor_id))
