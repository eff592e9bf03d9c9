"""`betimes notification …`: show, cancel or release a notification; `betimes inbox …`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from betimes.cli.options import NOTED, PAGING, TENANT, Noted, Paging, Tenant, show_answer

notification = App(
    name="notification",
    help="Notifications: show one; cancel or release a waiting one.",
    help_format="plaintext",
)

inbox = App(name="inbox", help="A person's inbox.", help_format="plaintext")
EventId = Annotated[str, Parameter(help="The id it was sent under.")]


@notification.command(name="show")
def show_(event_id: EventId, /, *, at: Tenant = TENANT) -> None:
    """Show the status of a notification."""
    show_answer(at, lambda bt: bt.notifications.notification(event_id, trace=at.json))


@notification.command
def cancel(event_id: EventId, /, *, at: Noted = NOTED) -> None:
    """Cancel a waiting notification: it is never sent."""
    show_answer(at, lambda bt: bt.notifications.cancel(event_id, trace=at.json))


@notification.command
def release(event_id: EventId, /, *, at: Noted = NOTED) -> None:
    """Send a waiting notification now, unless it has expired or the user is banned or opted out."""
    show_answer(at, lambda bt: bt.notifications.release(event_id, trace=at.json))


@inbox.command(name="show")
def show_inbox(user_id: str, /, *, at: Tenant = TENANT) -> None:
    """Show a user's recent notifications against the caps, the end of quiet hours, and waiting items."""
    show_answer(at, lambda bt: bt.notifications.notification_state(user_id))


@inbox.command
def messages(user_id: str, /, *, unread: bool | None = None, paging: Paging = PAGING, at: Tenant = TENANT) -> None:
    """List a user's in-app messages, newest first.

    Parameters
    ----------
    unread
        Only unread messages, or only read ones.
    """
    show_answer(
        at,
        lambda bt: bt.notifications.inbox(user_id, unread=unread, **vars(paging)),
        columns=("item_id", "event_type", "title", "message", "delivered_at", "read_at"),
    )


@inbox.command
def preferences(user_id: str, /, *, at: Tenant = TENANT) -> None:
    """Show a user's zone, quiet hours, opt-outs, digest windows and addresses."""
    show_answer(at, lambda bt: bt.notifications.preferences(user_id))
