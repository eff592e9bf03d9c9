"""`betimes day`: one day of a person or an account, in their own hours."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from cyclopts import Parameter

from betimes.catalogue import DOMAINS
from betimes.cli.options import TENANT, Tenant, doubting_key
from betimes.cli.output import say, show, show_json
from betimes.core.datetimes import moment
from betimes.core.errors import Invalid, NotFound
from betimes.core.outlooks import Subject
from betimes.core.zones import first_shown, to_local
from betimes.ledger.effect_commands import ask_ledger
from betimes.ledger.service import Ledger
from betimes.ledger.timeline import BandView, TimelineEvent, TimelineView
from betimes.ledger.why_sentences import TimeTeller

COLUMNS = ("at", "what", "answer", "why", "segment_id")


def day(
    id: str,
    /,
    *,
    date: str | None = None,
    account: Annotated[bool, Parameter(negative=())] = False,
    at: Tenant = TENANT,
) -> None:
    """Show a user's day: notifications sent and not sent, runs, and waiting items.

    The day of the account of the same name is included, in the user's local time.

    Parameters
    ----------
    id
        The user, or with --account the account; an account also if no user has that name.
    date
        The day in their own zone, such as 2026-11-17; today by default.
    account
        Show only the account, not the user of the same name.
    """
    wanted = _parse_day(date)
    with doubting_key(at):
        found = ask_ledger(at, lambda ledger: _find_day(ledger, id, wanted, is_account=account))
    view = found.view
    if at.json:
        show_json(view)
        return
    if found.of == "account instead":
        say(f"There is no person {id}. This is the day of the account, as with --account:")
    both = ", with the account of that name" if found.of == "both" else ""
    begin = to_local(view.timezone, view.since)
    say(f"{id} on {begin:%A %Y-%m-%d} in {view.timezone} ({_spell_offsets(view)}){both}")
    for band in sorted(view.bands, key=lambda band: band.since):
        say(f"  {_spell_band(band, view)}")
    show({"items": list(_lines(view))}, json=False, columns=COLUMNS, empty="Nothing was decided, and nothing waits.")
    if view.truncated:
        say("Not everything is shown here; betimes ledger has all of it.")


def _spell_offsets(view: TimelineView) -> str:
    """Return how far the zone is from UTC, both distances on a day on which its clock changes."""
    ends = (view.since, view.until - timedelta(microseconds=1))
    offsets = (f"{to_local(view.timezone, end):%z}" for end in ends)
    return " and then ".join(dict.fromkeys(f"UTC{offset[:3]}:{offset[3:]}" for offset in offsets))


def _parse_day(text: str | None) -> date | None:
    """Return the day that a text names; raise `Invalid` with the form if it names none."""
    if text is None:
        return None
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{text[:80]!r} is not a date; write it like 2026-11-17", (("date", "year-month-day"),)) from None
    if found == date.max:  # it has no end
        raise Invalid(f"{text[:80]} is the last day of the calendar; name an earlier one", (("date", "too late"),))
    return found


class _FoundDay(msgspec.Struct, frozen=True):
    view: TimelineView
    of: Literal["subject", "both", "account instead"]
    """Whose day it is: that of whom was asked for, also that of the account of that name, or only that of the
    account because there is no such person."""


async def _find_day(ledger: Ledger, id: str, date: date | None, *, is_account: bool) -> _FoundDay:
    """Return the day of an account, or of a person with the account of that name; raise `NotFound` if there is none."""
    view = await _read_day(ledger, "account_id" if is_account else "user_id", id, date)
    is_only_account = not _has_anything(view) and await _find_subject(ledger, id) == "account_id"
    if is_account:
        return _FoundDay(view, "subject")
    if is_only_account:
        return _FoundDay(await _read_day(ledger, "account_id", id, date), "account instead")
    account = await ledger.timeline(account_id=id, since=view.since, until=view.until)
    return _FoundDay(_merge_days(view, account), "both") if _has_anything(account) else _FoundDay(view, "subject")


def _has_anything(view: TimelineView) -> bool:
    return bool(view.items or view.waiting or view.bands or view.forecast)


def _merge_days(person: TimelineView, account: TimelineView) -> TimelineView:
    """Return both days as one, in the zone of the person."""
    return msgspec.structs.replace(
        person,
        items=sorted([*person.items, *account.items], key=lambda event: event.at),
        waiting=sorted([*person.waiting, *account.waiting], key=lambda item: item.at),
        bands=[*person.bands, *account.bands],
        fills=[*person.fills, *account.fills],
        forecast=[*person.forecast, *account.forecast],
        bands_exact=person.bands_exact and account.bands_exact,
        truncated=person.truncated or account.truncated,
        unreadable=[*person.unreadable, *account.unreadable],
    )


async def _read_day(ledger: Ledger, subject: Subject, id: str, date: date | None) -> TimelineView:
    """Return the timeline of one day, which begins and ends in the zone of the person."""
    named: dict[str, Any] = {subject: id}
    # Asked for the zone first: where a day begins depends on it.
    known = await ledger.timeline(**named)
    since, until = day_bounds(known.timezone, date or to_local(known.timezone, known.now).date())
    return await ledger.timeline(**named, since=since, until=until)


async def _find_subject(ledger: Ledger, id: str) -> Subject:
    """Return whether a person or only an account has this name; raise `NotFound` if nothing has.

    A day on which nothing happened is no such case.
    """
    kinds = {hit.kind for hit in (await ledger.search(id)).items if hit.type == "stream" and hit.id == id}
    if not kinds:
        raise NotFound(
            f"there is no person {id[:80]!r}: name a person, or an account with --account; betimes ledger shows "
            "which there are, and betimes why finds other names"
        )
    named = {one.subject for domain in DOMAINS for one in domain.subjects if one.kind in kinds and not one.by_owner}
    return "account_id" if named == {"account_id"} else "user_id"


def day_bounds(timezone: str, day: date) -> tuple[datetime, datetime]:
    """Return when a day of a zone begins and ends."""
    begin, end = (datetime(at.year, at.month, at.day) for at in (day, day + timedelta(days=1)))  # noqa: DTZ001 — local
    return moment(first_shown(timezone, begin)), moment(first_shown(timezone, end))


def _spell_band(band: BandView, view: TimelineView) -> str:
    until = _clock(band.until, view) if band.until else "…"
    label = f" ({band.label})" if band.label else ""
    return f"{_clock(band.since, view)}–{until} {band.name.replace('_', ' ')}{label}"


class _Row(NamedTuple):
    at: datetime
    what: str
    answer: str
    why: str
    segment_id: str | None


def _lines(view: TimelineView) -> list[dict[str, Any]]:
    """Return what was decided, what waits and what is to be expected, in the order of time."""
    decided = [
        _Row(item.at, _spell_subject(item), item.outcome, _spell_reason(item, view), item.segment_id)
        for item in view.items
    ]
    waiting = [
        _Row(item.at, f"{item.what} {item.key or ''}".strip(), "waits", ", ".join(item.reasons), item.segment_id)
        for item in view.waiting
        if item.at < view.until
    ]
    expected = [_Row(one.at, f"{one.kind} {one.name}", "expected", one.value, None) for one in view.forecast]
    rows = sorted([*decided, *waiting, *expected], key=lambda row: row[0])
    judged = {item.segment_id for item in view.items if item.judged}
    return [_fold_run(run, view) for run in _find_runs(rows, judged)]


def _find_runs(rows: Sequence[_Row], judged: set[str]) -> list[list[_Row]]:
    """Return the rows that follow each other with the same answer about the same thing, by the first of each.

    A notification or trigger that was judged, and what is still to come, is alone and ends all runs: a hundred checks
    of an intent must not hide what the person was told, nor when.
    """
    runs: list[list[_Row]] = []
    latest: dict[str, list[_Row]] = {}
    for row in rows:
        is_alone = row.answer in ("waits", "expected") or row.segment_id in judged
        if is_alone:
            latest.clear()
        elif (run := latest.get(row.what)) and run[-1].answer == row.answer:
            run.append(row)
            continue
        runs.append([row])
        if not is_alone:
            latest[row.what] = runs[-1]
    return runs


def _fold_run(run: Sequence[_Row], view: TimelineView) -> dict[str, Any]:
    """Return the line of rows that say the same: how many they are, from the first to the last; the last one's why."""
    first, last = run[0], run[-1]
    line = dict(zip(COLUMNS, (_clock(last.at, view), *last[1:]), strict=True))
    if len(run) > 1:
        line |= {"at": f"{_clock(first.at, view)}–{line['at']}", "answer": f"{len(run)} × {last.answer}"}
    return line


def _spell_subject(event: TimelineEvent) -> str:
    """Return what an event is about: the notifications or triggers it judged, else its stream."""
    judged = ", ".join(f"{one.what or ''} {one.key}".strip() for one in event.judged)
    return judged or f"{event.kind} {event.id}"


def _spell_reason(event: TimelineEvent, view: TimelineView) -> str:
    """Return why, with instants as the person would say them."""
    return TimeTeller(view.timezone, event.at).localize(event.explanation)


def _clock(at: datetime, view: TimelineView) -> str:
    """Return the time of day in the person's zone; of another day, with its date."""
    local, day = to_local(view.timezone, at), to_local(view.timezone, view.since).date()
    return f"{local:%H:%M:%S}" if local.date() == day else f"{local:%m-%d %H:%M}"
