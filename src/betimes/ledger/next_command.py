"""`betimes next`: list what is waiting, soonest first."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from betimes.cli.options import TENANT, Paging, Tenant, check_zone
from betimes.cli.output import count_noun, say, show, show_json, spell_moment
from betimes.core.datetimes import instant, moment
from betimes.core.errors import Invalid
from betimes.core.instants import parse, render
from betimes.ledger.effect_commands import ask_ledger
from betimes.ledger.service import Ledger
from betimes.ledger.upcoming import UpcomingItem, UpcomingRow, UpcomingView

HOURS_MAX = 24 * 3_660
COLUMNS = ("at", "kind", "id", "owner", "what", "reasons", "would_pass_at")


def next_(
    *,
    hours: float = 24.0,
    kinds: str | None = None,
    reason: str | None = None,
    zone: str = "UTC",
    paging: Paging = Paging(limit=20),  # noqa: B008 — frozen
    at: Tenant = TENANT,
) -> None:
    """Show what comes next: counts by kind, and waiting items, soonest first.

    All items of one stream, such as a user's inbox, are on the page of its first item; so the next page may begin
    earlier than this one ends.

    Parameters
    ----------
    hours
        How far to look ahead.
    kinds
        Only these kinds of streams, comma-separated: inbox,account,schedule.
    reason
        Only items that wait for this reason, such as QUIET_HOURS.
    zone
        Time zone for display.
    """
    check_zone(zone)
    if not 0 < hours <= HOURS_MAX:
        raise Invalid(f"look ahead by at most {HOURS_MAX:,} hours", (("hours", f"more than 0, up to {HOURS_MAX:,}"),))

    async def work(ledger: Ledger) -> dict[str, Any]:
        backlog = await ledger.backlog()
        until, cursor = _read_cursor(paging.cursor) or (backlog.now + timedelta(hours=hours), None)
        counts = await ledger.upcoming(to=until, kinds=kinds)
        page = await ledger.upcoming_items(to=until, kinds=kinds, reason=reason, limit=paging.limit, cursor=cursor)
        more = page.next_cursor and f"{render(instant(until))}.{page.next_cursor}"
        pending = backlog.effects_pending
        return {"upcoming": counts, "items": page.items, "next_cursor": more, "effects_pending": pending}

    found = ask_ledger(at, work)
    if at.json:
        show_json(found)
        return
    say(_spell_counts(found["upcoming"], hours))
    items = [_line(item, zone) for item in found["items"]]
    columns = [name for name in COLUMNS if any(item[name] for item in items)]
    show({"items": items, "next_cursor": found["next_cursor"]}, json=False, columns=columns, empty="Nothing waits.")
    if pending := found["effects_pending"]:
        calls = count_noun(pending, "call to the outside is", "calls to the outside are")
        say(f"{calls} pending: `betimes effects list --status pending` says when each is tried next.")


def _read_cursor(text: str | None) -> tuple[datetime, str] | None:
    """Return the end of the list that a cursor continues, and the list's own cursor; raise `Invalid` for another's.

    The list goes so far from now, and its cursor is good for exactly so far only.
    """
    if text is None:
        return None
    until, _, cursor = text.rpartition(".")
    if not cursor or not until:
        raise Invalid(
            "`betimes next` did not print this cursor; start without --cursor", (("cursor", "not one of these"),)
        )
    return moment(parse(until)), cursor


def _spell_counts(view: UpcomingView, hours: float) -> str:
    """Return a sentence with the counts of each kind."""
    counts = ", ".join(f"{_accuracy(row)}{_count_kind(sum(row.counts), row.kind)}" for row in view.rows)
    late = f" {count_noun(view.late.count, 'is', 'are')} late." if view.late.count else ""
    return f"In the next {'hour' if hours == 1 else f'{hours:g} hours'}: {counts or 'nothing'}.{late}"


def _count_kind(count: int, kind: str) -> str:
    return count_noun(count, kind, f"{kind}es" if kind.endswith(("x", "s")) else "")


def _accuracy(row: UpcomingRow) -> str:
    return "about " if row.estimated else "at least " if row.truncated else ""


def _line(item: UpcomingItem, zone: str) -> dict[str, Any]:
    late = " (late)" if item.late else ""
    return {
        "at": f"{spell_moment(item.at, zone)}{late}",
        "kind": item.kind,
        "id": item.id,
        "owner": item.owner,
        "what": item.what + (f" {item.key}" if item.key else ""),
        "reasons": ", ".join(item.reasons) or None,
        "would_pass_at": item.would_pass_at and spell_moment(item.would_pass_at, zone),
    }
