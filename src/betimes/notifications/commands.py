"""`betimes notification …`: what became of one, and what to do with one that waits; `betimes inbox …`."""

from __future__ import annotations

from cyclopts import App

from betimes.cli.options import Paging, Tenant, for_tenant
from betimes.cli.output import show

notification = App(
    name="notification",
    help="Notifications: what became of one; cancel or release one that waits.",
    help_format="plaintext",
)

inbox = App(name="inbox", help="A person's inbox.", help_format="plaintext")


@notification.command(name="show")
def show_(event_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Say what became of a notification.

    Parameters
    ----------
    event_id
        The id it was sent under.
    """
    show(for_tenant(at, lambda bt: bt.notifications.notification(event_id, trace=at.json)), json=at.json)


@notification.command
def cancel(event_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Cancel a notification that waits: nobody hears it.

    Parameters
    ----------
    event_id
        The id it was sent under.
    """
    show(for_tenant(at, lambda bt: bt.notifications.cancel(event_id, trace=at.json)), json=at.json)


@notification.command
def release(event_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Send a notification that waits now, unless it has expired or the person is banned or opted out.

    Parameters
    ----------
    event_id
        The id it was sent under.
    """
    show(for_tenant(at, lambda bt: bt.notifications.release(event_id, trace=at.json)), json=at.json)


@inbox.command(name="show")
def show_inbox(user_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Show what a person was told lately against the caps, until when it is quiet, and what waits."""
    show(for_tenant(at, lambda bt: bt.notifications.notification_state(user_id)), json=at.json)


@inbox.command
def messages(
    user_id: str,
    /,
    *,
    unread: bool | None = None,
    paging: Paging = Paging(),  # noqa: B008 — frozen
    at: Tenant = Tenant(),  # noqa: B008 — frozen
) -> None:
    """List a person's in-app messages, newest first.

    Parameters
    ----------
    unread
        Only those that were not read yet, or only those that were.
    """
    page = for_tenant(at, lambda bt: bt.notifications.inbox(user_id, unread=unread, **vars(paging)))
    show(page, json=at.json, columns=("item_id", "event_type", "title", "message", "delivered_at", "read_at"))


@inbox.command
def preferences(user_id: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Show a person's zone, quiet hours, opt-outs, digest windows and addresses."""
    show(for_tenant(at, lambda bt: bt.notifications.preferences(user_id)), json=at.json)
