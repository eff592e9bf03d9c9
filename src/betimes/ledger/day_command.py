"""`betimes day`: one day of a person or an account, in their own hours."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Annotated, Any

from cyclopts import Parameter

from betimes.catalogue import DOMAINS
from betimes.cli.options import TENANT, Tenant
from betimes.cli.output import say, show, show_json
from betimes.core.datetimes import moment
from betimes.core.errors import NotFound
from betimes.core.outlooks import Subject
from betimes.core.zones import first_shown, zone
from betimes.ledger.effect_commands import ask_ledger
from betimes.ledger.service import Ledger
from betimes.ledger.timeline import BandView, TimelineEvent, TimelineView

COLUMNS = ("at", "what", "answer", "why", "segment_id")


def day(
    id: str,
    /,
    *,
    date: date | None = None,
    account: Annotated[bool, Parameter(negative=())] = False,
    at: Tenant = TENANT,
) -> None:
    """Show a day of a person: what they were told and not told, what ran, what waits.

    Parameters
    ----------
    id
        The person, or with --account the account; also an account whose name no person has.
    date
        The day in their own zone; today by default.
    account
        Whether it is an account.
    """

    async def work(ledger: Ledger) -> tuple[TimelineView, bool]:
        view = await _read_day(ledger, "account_id" if account else "user_id", id, date)
        if view.items or view.waiting or view.bands or view.forecast:
            return view, False
        is_other = await _find_subject(ledger, id) == "account_id" and not account
        return (await _read_day(ledger, "account_id", id, date) if is_other else view), is_other

    view, is_other = ask_ledger(at, work)
    if at.json:
        show_json(view)
        return
    if is_other:
        say(f"No person is called {id}. This is the day of the account, as with --account:")
    local = zone(view.timezone)
    offset = f"{view.since.astimezone(local):%z}"
    say(f"{id} on {view.since.astimezone(local):%A %Y-%m-%d} in {view.timezone} (UTC{offset[:3]}:{offset[3:]})")
    for line in _band_lines(view):
        say(line)
    show({"items": list(_lines(view))}, json=False, columns=COLUMNS, empty="Nothing was decided, and nothing waits.")
    if view.truncated:
        say("There was more than is shown here: betimes ledger has all of it.")


async def _read_day(ledger: Ledger, subject: Subject, id: str, date: date | None) -> TimelineView:
    """Return the timeline of one day, which begins and ends in the zone of the person."""
    named: dict[str, Any] = {subject: id}
    # Asked for the zone first: where a day begins depends on it.
    known = await ledger.timeline(**named)
    since, until = day_bounds(known.timezone, date or known.now.astimezone(zone(known.timezone)).date())
    return await ledger.timeline(**named, since=since, until=until)


async def _find_subject(ledger: Ledger, id: str) -> Subject:
    """Return whether a person or only an account has this name; raise `NotFound` if nothing has.

    A day on which nothing happened is no such case.
    """
    kinds = {hit.kind for hit in (await ledger.search(id)).items if hit.type == "stream" and hit.id == id}
    if not kinds:
        raise NotFound(
            f"nobody is called {id[:80]!r}: name a person, or an account with --account; betimes ledger shows who "
            "there is, and betimes why finds what has another name"
        )
    named = {one.subject for domain in DOMAINS for one in domain.subjects if one.kind in kinds and not one.by_owner}
    return "account_id" if named == {"account_id"} else "user_id"


def day_bounds(timezone: str, day: date) -> tuple[datetime, datetime]:
    """Return when a day of a zone begins and ends."""
    begin, end = (datetime(at.year, at.month, at.day) for at in (day, day + timedelta(days=1)))  # noqa: DTZ001 — local
    return moment(first_shown(timezone, begin)), moment(first_shown(timezone, end))


def _band_lines(view: TimelineView) -> list[str]:
    return [f"  {_spell_band(band, view)}" for band in sorted(view.bands, key=lambda band: band.since)]


def _spell_band(band: BandView, view: TimelineView) -> str:
    until = _clock(band.until, view) if band.until else "…"
    label = f" ({band.label})" if band.label else ""
    return f"{_clock(band.since, view)}–{until} {band.name.replace('_', ' ')}{label}"


def _lines(view: TimelineView) -> list[dict[str, Any]]:
    """Return what was decided, what waits and what is to be expected, in the order of time."""
    decided = [(item.at, _spell_subject(item), item.outcome, item.explanation, item.segment_id) for item in view.items]
    waiting = [
        (item.at, f"{item.what} {item.key or ''}".strip(), "waits", ", ".join(item.reasons), item.segment_id)
        for item in view.waiting
        if item.at < view.until
    ]
    expected = [(one.at, f"{one.kind} {one.name}", "expected", one.value, None) for one in view.forecast]
    rows = sorted([*decided, *waiting, *expected], key=lambda row: row[0])
    return [dict(zip(COLUMNS, (_clock(row[0], view), *row[1:]), strict=True)) for row in rows]


def _spell_subject(event: TimelineEvent) -> str:
    """Return what an event is about: the notifications or triggers it judged, else its stream."""
    judged = ", ".join(f"{one.what or ''} {one.key}".strip() for one in event.judged)
    return judged or f"{event.kind} {event.id}"


def _clock(at: datetime, view: TimelineView) -> str:
    """Return the time of day in the person's zone; of another day, with its date."""
    local, day = at.astimezone(zone(view.timezone)), view.since.astimezone(zone(view.timezone)).date()
    return f"{local:%H:%M:%S}" if local.date() == day else f"{local:%m-%d %H:%M}"
