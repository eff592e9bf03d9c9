"""The commands that everything people define has: list, put, show, delete, enable, disable.

`DefinitionCommands` is the counterpart of `betimes.http.definitions`: a domain says what its definitions are called and
which service keeps them, and gets the commands. Annotations are values here, not text, because the options of `list`
are a type that each domain gives.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from cyclopts import App, Parameter

from betimes.cli.documents import File, document
from betimes.cli.options import NOTED, PAGING, TENANT, Noted, Paging, Tenant, for_tenant, show_answer
from betimes.cli.output import show

if TYPE_CHECKING:  # what a command does not use need not be loaded
    from betimes.tenancy import Tenancy

_FILE_HELP = "Its definition, as JSON, TOML or YAML; '-' reads JSON from standard input."


class DefinitionKeeper(Protocol):
    """A service of definitions."""

    @property
    def list(self) -> Callable[..., Awaitable[Any]]: ...
    @property
    def put(self) -> Callable[[str, Any], Awaitable[Any]]: ...
    @property
    def get(self) -> Callable[[str], Awaitable[Any]]: ...
    @property
    def delete(self) -> Callable[[str], Awaitable[None]]: ...
    @property
    def enable(self) -> Callable[[str], Awaitable[Any]]: ...
    @property
    def disable(self) -> Callable[[str], Awaitable[Any]]: ...


@dataclass(frozen=True, kw_only=True)
class DefinitionCommands:
    """One kind of definition, as its commands know it."""

    noun: str
    """Such as `schedule`: `betimes schedule list`."""
    service: Callable[["Tenancy"], DefinitionKeeper]
    columns: tuple[str, ...]
    """Of the table that lists them."""
    filters: type
    """A dataclass with the options of `list`, named like the filters of the service."""
    put_note: str = ""
    """Added to the help of `put`."""

    def app(self) -> App:
        """Return the group with these commands; the domain adds its own."""
        app = App(name=self.noun, help=f"{self.noun.capitalize()}s.", help_format="plaintext")
        article = "an" if self.noun[0] in "aeiou" else "a"
        self._add_show_and_delete(app, article)
        for verb, help in (("enable", "Enable {} {}."), ("disable", "Disable {} {}.")):
            app.command(self._switch(verb), name=verb, help=help.format(article, self.noun))
        self._add_list(app)
        self._add_put(app, article)
        return app

    def _add_show_and_delete(self, app: App, article: str) -> None:
        def show_(id: str, /, *, at: Tenant = TENANT) -> None:
            show_answer(at, lambda bt: self.service(bt).get(id))

        def delete(id: str, /, *, at: Noted = NOTED) -> None:
            for_tenant(at, lambda bt: self.service(bt).delete(id))
            show({f"{self.noun}_id": id, "status": "deleted"}, json=at.json)

        app.command(show_, name="show", help=f"Show one {self.noun} with its state.")
        app.command(delete, name="delete", help=f"Delete {article} {self.noun}.")

    def _switch(self, verb: str) -> Callable[..., None]:
        def switch(id: str, /, *, at: Noted = NOTED) -> None:
            show_answer(at, lambda bt: getattr(self.service(bt), verb)(id))

        return switch

    def _add_list(self, app: App) -> None:
        filters = self.filters

        def list_(
            *,
            where: filters = filters(),  # type: ignore[valid-type]  # noqa: B008 — frozen
            paging: Paging = PAGING,
            at: Tenant = TENANT,
        ) -> None:
            page = for_tenant(at, lambda bt: self.service(bt).list(**vars(where), **vars(paging)))
            show(page, json=at.json, columns=self.columns, empty=f"No {self.noun}s.")

        app.command(list_, name="list", help=f"List {self.noun}s, newest first.")

    def _add_put(self, app: App, article: str) -> None:
        def put(
            id: Annotated[str, Parameter(name=f"{self.noun.upper()}_ID", help="Its id.")],
            file: Annotated[File, Parameter(help=_FILE_HELP)],
            /,
            *,
            at: Noted = NOTED,
        ) -> None:
            body = document(file)
            show_answer(at, lambda bt: self.service(bt).put(id, body), exists=False)

        app.command(put, name="put", help=f"Create or replace {article} {self.noun}{self.put_note}.")
