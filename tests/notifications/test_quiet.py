"""Quiet hours on instants, through every transition of every zone in a year, against a scan of the wall clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from betimes.core.instants import DAY, HOUR, MINUTE, SECOND, Instant, parse, render
from betimes.core.jitter import spread
from betimes.core.streams import StreamId
from betimes.core.zones import zone as pinned
from betimes.core.zones import zone_names
from betimes.notifications.decide import INBOX
from betimes.notifications.local_time import local_day, next_day, next_hour, wall
from betimes.notifications.model import Released
from betimes.notifications.quiet_hours import DAY_MINUTES, QuietHours, problems_of, quiet_until
from betimes.testing.scenarios import given as scenario_of
from tests.notifications.inboxes import NIGHT, SECTIONS, inbox, note, preferences

YEAR = (parse("2026-01-01T00:00:00Z"), parse("2027-01-01T00:00:00Z"))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(at: Instant) -> datetime:
    return EPOCH + timedelta(microseconds=at)


def shown(zone: ZoneInfo, at: Instant) -> datetime:
    """What the wall shows, by the standard library."""
    return moment(at).astimezone(zone).replace(tzinfo=None)


def transitions(zone: ZoneInfo) -> list[Instant]:
    """To the minute, found by looking every day and halving: no zone changes twice within one."""
    found, at = [], YEAR[0]
    while at < YEAR[1]:
        then = at + DAY
        low, high = at, then
        if moment(low).astimezone(zone).utcoffset() != moment(high).astimezone(zone).utcoffset():
            while high - low > MINUTE:
                middle = (low + high) // 2 // MINUTE * MINUTE
                same = moment(low).astimezone(zone).utcoffset() == moment(middle).astimezone(zone).utcoffset()
                low, high = (middle, high) if same else (low, middle)
            found.append(high)
        at = then
    return found


@cache
def zones() -> dict[str, list[Instant]]:
    return {name: found for name in sorted(zone_names()) if (found := transitions(pinned(name)))}


def first_shown(zone: ZoneInfo, wanted: datetime, around: Instant) -> Instant:
    """The first minute at which the wall shows this or later."""
    at = around - 40 * HOUR
    while shown(zone, at) < wanted:
        step = (wanted - shown(zone, at)) // 2
        at += max(MINUTE, int(step.total_seconds()) // 60 * MINUTE) if step > timedelta(hours=4) else MINUTE
    return at


def scanned(zone: ZoneInfo, window: QuietHours, around: Instant) -> list[tuple[Instant, Instant]]:
    today = shown(zone, around).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [today + timedelta(days=offset) for offset in (-1, 0)]
    crosses = timedelta(days=window.end < window.start)
    return [
        (
            first_shown(zone, day + timedelta(minutes=window.start), around),
            first_shown(zone, day + crosses + timedelta(minutes=window.end), around),
        )
        for day in days
        if day.weekday() in window.days
    ]


WINDOWS = (NIGHT, QuietHours(2 * 60 + 30, 3 * 60 + 15), QuietHours(60 + 30, 2 * 60 + 30))


def test_there_are_transitions_to_test() -> None:
    assert len(zones()) > 100


@pytest.mark.parametrize("window", WINDOWS, ids=["night", "into the gap", "out of the fold"])
def test_quiet_hours_over_every_zone_transition_of_a_year(window: QuietHours) -> None:
    alike: dict[tuple[tuple[Instant, ...], tuple[object, ...]], str] = {}
    for name, found in zones().items():  # zones that change alike are tried once
        offsets = tuple(moment(at).astimezone(pinned(name)).utcoffset() for at in found)
        alike.setdefault((tuple(found), offsets), name)
    for (instants, _), name in alike.items():
        zone = pinned(name)
        for transition in instants:
            inside = scanned(zone, window, transition + 2 * HOUR)
            for at in range(transition - 6 * HOUR, transition + 6 * HOUR, 15 * MINUTE):
                if local_day(name, at) != local_day(name, transition + 2 * HOUR):
                    continue
                expected = max((end for start, end in inside if start <= at < end), default=None)
                assert quiet_until((window,), name, at) == expected, f"{name} at {render(at)}"


def test_a_time_that_does_not_exist_is_the_next_instant_that_does() -> None:
    day = local_day("Europe/Berlin", parse("2026-03-29T12:00:00Z"))
    assert render(wall("Europe/Berlin", day, 2 * 60 + 30)) == "2026-03-29T01:00:00Z"
    samoa = local_day("Pacific/Apia", parse("2011-12-29T12:00:00Z")) + 1
    assert render(wall("Pacific/Apia", samoa, 12 * 60)) == "2011-12-30T10:00:00Z", "a day that was left out"


def test_a_time_that_exists_twice_is_the_first() -> None:
    day = local_day("Europe/Berlin", parse("2026-10-25T12:00:00Z"))
    assert render(wall("Europe/Berlin", day, 2 * 60 + 30)) == "2026-10-25T00:30:00Z"


def test_windows_that_adjoin_are_one_quiet() -> None:
    both = (QuietHours(20 * 60, 22 * 60), NIGHT)
    assert quiet_until(both, "UTC", parse("2026-01-05T20:30:00Z")) == parse("2026-01-06T07:00:00Z")


minutes_of_day = st.integers(0, DAY_MINUTES - 1)
some_windows = st.lists(
    st.builds(
        QuietHours,
        minutes_of_day,
        minutes_of_day,
        st.lists(st.integers(0, 6), min_size=1, max_size=7, unique=True).map(tuple),
    ),
    min_size=2,
    max_size=4,
).map(tuple)


@given(
    some_windows,
    st.sampled_from(("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia")),
    st.integers(*YEAR),
)
@settings(max_examples=120)
def test_several_windows_are_quiet_as_long_as_any_of_them(
    windows: tuple[QuietHours, ...], zone: str, at: Instant
) -> None:
    """One window at a time is held against the wall clock above; together they are taken one after the other."""
    assume(not problems_of(windows))
    end, reached = None, at
    while later := [until for window in windows if (until := quiet_until((window,), zone, reached))]:
        end = reached = max(later)
    assert quiet_until(windows, zone, at) == end


def test_the_start_is_quiet_and_the_end_is_not() -> None:
    start, end = parse("2026-01-05T22:00:00Z"), parse("2026-01-06T07:00:00Z")
    assert [quiet_until((NIGHT,), "UTC", at) for at in (start - 1, start, end - 1, end)] == [None, end, end, None]


@pytest.mark.parametrize(
    ("windows", "path"),
    [
        ((QuietHours(60, 60),), "quiet_hours[0]"),
        ((QuietHours(0, 0),), "quiet_hours[0]"),
        ((NIGHT, QuietHours(0, 1441)), "quiet_hours[1]"),
        ((NIGHT, QuietHours(1440, 60)), "quiet_hours[1]"),
        ((QuietHours(0, 1440),), "quiet_hours"),
        ((QuietHours(0, 60, ()),), "quiet_hours[0].days"),
        ((QuietHours(0, 60, (7,)),), "quiet_hours[0].days"),
        ((QuietHours(0, 720), QuietHours(720, 0)), "quiet_hours"),
    ],
)
def test_windows_that_cannot_work_are_refused(windows: tuple[QuietHours, ...], path: str) -> None:
    assert [where for where, _ in problems_of(windows)] == [path]


def test_a_minute_a_week_is_enough() -> None:
    assert problems_of((QuietHours(0, 1439), QuietHours(1439, 0, (0, 1, 2, 3, 4, 5)))) == []


def test_a_whole_day_is_quiet_from_its_first_instant_to_its_last() -> None:
    saturday, sunday = QuietHours(0, 1440, (5,)), QuietHours(0, 1440, (6,))
    assert problems_of((saturday, sunday, NIGHT)) == []
    inside = parse("2026-03-28T12:00:00+01:00")
    assert quiet_until((saturday,), "Europe/Berlin", inside) == parse("2026-03-29T00:00:00+01:00")
    assert quiet_until((saturday, sunday), "Europe/Berlin", inside) == parse("2026-03-30T00:00:00+02:00")
    assert quiet_until((saturday,), "Europe/Berlin", parse("2026-03-27T23:59:59+01:00")) is None
    no_midnight = quiet_until((QuietHours(0, 1440, (5,)),), "America/Santiago", parse("2026-09-05T12:00:00Z"))
    assert no_midnight == parse("2026-09-06T01:00:00-03:00"), "midnight is skipped there: the next instant that exists"


MINUTE_AWAKE = preferences(quiet_hours=(QuietHours(7 * 60 + 1, 7 * 60),))


def test_jitter_is_never_longer_than_the_gap_between_two_quiets() -> None:
    scenario = inbox(MINUTE_AWAKE).at("2026-01-05T12:00:00Z")
    for number in range(60):
        scenario.when(note(text=f"news number {number}"), key=f"e{number}")
    out: list[Instant] = []
    while scenario.alarm_at is not None and len(out) < 60:
        scenario.wakes()
        out += [event.at for event in scenario.decision.events if isinstance(event, Released)]
    assert len(out) == 60
    assert {(at - parse("2026-01-05T00:00:00Z")) % DAY // MINUTE for at in out} == {7 * 60}, "all in the minute awake"
    assert max(out) < parse("2026-01-09T00:00:00Z"), "two deferrals, then they are forced"


@pytest.mark.parametrize(
    ("crons", "sooner"), [(("59 6 * * *",), "2026-01-06T07:00:00Z"), (("0 7 * * *",), "2026-01-06T07:00:00Z")]
)
def test_a_shared_instant_just_before_the_quiet_is_spread_over_what_is_left(crons: Any, sooner: str) -> None:
    chosen = replace(MINUTE_AWAKE.preferences, digest_windows=crons)
    for name in "abcdefgh":
        scenario = scenario_of(
            INBOX, replace(MINUTE_AWAKE, preferences=chosen), stream=StreamId("acme", "inbox", name), sections=SECTIONS
        )
        scenario.at("2026-01-05T07:00:30Z").when(note("DIGEST", "LOW"), key="a")
        assert scenario.alarm_at is not None
        assert parse(sooner) <= scenario.alarm_at < parse(sooner) + MINUTE


def test_the_next_hour_and_the_next_day_are_those_of_the_wall() -> None:
    assert render(next_hour("Australia/Lord_Howe", parse("2026-04-04T14:45:00Z"))) == "2026-04-04T15:30:00Z"
    assert render(next_hour("UTC", parse("2026-01-05T09:00:00Z"))) == "2026-01-05T10:00:00Z"
    assert render(next_day("America/New_York", parse("2026-03-07T20:00:00Z"), 480)) == "2026-03-08T12:00:00Z"


def test_a_million_people_whose_quiet_hours_end_together_wake_evenly_over_five_minutes() -> None:
    seconds = [0] * 300
    boundary = parse("2026-01-06T07:00:00Z")
    for number in range(1_000_000):
        seconds[spread(300 * SECOND, "acme", f"user-{number}", boundary) // SECOND] += 1
    mean = 1_000_000 / 300
    assert max(abs(count - mean) for count in seconds) < 6 * mean**0.5
