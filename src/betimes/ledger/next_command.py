"""`betimes next`: what waits, soonest first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from betimes.cli.options import TENANT, Paging, Tenant
from betimes.cli.output import say, show, show_json
from betimes.core.datetimes import moment
from betimes.ledger.effect_commands import ask_ledger
from betimes.ledger.service import Ledger
from betimes.ledger.upcoming import UpcomingItem, UpcomingRow, UpcomingView

COLUMNS = ("at", "kind", "id", "owner", "what", "reasons", "would_pass_at")


def next_(
    *,
    hours: float = 24.0,
    kinds: str | None = None,
    reason: str | None = None,
    paging: Paging = Paging(limit=20),  # noqa: B008 — frozen
    at: Tenant = TENANT,
) -> None:
    """Say what comes next: how much of each kind, and what waits, soonest first.

    Parameters
    ----------
    hours
        How far to look ahead.
    kinds
        Only these kinds of streams, with commas: inbox,account,schedule.
    reason
        Only what waits for this reason, such as QUIET_HOURS.
    """

    async def work(ledger: Ledger) -> dict[str, Any]:
        now = moment(await ledger.engine.store.now())
        until = now + timedelta(hours=hours)
        counts = await ledger.upcoming(to=until, kinds=kinds)
        page = await ledger.upcoming_items(to=until, kinds=kinds, reason=reason, **vars(paging))
        return {"upcoming": counts, "items": page.items, "next_cursor": page.next_cursor}

    found = ask_ledger(at, work)
    if at.json:
        show_json(found)
        return
    say(_spell_counts(found["upcoming"], hours))
    items = [_line(item) for item in found["items"]]
    show({"items": items, "next_cursor": found["next_cursor"]}, json=False, columns=COLUMNS, empty="Nothing waits.")


def _spell_counts(view: UpcomingView, hours: float) -> str:
    """Return in a sentence how much comes, of which kinds."""
    counts = ", ".join(f"{_accuracy(row)}{sum(row.counts):,} {row.kind}" for row in view.rows)
    late = f" {view.late.count:,} are late." if view.late.count else ""
    return f"In the next {hours:g} hours: {counts or 'nothing'}.{late}"


def _accuracy(row: UpcomingRow) -> str:
    return "about " if row.estimated else "at least " if row.truncated else ""


def _line(item: UpcomingItem) -> dict[str, Any]:
    late = " (late)" if item.late else ""
    return {
        "at": f"{item.at:%Y-%m-%dT%H:%M:%SZ}{late}",
        "kind": item.kind,
        "id": item.id,
        "owner": item.owner,
        "what": item.what + (f" {item.key}" if item.key else ""),
        "reasons": ", ".join(item.reasons) or None,
        "would_pass_at": item.would_pass_at,
    }
