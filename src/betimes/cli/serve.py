"""Commands that stay: `serve` and `worker`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from betimes.cli.bootstrap import Role, ServeOptions, Target, current_wiring
from betimes.cli.options import AT, At
from betimes.cli.output import announce, announce_json

_VIRTUAL_CLOCK_HELP = (
    "A virtual clock that stands at this instant, such as 2026-01-01T00:00:00Z, until POST /v1/clock moves it; without "
    "--db everything is kept in memory. For tests."
)
Announce = Callable[[Mapping[str, Any]], None]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ServeArguments:
    """The options of `betimes serve`."""

    db: str | None = None
    """Database URL: sqlite:///betimes.db, postgresql://… or memory://."""
    host: str | None = None
    """Address to listen on; loopback by default."""
    port: int | None = None
    """Port to listen on, 8080 by default; 0 takes any free one and prints it."""
    dev: Annotated[bool | None, Parameter(negative=())] = None
    """Development mode: no API keys, loopback only, tenant from X-Tenant, loopback webhooks allowed."""
    virtual_clock: Annotated[str | None, Parameter(help=_VIRTUAL_CLOCK_HELP)] = None
    role: Role = "all"
    """all, api (HTTP only) or worker (alarms, effects and intents only)."""
    app: str | None = None
    """Your own Betimes as module:name, with its handlers, schedules and sensors."""
    config: Path | None = None
    """Configuration file."""
    json: Annotated[bool, Parameter(negative=())] = False
    """Print the address as one line of JSON."""


def serve(*, given: ServeArguments = ServeArguments()) -> None:  # noqa: B008 — frozen
    """Serve the HTTP API, ring alarms and carry out effects, until SIGTERM or Ctrl-C; then finish accepted work.

    SIGHUP re-reads the configuration and puts its policy in force.
    """
    target = Target(db=given.db, config=given.config, app=given.app)
    options = ServeOptions(
        host=given.host, port=given.port, dev=given.dev, virtual_clock=given.virtual_clock, role=given.role
    )
    current_wiring().serve(target, options, _announcer(given.json))


def worker(*, app: str | None = None, at: At = AT) -> None:
    """Ring alarms, carry out effects and work off intents, without the HTTP API: serve --role worker.

    Parameters
    ----------
    app
        Your own Betimes as module:name, with its handlers, schedules and sensors.
    """
    current_wiring().serve(at.local(app=app), ServeOptions(role="worker"), _announcer(at.json))


def _announcer(json: bool) -> Announce:
    """Return a function that prints once, on standard output, that the server is ready, and where."""

    def tell(told: Mapping[str, Any]) -> None:
        if json:
            announce_json(told)
        elif told["event"] == "working":
            announce(f"betimes works on {told['db']}")
        else:
            notes = [note for note, holds in (("no keys", told["dev"]), ("virtual clock", told["virtual"])) if holds]
            noted = f" ({', '.join(notes)})" if notes else ""
            announce(f"betimes listens on {told['url']}, database {told['db']}{noted}; look at /console and /docs")

    return tell
