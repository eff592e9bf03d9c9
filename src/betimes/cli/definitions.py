"""The commands that everything people define has: show, delete, enable, disable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from cyclopts import App

from betimes.cli.options import Tenant, for_tenant
from betimes.cli.output import show

if TYPE_CHECKING:  # what a command does not use need not be loaded
    from betimes.tenancy import Tenancy


class Defined(Protocol):
    """A service of definitions."""

    @property
    def get(self) -> Callable[[str], Awaitable[Any]]: ...
    @property
    def delete(self) -> Callable[[str], Awaitable[None]]: ...
    @property
    def enable(self) -> Callable[[str], Awaitable[Any]]: ...
    @property
    def disable(self) -> Callable[[str], Awaitable[Any]]: ...


def add_definition_commands(app: App, noun: str, service: Callable[[Tenancy], Defined]) -> None:
    """Give a group the commands that any definition has."""

    def show_(id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
        show(for_tenant(at, lambda bt: service(bt).get(id)), json=at.json)

    def delete(id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
        for_tenant(at, lambda bt: service(bt).delete(id))
        show({f"{noun}_id": id, "status": "deleted"}, json=at.json)

    def enable(id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
        show(for_tenant(at, lambda bt: service(bt).enable(id)), json=at.json)

    def disable(id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
        show(for_tenant(at, lambda bt: service(bt).disable(id)), json=at.json)

    a = "an" if noun[0] in "aeiou" else "a"
    app.command(show_, name="show", help=f"One {noun}, with its state.")
    app.command(delete, name="delete", help=f"Delete {a} {noun}.")
    app.command(enable, name="enable", help=f"Let {a} {noun} go on.")
    app.command(disable, name="disable", help=f"Stop {a} {noun}.")
