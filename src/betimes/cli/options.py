"""Options that many commands share, and running a command on an open application."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter

from betimes.cli.bootstrap import NEEDS_DATABASE, Application, Target, current_wiring, note_server
from betimes.cli.output import show
from betimes.core.errors import Invalid, NotFound
from betimes.core.streams import checked_stream
from betimes.core.zones import is_zone, unknown_zone
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
    url: Annotated[str | None, Parameter(show=False)] = None
    api_key: Annotated[str | None, Parameter(show=False)] = None

    @property
    def target(self) -> Target:
        return self.local()

    def local(self, *, app: str | None = None, over_http: str = "") -> Target:
        """Return the database to work on; raise `Invalid` if a server is named, by the environment and no database.

        `over_http` is the route that does the same, if there is one.
        """
        if self.url or (_served_at() and not (self.db or self.config or app)):
            instead = f"; over HTTP it is {over_http}" if over_http else ""
            raise Invalid(NEEDS_DATABASE + instead, (("url", "not with this command"),))
        return Target(db=self.db, config=self.config, app=app)

    def of_tenant(self, tenant: str) -> Tenant:
        named = self.local()
        return Tenant(db=named.db, config=named.config, json=self.json, tenant=tenant)


def _served_at() -> str | None:
    return os.environ.get("BETIMES_URL")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Readable(At):
    """The same, or a server that is asked instead."""

    url: str | None = None
    """Read from the server at this address instead of a database. Default: $BETIMES_URL, unless --db or --config is
    given."""
    api_key: Annotated[str | None, Parameter(env_var="BETIMES_KEY")] = None
    """API key for the server. Default: $BETIMES_KEY."""

    @property
    def target(self) -> Target:
        here = self.db or self.config
        if self.url and here:
            raise Invalid(
                "name a server with --url or a database with --db or --config, not both",
                (("url", "not with --db or --config"),),
            )
        return Target(db=self.db, config=self.config, url=None if here else self.url or _served_at(), key=self.api_key)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Tenant(Readable):
    """The same, for one tenant."""

    tenant: Annotated[str, Parameter(env_var="BETIMES_TENANT")] = "default"
    """The tenant; on a server with API keys, the key determines it."""

    @property
    def caller(self) -> Caller:
        return Caller(self.tenant, "cli")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Writable(Tenant):
    """The same, for a command that no server is asked to do: who names one is told the route, and help does not."""

    url: Annotated[str | None, Parameter(show=False)] = None
    api_key: Annotated[str | None, Parameter(env_var="BETIMES_KEY", show=False)] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Noted(Writable):
    """The same, for a command that leaves something on the ledger."""

    note: str = ""
    """Why, for the ledger."""

    @property
    def caller(self) -> Caller:
        return Caller(self.tenant, "cli", note=self.note)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Paging:
    """The part of a list to show."""

    limit: int = 50
    """How many to show, up to 200."""
    cursor: str | None = None
    """Continue at this cursor, which the page before shows."""


@contextmanager
def doubting_key(at: Readable) -> Iterator[None]:
    """Say of what a server does not find for a key that the key may be the cause: it is told only what it may read."""
    try:
        yield
    except NotFound as missing:
        if at.target.url and at.target.key:
            raise NotFound(f"{missing}; or it is there, and the key may not read it") from None
        raise


def check_zone(name: str) -> str:
    """Return the name of a zone; raise `Invalid` with the one that may be meant, if there is none."""
    if not is_zone(name):
        raise Invalid(unknown_zone(name), (("zone", unknown_zone(name)),))
    return name


AT, READABLE, TENANT, WRITABLE, NOTED, PAGING = At(), Readable(), Tenant(), Writable(), Noted(), Paging()
"""What a command works on unless it is told; they are frozen, so all commands share them."""


def on(
    target: Target,
    work: Callable[[Application], Awaitable[T]],
    *,
    starts: bool = False,
    exists: bool = True,
    else_memory: bool = False,
) -> T:
    """Open the application and do something on it.

    Only on a database that is there already: a command that begins one says `exists=False`, and one that can do
    without says `else_memory`.
    """

    if target.url:
        note_server(target.url)

    async def work_on_open() -> T:
        opened = current_wiring().open_application(target, starts=starts, exists=exists, else_memory=else_memory)
        async with opened as application:
            return await work(application)

    return asyncio.run(work_on_open())


def for_tenant(
    at: Tenant, work: Callable[[Tenancy], Awaitable[T]], *, exists: bool = True, else_memory: bool = False
) -> T:
    """Open the application and do something with the services of the tenant, as `on` does."""
    checked_stream(at.tenant, "tenant", at.tenant)

    def work_as_tenant(application: Application) -> Awaitable[T]:
        return work(application.for_caller(at.caller))

    return on(at.target, work_as_tenant, exists=exists, else_memory=else_memory)


def show_answer(
    at: Tenant,
    work: Callable[[Tenancy], Awaitable[Any]],
    *,
    columns: Sequence[str] = (),
    empty: str = "nothing",
    exists: bool = True,
) -> None:
    """Do something with the services of the tenant, and show what comes of it."""
    show(for_tenant(at, work, exists=exists), json=at.json, columns=columns, empty=empty)
