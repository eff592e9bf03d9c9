"""Options that many commands share, and running a command on an open application."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter

from betimes.cli.bootstrap import Application, Target, current_wiring
from betimes.cli.output import show
from betimes.core.streams import checked_stream
from betimes.domain.service import Caller

if TYPE_CHECKING:  # what a command does not use need not be loaded
    from betimes.tenancy import Tenancy

T = TypeVar("T")
EVERYBODY = "*"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class At:
    """The application a command works on, and how its answer is shown."""

    db: str | None = None
    """Database URL: sqlite:///betimes.db, postgresql://… or memory://. Default: the configuration's."""
    config: Path | None = None
    """Configuration file. Default: $BETIMES_CONFIG, or betimes.toml or betimes.yaml in the working folder."""
    json: Annotated[bool, Parameter(negative=())] = False
    """Answer in JSON."""

    @property
    def target(self) -> Target:
        return Target(db=self.db, config=self.config)

    def of_tenant(self, tenant: str) -> Tenant:
        return Tenant(db=self.db, config=self.config, json=self.json, tenant=tenant)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Tenant(At):
    """The same, for one tenant."""

    tenant: Annotated[str, Parameter(env_var="BETIMES_TENANT")] = "default"
    """Whose data is meant."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Paging:
    """The part of a list to show."""

    limit: int = 50
    """How many to show, up to 200."""
    cursor: str | None = None
    """Where to go on."""


AT, TENANT, PAGING = At(), Tenant(), Paging()
"""What a command works on unless it is told; they are frozen, so all commands share them."""


def on(target: Target, work: Callable[[Application], Awaitable[T]], *, starts: bool = False, exists: bool = False) -> T:
    """Open the application and do something on it; with `exists`, only on a database that is there already."""

    async def work_on_open() -> T:
        async with current_wiring().open_application(target, starts=starts, exists=exists) as application:
            return await work(application)

    return asyncio.run(work_on_open())


def for_tenant(at: Tenant, work: Callable[[Tenancy], Awaitable[T]]) -> T:
    """Open the application and do something with the services of the tenant."""
    checked_stream(at.tenant, "tenant", at.tenant)
    return on(at.target, lambda application: work(application.for_caller(Caller(at.tenant, "cli"))))


def show_answer(
    at: Tenant, work: Callable[[Tenancy], Awaitable[Any]], *, columns: Sequence[str] = (), empty: str = "nothing"
) -> None:
    """Do something with the services of the tenant, and show what comes of it."""
    show(for_tenant(at, work), json=at.json, columns=columns, empty=empty)
