"""Occurrences of cron expressions, held against a clock on the wall that is read minute by minute."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from betimes.core.calendar import Gap, Overlap, _match_memo, calendar_of
from betimes.core.cron import is_fixed
from betimes.core.instants import DAY, HOUR, MINUTE, SECOND, parse, render
from betimes.core.zones import zone, zone_names
from docs.build_dst import changes, middle, page
from tests.automation.cron_oracle import occurrences

NINE = parse("2026-01-05T09:00:00Z")
PARTS = 4


def ticks(
    cron: str, name: str, start: str, count: int, gap: Gap | None = None, overlap: Overlap | None = None
) -> list[str]:
    return [render(tick) for tick in islice(calendar_of(cron, name, gap, overlap).after(parse(start)), count)]


def expected(cron: str, name: str, at: int, gap: Gap | None, overlap: Overlap | None) -> list[int]:
    """Read the wall of the two days around a change."""
    return sorted(occurrences(cron, name, at - 86_400, at + 86_400, gap, overlap))


def actual(cron: str, name: str, at: int, gap: Gap | None, overlap: Overlap | None) -> list[int]:
    calendar = calendar_of(cron, name, gap, overlap)
    return [tick // SECOND for tick in calendar.between((at - 86_400) * SECOND - 1, (at + 86_400 - 60) * SECOND)]


def test_the_year_has_changes_of_every_size() -> None:
    assert {after - before for _, before, after in changes()} >= {3_600, -3_600, 1_800, -1_800, 7_200, -7_200}
    assert sum(len(names) for names in changes().values()) > 250


@pytest.mark.parametrize("part", range(PARTS))
def test_every_change_of_local_time_of_the_year(part: int, subtests: pytest.Subtests) -> None:
    """Finding the changes takes seconds, which only those that run this are to spend: hence no parameter for each."""
    for (at, before, after), names in [*changes().items()][part::PARTS]:
        with subtests.test(f"{render(at * SECOND)} {names[0]}"):
            _check_change(at, middle(at, before, after), names)


def _check_change(at: int, local: datetime, names: list[str]) -> None:
    fixed = f"{local.minute} {local.hour} * * *"
    for name in names:
        assert actual(fixed, name, at, None, None) == expected(fixed, name, at, "run_after", "first"), name
        assert actual("*/7 * * * *", name, at, None, None) == expected("*/7 * * * *", name, at, "skip", "both"), name
    for gap in ("run_after", "skip"):
        for overlap in ("first", "last", "both"):
            for cron in (fixed, "*/20 * * * *", "59 0,1,2,3,23 * * *"):
                assert actual(cron, name, at, gap, overlap) == expected(cron, name, at, gap, overlap)


def test_the_table_in_the_docs_is_what_the_code_does() -> None:
    written = (Path(__file__).parent.parent.parent / "docs" / "dst.md").read_text()
    assert written == page(), "run: python docs/build_dst.py > docs/dst.md"


# -- by name


def test_lord_howe_moves_by_half_an_hour() -> None:
    assert ticks("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T00:00:00Z", 3) == [
        "2026-10-02T15:45:00Z",
        "2026-10-03T15:30:00Z",
        "2026-10-04T15:15:00Z",
    ]
    assert ticks("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", 2) == [
        "2026-04-04T14:45:00Z",
        "2026-04-05T15:15:00Z",
    ]


def test_troll_moves_by_two_hours() -> None:
    assert ticks("30 1 * * *", "Antarctica/Troll", "2026-03-28T02:00:00Z", 2) == [
        "2026-03-29T01:00:00Z",
        "2026-03-29T23:30:00Z",
    ]


def test_santiago_skips_midnight() -> None:
    assert ticks("0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", 2) == [
        "2026-09-06T04:00:00Z",
        "2026-09-07T03:00:00Z",
    ]


def test_samoa_once_skipped_a_whole_day() -> None:
    assert ticks("0 10 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", 3) == [
        "2011-12-29T20:00:00Z",
        "2011-12-30T10:00:00Z",
        "2011-12-30T20:00:00Z",
    ]


def test_what_a_schedule_says_overrides_its_kind() -> None:
    berlin = "Europe/Berlin", "2026-03-28T12:00:00Z", 1
    assert ticks("30 2 * * *", *berlin) == ["2026-03-29T01:00:00Z"]
    assert ticks("30 2 * * *", *berlin, gap="skip") == ["2026-03-30T00:30:00Z"]
    autumn = "Europe/Berlin", "2026-10-24T12:00:00Z", 3
    assert ticks("30 2 * * *", *autumn)[:2] == ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    assert ticks("30 2 * * *", *autumn, overlap="last")[:2] == ["2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]
    assert ticks("30 2 * * *", *autumn, overlap="both") == [
        "2026-10-25T00:30:00Z",
        "2026-10-25T01:30:00Z",
        "2026-10-26T01:30:00Z",
    ]


def test_several_ticks_in_one_gap_are_one() -> None:
    assert ticks("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2) == [
        "2026-03-29T01:00:00Z",
        "2026-03-30T00:00:00Z",
    ]


def test_wildcard_hours_or_minutes_keep_real_time() -> None:
    assert [is_fixed(cron) for cron in ("0 9 * * *", "*/5 9 * * *", "0 */2 * * *", "0 0 9 * * *", "* * * * * *")] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert ticks("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 4) == [
        "2026-10-25T00:00:00Z",
        "2026-10-25T01:00:00Z",
        "2026-10-25T02:00:00Z",
        "2026-10-25T03:00:00Z",
    ]


def test_the_29th_of_february_and_the_fifth_monday_are_found() -> None:
    assert ticks("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", 2) == ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]
    assert ticks("0 0 * 2 MON#5", "America/New_York", "2026-01-01T00:00:00Z", 1) == ["2044-02-29T05:00:00Z"]
    assert ticks("0 0 1 1 *", "UTC", "9890-01-01T00:00:00Z", 99) != []


# -- properties

CRONS = st.sampled_from(
    [
        "* * * * *",
        "*/5 * * * *",
        "17 3 * * *",
        "0 0 * * MON",
        "30 1,2 * * *",
        "0 9 1 * *",
        "*/30 * * * * *",
        "0 0 7 * 5",
    ]
)
ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Antarctica/Troll", "Africa/Casablanca"]
)
INSTANTS = st.integers(parse("2025-12-01T00:00:00Z"), parse("2027-02-01T00:00:00Z"))


@given(CRONS, ZONES, INSTANTS, st.integers(0, 40 * DAY))
def test_occurrences_do_not_depend_on_where_one_starts(cron: str, name: str, start: int, later: int) -> None:
    calendar = calendar_of(cron, name)
    whole = list(islice(calendar.after(start), 200))
    assert whole == sorted(set(whole))
    middle = min(start + later, whole[-1])
    assert [tick for tick in whole if tick > middle] == list(calendar.between(middle, whole[-1]))


@given(CRONS, ZONES, INSTANTS, st.lists(st.integers(-40 * DAY, 40 * DAY), max_size=8))
def test_what_was_walked_before_changes_no_answer(cron: str, name: str, start: int, elsewhere: list[int]) -> None:
    calendar = calendar_of(cron, name)
    _match_memo.cache_clear()
    fresh = list(islice(calendar.after(start), 5))
    _match_memo.cache_clear()
    for offset in elsewhere:
        list(islice(calendar.after(start + offset), 3))
    assert calendar.next(start) == fresh[0]
    assert list(islice(calendar.after(start), 5)) == fresh
    assert [calendar.next(tick) for tick in (start, *fresh[:-1])] == fresh
    assert all(list(islice(calendar.after(tick - 1), 1)) == [tick] for tick in fresh)


@given(CRONS, ZONES, INSTANTS, st.integers(1, 3 * DAY), st.integers(1, 50))
def test_the_newest_are_the_last_of_all(cron: str, name: str, start: int, span: int, limit: int) -> None:
    calendar = calendar_of(cron, name)
    assert calendar.newest(start, start + span, limit) == list(calendar.between(start, start + span))[-limit:]


@given(CRONS, INSTANTS)
def test_in_utc_it_is_what_cronsim_says(cron: str, start: int) -> None:
    moment = datetime.fromtimestamp(start // SECOND, UTC)
    theirs = [int(tick.timestamp()) * SECOND for tick in islice(CronSim(cron, moment), 20)]
    assert list(islice(calendar_of(cron, "UTC").after(start // SECOND * SECOND), 20)) == theirs


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "America/Santiago"])
def test_debians_rule_is_cronsims_too(name: str) -> None:
    """Where cronsim knows the rule, for five fields, it agrees."""
    start = datetime(2026, 1, 1, tzinfo=zone(name))
    for cron in ("30 2 * * *", "0 0 * * *", "*/20 * * * *", "15 */3 * * *"):
        theirs = [int(tick.timestamp()) * SECOND for tick in islice(CronSim(cron, start), 3_000)]
        ours = list(islice(calendar_of(cron, name).after(int(start.timestamp()) * SECOND), 3_000))
        assert ours == list(dict.fromkeys(theirs))


def test_counting_is_bounded() -> None:
    calendar = calendar_of("* * * * * *", "UTC")
    assert calendar.count(NINE, NINE + 365 * DAY, 10_001) == 10_001
    assert calendar.newest(NINE, NINE + 365 * DAY, 2) == [NINE + 365 * DAY - SECOND, NINE + 365 * DAY]
    assert calendar.last(NINE, NINE + HOUR + 1) == NINE + HOUR
    assert calendar.first(NINE + MINUTE, NINE + MINUTE) is None


def test_all_zones_can_be_read() -> None:
    assert len(zone_names()) > 400
    assert all(zone(name).key == name for name in zone_names())
