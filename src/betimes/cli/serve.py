"""Commands that stay: `serve` and `worker`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from betimes.cli.bootstrap import Role, ServeOptions, Target, current_wiring
from betimes.cli.options import At
from betimes.cli.output import announce, announce_json

Announce = Callable[[Mapping[str, Any]], None]


def serve(
    *,
    db: str | None = None,
    host: str | None = None,
    port: int | None = None,
    dev: Annotated[bool | None, Parameter(negative=())] = None,
    virtual_clock: str | None = None,
    role: Role = "all",
    app: str | None = None,
    config: Path | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Serve the HTTP API, ring alarms and carry out effects, until SIGTERM or Ctrl-C; then finish what was accepted.

    SIGHUP reads the configuration again and puts its policy in force.

    Parameters
    ----------
    db
        Database URL: sqlite:///betimes.db, postgresql://… or memory://.
    host
        Address to listen on; loopback by default.
    port
        Port to listen on, 8080 by default; 0 takes any free one, which is told on standard output.
    dev
        No keys, loopback only, tenant from X-Tenant, loopback webhooks allowed.
    virtual_clock
        Let time stand still at this instant, such as 2026-01-01T00:00:00Z, until POST /v1/clock moves it; without
        --db everything is kept in memory. For tests.
    role
        all, api (HTTP only) or worker (alarms, effects and intents only).
    app
        module:name of a Betimes of your own, with its handlers, schedules and sensors.
    config
        Configuration file.
    json
        Announce in JSON, one line.
    """
    options = ServeOptions(host=host, port=port, dev=dev, virtual_clock=virtual_clock, role=role)
    current_wiring().serve(Target(db=db, config=config, app=app), options, _announcing(json))


def worker(*, app: str | None = None, at: At = At()) -> None:  # noqa: B008 — frozen
    """Ring alarms, carry out effects and work off intents, without the HTTP API: serve --role worker.

    Parameters
    ----------
    app
        module:name of a Betimes of your own, with its handlers, schedules and sensors.
    """
    target = replace(at.target, app=app)
    current_wiring().serve(target, ServeOptions(role="worker"), _announcing(at.json))


def _announcing(json: bool) -> Announce:
    """Standard output tells once that all is ready, and where."""

    def tell(told: Mapping[str, Any]) -> None:
        if json:
            announce_json(told)
        elif told["event"] == "working":
            announce(f"betimes works on {told['db']}")
        else:
            notes = [note for note, holds in (("no keys", told["dev"]), ("virtual clock", told["virtual"])) if holds]
            noted = f" ({', '.join(notes)})" if notes else ""
            announce(f"betimes listens on {told['url']}, database {told['db']}{noted}")

    return tell
