"""`betimes key …`: create, rotate and revoke API keys. The tenant `*` is for deployment-wide routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from cyclopts import App, Parameter

from betimes.admin.service import KeyView, NewKey, Rotation, SecretKeyView, Tenants
from betimes.cli.bootstrap import Application
from betimes.cli.options import EVERYBODY, NOTED, TENANT, Noted, Tenant, on
from betimes.cli.output import say, show
from betimes.core.checks import check_value
from betimes.core.streams import checked_stream
from betimes.domain.paging import Page

T = TypeVar("T")
app = App(name="key", help="API keys.", help_format="plaintext")


def _tenants(at: Tenant, work: Callable[[Tenants], Awaitable[T]], *, exists: bool = True) -> T:
    if at.tenant != EVERYBODY:
        checked_stream(at.tenant, "tenant", at.tenant)

    def work_as_tenant(application: Application) -> Awaitable[T]:
        return work(application.for_caller(at.caller).tenants)

    return on(at.target, work_as_tenant, exists=exists)


@app.command
def create(
    *,
    scope: Annotated[list[str], Parameter(negative=(), consume_multiple=True)],
    name: str = "cli",
    expires_at: str | None = None,
    at: Noted = NOTED,
) -> None:
    """Create a key and show its secret, once.

    Parameters
    ----------
    scope
        What it may do, such as runs:write or admin; several may be given.
    name
        Its name in lists and in the ledger.
    expires_at
        The instant at which it expires.
    """
    body = {"name": name, "scopes": scope, "expires_at": expires_at}
    request = check_value({field: value for field, value in body.items() if value is not None}, NewKey)
    made: SecretKeyView = _tenants(at, lambda tenants: tenants.create_key(request), exists=False)
    show(made, json=at.json)
    if not at.json:
        say("The secret is not shown again.")


@app.command(name="list")
def list_(*, at: Tenant = TENANT) -> None:
    """List the tenant's keys, newest first, including revoked ones."""
    page: Page[KeyView] = Page(_tenants(at, lambda tenants: tenants.keys()))
    columns = ("key_id", "name", "scopes", "created_at", "expires_at", "revoked_at")
    show(page, json=at.json, columns=columns, empty="No keys.")


@app.command
def rotate(key_id: str, /, *, overlap_s: int = 86_400, at: Noted = NOTED) -> None:
    """Give a key a new secret; the old one stays valid for a while.

    Parameters
    ----------
    key_id
        The key.
    overlap_s
        Seconds for which the old secret stays valid.
    """
    request = check_value({"overlap_s": overlap_s}, Rotation)
    show(_tenants(at, lambda tenants: tenants.rotate_key(key_id, request)), json=at.json)


@app.command
def revoke(key_id: str, /, *, at: Noted = NOTED) -> None:
    """Revoke a key at once, with both its secrets.

    Parameters
    ----------
    key_id
        The key.
    """

    async def work(tenants: Tenants) -> KeyView:
        await tenants.revoke_key(key_id)
        return await tenants.key(key_id)

    show(_tenants(at, work), json=at.json)
