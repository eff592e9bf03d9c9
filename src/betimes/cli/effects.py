"""`betimes effects …`: what is owed to the outside, and what to do with dead letters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from cyclopts import App

from betimes.cli.options import At, Tenant, on
from betimes.cli.printing import moment, show
from betimes.core.errors import NotFound
from betimes.core.streams import EffectId, parse_effect_handle
from betimes.engine.store import EffectQuery, EffectRow, EffectStatus, Store
from betimes.services.pages import Page

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
        Only those of this executor, such as webhook or channel:push.
    tenant
        Only those of this tenant.
    limit
        How many to show, up to 1000.
    """
    query = EffectQuery(tenant=tenant, status=status, executor=executor, limit=min(max(limit, 1), 1_000))
    rows = on(at.target, lambda application: application.engine.store.effects(query))
    columns = ("tenant", "effect_id", "executor", "status", "attempts", "next_attempt_at", "last_error")
    show(Page([effect_view(row) for row in rows]), json=at.json, columns=columns, empty="No effects.")


def effect_view(row: EffectRow) -> dict[str, Any]:
    return {
        "effect_id": row.id.handle, "tenant": row.id.tenant, "executor": row.executor, "status": row.status,
        "attempts": row.attempts, "created_at": moment(row.created_at), "next_attempt_at": moment(row.next_attempt_at),
        "finished_at": moment(row.finished_at), "last_error": row.last_error or None,
        "payload": msgspec.json.decode(row.payload),
    }  # fmt: skip


@app.command
def retry(effect_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Give a dead letter fresh attempts.

    Parameters
    ----------
    effect_id
        As it is listed.
    """
    _change(effect_id, at, lambda store, effect: store.revive_effect(effect), "pending")


@app.command
def discard(effect_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Remove a dead letter for good.

    Parameters
    ----------
    effect_id
        As it is listed.
    """
    _change(effect_id, at, lambda store, effect: store.discard_effect(effect), "discarded")


def _change(handle: str, at: Tenant, change: Callable[[Store, EffectId], Awaitable[bool]], becomes: str) -> None:
    effect = parse_effect_handle(at.tenant, handle)
    if not on(at.target, lambda application: change(application.engine.store, effect)):
        raise NotFound(f"{handle} is no dead letter of {at.tenant!r}; see betimes effects list --status dead")
    show({"effect_id": handle, "tenant": at.tenant, "status": becomes}, json=at.json)
