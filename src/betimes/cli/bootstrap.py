"""The wiring of the command line: the part of an application that commands need, and how they reach it.

The commands know services and the engine only. `betimes.__main__` calls `use` to say how an application is opened,
served and exported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:  # what a command does not use need not be loaded
    from betimes.admin.secret_rotation import ResealReport
    from betimes.backtest.plan import Plan
    from betimes.backtest.report import BacktestReport
    from betimes.domain.service import Caller
    from betimes.engine.engine import Engine
    from betimes.engine.tick_result import TickResult
    from betimes.ledger.effect_actions import EffectActions
    from betimes.ledger.service import Ledger
    from betimes.tenancy import Tenancy

NEEDS_DATABASE = (
    "this command works on the database itself; run it where the database is, without --url and BETIMES_URL, "
    "or name the database with --db or --config"
)
"""Said of a command that a server elsewhere cannot answer."""
Role: TypeAlias = Literal["all", "api", "worker"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """The application a command works on."""

    db: str | None = None
    config: Path | None = None
    app: str | None = None
    """`module:name` of a `Betimes` of the user's own, with what it declares."""
    url: str | None = None
    """Of a server, which is asked instead of a database."""
    key: str | None = None
    """For the server."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    host: str | None = None
    port: int | None = None
    dev: bool | None = None
    virtual_clock: str | None = None
    role: Role = "all"


class Application(Protocol):
    """An open application."""

    @property
    def engine(self) -> Engine: ...

    def for_caller(self, caller: Caller) -> Tenancy: ...

    def ledger_for(self, caller: Caller) -> Ledger: ...

    def effects_for(self, caller: Caller) -> EffectActions: ...

    async def tick(self, *, limit: int = ..., max_s: float = ..., tenant: str | None = ...) -> TickResult: ...

    async def apply_policy(self, policy: Mapping[str, Any], *, actor: str = ..., note: str | None = ...) -> str: ...

    async def reseal_secrets(self, *, actor: str = ...) -> ResealReport: ...

    async def backtest(
        self, plan: Plan, *, jobs: int | None = ..., progress: Callable[[float], None] | None = ...
    ) -> BacktestReport: ...


class Wiring(Protocol):
    """Opens and serves applications."""

    def open_application(
        self, target: Target, *, starts: bool = False, exists: bool = True, else_memory: bool = False
    ) -> AbstractAsyncContextManager[Application]:
        """Open it without workers; `starts` puts the configured policy in force, as starting a process does.

        A database that is not there is refused, or begun without `exists`. With `else_memory` an empty one in memory
        takes its place, unless --db names it.
        """

    def serve(self, target: Target, options: ServeOptions, announce: Callable[[Mapping[str, Any]], None]) -> None:
        """Serve until a signal says to stop."""

    def policy(self, target: Target) -> dict[str, Any] | None:
        """Return the policy section of the configuration."""

    def configuration(self, target: Target) -> dict[str, Any]:
        """Return the whole configuration, checked, without its secrets."""

    async def export(self, application: Application, path: str, progress: Callable[[Any], None]) -> Any:
        """Bring a lake up to date."""


_wiring: list[Wiring] = []
_asked: list[str] = []


def use(wiring: Wiring) -> None:
    """Let commands reach the application this way from now on."""
    _wiring[:], _asked[:] = [wiring], []


def note_server(address: str) -> None:
    """Remember that the command shows what the server at this address answers."""
    _asked[:] = [address]


def asked_server() -> str:
    """Return the address of the server that the command asks; empty if it works on a database."""
    return _asked[0] if _asked else ""


def current_wiring() -> Wiring:
    return _wiring[0]
