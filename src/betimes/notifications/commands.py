"""`betimes notification …`: what became of one, and what to do with one that waits."""

from __future__ import annotations

from cyclopts import App

from betimes.cli.options import Tenant, for_tenant
from betimes.cli.output import show

app = App(
    name="notification",
    help="Notifications: what became of one; cancel or release one that waits.",
    help_format="plaintext",
)


@app.command(name="show")
def show_(event_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Say what became of a notification.

    Parameters
    ----------
    event_id
        The id it was sent under.
    """
    show(for_tenant(at, lambda bt: bt.notifications.notification(event_id, trace=at.json)), json=at.json)


@app.command
def cancel(event_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Cancel a notification that waits: nobody hears it.

    Parameters
    ----------
    event_id
        The id it was sent under.
    """
    show(for_tenant(at, lambda bt: bt.notifications.cancel(event_id, trace=at.json)), json=at.json)


@app.command
def release(event_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Send a notification that waits now, unless it has expired or the person is banned or opted out.

    Parameters
    ----------
    event_id
        The id it was sent under.
    """
    show(for_tenant(at, lambda bt: bt.notifications.release(event_id, trace=at.json)), json=at.json)
