"""What is accepted as cron, and when it occurs: against tables of facts, and against an oracle at every change."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice, pairwise

import pytest

from betimes.core.calendar import Gap, Overlap, calendar_of
from betimes.core.cron import check_cron, describe_cron, is_fixed
from betimes.core.instants import DAY, SECOND, parse, render
from docs.build_dst import changes, middle
from tests.automation.cron_cases import DAYS, DEBIAN, LAST_REPETITION, REAL_TIME, REFUSED, RIGA, TIMES
from tests.automation.cron_oracle import occurrences

CHANGES = list(changes().items())
DAY_S = 86_400


def at(local: str) -> int:
    return int(datetime.fromisoformat(local).timestamp()) * SECOND


# -- tables


@pytest.mark.parametrize(("cron", "start", "expected"), DEBIAN)
def test_debians_rule(cron: str, start: str, expected: list[str]) -> None:
    found = list(islice(calendar_of(cron, RIGA).after(at(start)), len(expected)))
    assert found == [at(f"{start[:10]}T{local}") for local in expected]


@pytest.mark.parametrize(("zone", "cron", "expected"), LAST_REPETITION)
def test_the_last_repetition(zone: str, cron: str, expected: list[str]) -> None:
    instants = [at(local) for local in expected]
    calendar = calendar_of(cron, zone, overlap="last")
    for before, behind in pairwise(instants):
        assert next(calendar.after(before)) == behind
        assert next(calendar.after(behind - SECOND)) == behind
        assert next(calendar.before(behind)) == before


@pytest.mark.parametrize(("zone", "cron", "start", "expected"), REAL_TIME)
def test_real_time(zone: str, cron: str, start: str, expected: str) -> None:
    assert next(calendar_of(cron, zone, "skip", "both").after(at(start))) == at(expected)


@pytest.mark.parametrize(("day", "weekday", "month", "expected"), DAYS)
def test_days(day: str, weekday: str, month: int, expected: list[int]) -> None:
    start, end = parse(f"2026-{month:02}-01T00:00:00Z"), parse(f"2026-{month + 1:02}-01T00:00:00Z")
    for cron in (f"0 0 {day} * {weekday}", f"0 0 0 {day.lower()} * {weekday.lower()}"):
        found = calendar_of(cron, "UTC").between(start - 1, end - 1)
        assert [datetime.fromtimestamp(tick // SECOND, UTC).day for tick in found] == expected


@pytest.mark.parametrize(("cron", "expected"), TIMES)
def test_times(cron: str, expected: list[str]) -> None:
    start = parse("2026-02-03T00:00:00Z")
    found = calendar_of(cron, "UTC").between(start - 1, start + DAY - 1)
    assert [f"{datetime.fromtimestamp(tick // SECOND, UTC):%H:%M}" for tick in found] == expected


@pytest.mark.parametrize("cron", REFUSED)
def test_what_is_no_expression_is_refused(cron: str) -> None:
    with pytest.raises(ValueError, match="is not a cron expression"):
        check_cron(cron)


def test_a_wrapped_month_range_goes_over_new_year() -> None:
    start = parse("2026-01-01T00:00:00Z") - 1
    found = calendar_of("0 0 1 NOV-FEB *", "UTC").between(start, start + 365 * DAY)
    assert [render(tick)[5:7] for tick in found] == ["01", "02", "11", "12"]


def test_what_is_rewritten_keeps_its_kind() -> None:
    crons = ("@daily", "@hourly", "0 22-2 * * *", "0 0 ? * MON", "*/5 22-2 * * ?")
    assert [is_fixed(cron) for cron in crons] == [True, False, True, True, False]


# -- sparse expressions


def test_a_quarterly_cron_loses_nothing_of_the_repeated_hour() -> None:
    span = parse("2026-10-24T00:00:00Z"), parse("2026-10-26T00:00:00Z")
    quarterly = calendar_of("*/15 2 25 1,4,7,10 *", "Europe/Berlin", overlap="both")
    monthly = calendar_of("*/15 2 25 * *", "Europe/Berlin", overlap="both")
    assert quarterly.count(*span, 100) == 8
    assert list(quarterly.between(*span)) == list(monthly.between(*span))
    assert next(quarterly.after(span[1])) == parse("2027-01-25T01:00:00Z")


# -- every change of a year, minute by minute


def _crons(at_s: int, before: int, after: int) -> list[str]:
    local = middle(at_s, before, after)
    year_end = (local.month + 5) % 12 + 1
    names = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
    yesterday, today = names[local.weekday() - 1], names[local.weekday()]
    return [
        f"*/15 {local.hour} {local.day} {local.month} *",
        f"{local.minute} {local.hour} {local.day} {local.month},{year_end} ?",
        f"{local.minute}-{(local.minute + 20) % 60} * {local.day} {local.month} *",
        f"*/10 {(local.hour - 1) % 24}-{(local.hour + 1) % 24} * {local.month}-{year_end} {yesterday}-{today}",
        f"{local.minute} 22-4/2 */2 * *",
        f"0 {local.hour} {local.day}W,L,LW * ?",
        f"30 {local.hour} ? * {today}#{(local.day - 1) // 7 + 1}",
        f"*/20 {local.hour},{(local.hour + 2) % 24} {local.day}-{local.day} * {yesterday}",
    ]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{render(change[0][0] * SECOND)} {change[1][0]}")
def test_sparse_and_wrapping_crons_at_every_change_of_the_year(change: tuple[tuple[int, int, int], list[str]]) -> None:
    (at_s, before, after), names = change
    name = names[0]
    start, end = at_s - DAY_S, at_s + DAY_S
    gaps: tuple[Gap | None, ...] = (None, "run_after", "skip")
    overlaps: tuple[Overlap | None, ...] = (None, "first", "last", "both")
    for cron in _crons(at_s, before, after):
        for gap, overlap in zip((*gaps, None), overlaps, strict=True):
            expected = sorted(occurrences(cron, name, start, end, gap, overlap))
            calendar = calendar_of(cron, name, gap, overlap)
            inside = [tick // SECOND for tick in calendar.between(start * SECOND - 1, end * SECOND - 1)]
            far = [tick // SECOND for tick in calendar.between((start - 60 * DAY_S) * SECOND, end * SECOND - 1)]
            back = [tick // SECOND for tick in calendar.newest(start * SECOND - 1, end * SECOND - 1, 10_000)]
            assert inside == expected, (cron, name, gap, overlap)
            assert [second for second in far if second >= start] == expected, (cron, name, gap, overlap)
            assert back == expected, (cron, name, gap, overlap)


@pytest.mark.parametrize("name", ["Australia/Lord_Howe", "Antarctica/Troll", "America/Santiago"])
def test_a_whole_year_by_name(name: str) -> None:
    start = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp())
    for cron in ("*/45 0-3 * * *", "15 23-2 * 3-10 SAT-SUN", "30 1 1W,L * ?"):
        expected = sorted(occurrences(cron, name, start, end, None, None))
        found = calendar_of(cron, name).between(start * SECOND - 1, end * SECOND - 1)
        assert [tick // SECOND for tick in found] == expected, (cron, name)


@pytest.mark.parametrize(
    ("cron", "text"),
    [
        ("30 7 * * *", "At 07:30 every day"),
        ("15 30 7 * * *", "At 07:30:15 every day"),
        ("@weekly", "At 00:00 on Sunday"),
        ("0 9 * * FRI-MON", "At 09:00 on Friday, Saturday, Sunday, and Monday"),
        ("0 0 15W * *", "At 00:00 on the 15th day of every month (15W: the nearest weekday)"),
        ("0 0 LW * ?", "At 00:00 on the last weekday of every month"),
    ],
)
def test_an_expression_is_said_in_english(cron: str, text: str) -> None:
    assert describe_cron(cron) == text


@pytest.mark.parametrize(
    ("cron", "told"),
    [
        ("x", "it has 1 field; write 5, or 6 with the seconds first"),
        ("0 25 * * *", "its hour '25' is not valid; use 0–23"),
        ("0 8 * * mon-fry", "its day-of-week 'MON-FRY' is not valid; use 0–7 or SUN–SAT"),
        ("0 0 30 2 *", "its day-of-month '30' is not valid; use 1–31 or L, and a day that its months have"),
        ("99 0 0 * * *", "its second '99' is not valid; use 0–59"),
    ],
)
def test_what_is_wrong_with_a_cron_is_told_with_what_its_field_takes(cron: str, told: str) -> None:
    with pytest.raises(ValueError, match="is not a cron expression") as refused:
        check_cron(cron)
    assert str(refused.value) == f"{cron!r} is not a cron expression: {told}"
