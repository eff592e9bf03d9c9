"""`betimes effects …`: what is owed to the outside, and what to do with dead letters."""

from __future__ import annotations

from typing import Any

import msgspec
from cyclopts import App

from betimes.catalogue import readable_areas
from betimes.cli.bootstrap import Application
from betimes.cli.options import At, Tenant, on
from betimes.cli.output import show
from betimes.core.errors import Invalid
from betimes.domain.paging import Page
from betimes.domain.service import Caller
from betimes.engine.store import PAGE_MAX, EffectQuery, EffectRow, EffectStatus
from betimes.ledger.effect_actions import EffectActions
from betimes.ledger.effects import EffectView

COLUMNS = ("tenant", "effect_id", "executor", "status", "attempts", "next_attempt_at", "last_error")
EVERY_DOMAIN = readable_areas(("admin",), "write")

app = App(name="effects", help="Effects: what is owed to the outside, and dead letters.", help_format="plaintext")


@app.command(name="list")
def list_(
    *,
    status: EffectStatus | None = None,
    executor: str | None = None,
    tenant: str | None = None,
    limit: int = 50,
    at: At = At(),  # noqa: B008 — frozen
) -> None:
    """Effects of a tenant, or of all, in order of their ids.

    Parameters
    ----------
    status
        Only these; dead ones are dead letters.
    executor
        Only those of this executor, such as webhook or deliver:push.
    tenant
        Only those of this tenant.
    limit
        How many to show, up to 1000.
    """
    if not 1 <= limit <= PAGE_MAX:
        raise Invalid(f"a list has 1 to {PAGE_MAX:,} effects", (("limit", f"1 to {PAGE_MAX:,}"),))
    query = EffectQuery(tenant=tenant, status=status, executor=executor, limit=limit)

    async def work(application: Application) -> list[dict[str, Any]]:
        rows = await application.engine.store.effects(query)
        return [_fields(row, await _effects(application, row.id.tenant).view(row)) for row in rows]

    show(Page(on(at.target, work, exists=True)), json=at.json, columns=COLUMNS, empty="No effects.")


def _effects(application: Application, tenant: str) -> EffectActions:
    return EffectActions(application.engine, Caller(tenant, "cli"), EVERY_DOMAIN)


def _fields(row: EffectRow, view: EffectView) -> dict[str, Any]:
    """Return the fields that the API shows of an effect, and those that only an operator sees."""
    return {**msgspec.structs.asdict(view), "tenant": row.id.tenant, "executor": row.executor}


@app.command
def retry(effect_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Give a dead letter fresh attempts.

    Parameters
    ----------
    effect_id
        As it is listed.
    """
    show(
        on(at.target, lambda application: _effects(application, at.tenant).retry(effect_id), exists=True), json=at.json
    )


@app.command
def discard(effect_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Remove a dead letter for good.

    Parameters
    ----------
    effect_id
        As it is listed.
    """
    on(at.target, lambda application: _effects(application, at.tenant).discard(effect_id), exists=True)
    show({"effect_id": effect_id, "tenant": at.tenant, "status": "discarded"}, json=at.json)
