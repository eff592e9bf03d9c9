"""`betimes effects …`: list pending calls and messages; retry or discard dead letters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import msgspec
from cyclopts import App, Parameter

from betimes.cli.bootstrap import Application
from betimes.cli.options import NOTED, READABLE, Noted, Readable, Tenant, on
from betimes.cli.output import show
from betimes.core.errors import Invalid
from betimes.domain.paging import Listing, Page
from betimes.domain.service import Caller
from betimes.engine.store import PAGE_MAX, EffectQuery, EffectRow, EffectStatus
from betimes.ledger.effect_actions import EffectActions
from betimes.ledger.effects import EffectView
from betimes.ledger.service import Ledger

COLUMNS = ("tenant", "effect_id", "executor", "status", "attempts", "next_attempt_at", "last_error")
SERVED_COLUMNS = ("effect_id", "target", *COLUMNS[3:])
"""Columns of a server's list, which covers one tenant and shows no executors."""
T = TypeVar("T")
EffectName = Annotated[str, Parameter(help="Its id, as `effects list` shows it.")]

app = App(name="effects", help="Effects: pending calls and dead letters.", help_format="plaintext")


@app.command(name="list")
def list_(
    *,
    status: EffectStatus | None = None,
    executor: str | None = None,
    tenant: str | None = None,
    limit: int = 50,
    at: Readable = READABLE,
) -> None:
    """List effects of one tenant or of all, by id; with --url, the newest of the key's tenant.

    Parameters
    ----------
    status
        Only these; dead ones are dead letters.
    executor
        Only those of this executor, such as webhook or deliver:push.
    tenant
        Only those of this tenant.
    limit
        How many to show, up to 1000; with --url up to 200.
    """
    if not 1 <= limit <= PAGE_MAX:
        raise Invalid(f"a list has 1 to {PAGE_MAX:,} effects", (("limit", f"1 to {PAGE_MAX:,}"),))
    query = EffectQuery(tenant=tenant, status=status, executor=executor, limit=limit)

    async def work(application: Application) -> Page[Any]:
        if at.target.url:
            filters = {"status": status, "executor": executor}
            told = await _effects(application, tenant or "default").effects(filters, limit=limit)
            return Page(told.items, unreadable=told.unreadable)
        found: Listing[dict[str, Any]] = Listing()
        for row in await application.engine.store.effects(query):
            with found.reading(row.id):
                found.items.append(_fields(row, await _effects(application, row.id.tenant).view(row)))
        return found.page(None)

    columns = SERVED_COLUMNS if at.target.url else COLUMNS
    show(on(at.target, work), json=at.json, columns=columns, empty="No effects.")


def ask_ledger(at: Tenant, work: Callable[[Ledger], Awaitable[T]]) -> T:
    """Open an existing database, or a server, and read the tenant's ledger as its operator."""

    def ask(application: Application) -> Awaitable[T]:
        return work(application.ledger_for(at.caller))

    return on(at.target, ask)


def _effects(application: Application, tenant: str) -> EffectActions:
    return application.effects_for(Caller(tenant, "cli"))


def _fields(row: EffectRow, view: EffectView) -> dict[str, Any]:
    """Return the fields that the API shows of an effect, and those that only an operator sees."""
    return {**msgspec.structs.asdict(view), "tenant": row.id.tenant, "executor": row.executor}


@app.command
def retry(effect_id: EffectName, /, *, at: Noted = NOTED) -> None:
    """Retry a dead letter, with fresh attempts."""
    show(on(at.target, lambda application: application.effects_for(at.caller).retry(effect_id)), json=at.json)


@app.command
def discard(effect_id: EffectName, /, *, at: Noted = NOTED) -> None:
    """Discard a dead letter."""
    on(at.target, lambda application: application.effects_for(at.caller).discard(effect_id))
    show({"effect_id": effect_id, "tenant": at.tenant, "status": "discarded"}, json=at.json)
