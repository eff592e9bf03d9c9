"""Several crons, intervals, excluded days, partitions: when they occur, and how they are written."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from datetime import UTC, date, datetime
from itertools import count, islice
from typing import Any

import msgspec
import pytest

from betimes.core.canonical import encode
from betimes.core.errors import Invalid
from betimes.core.instants import DAY, HOUR, SECOND, Instant, parse, render
from betimes.core.occurrences import Excluding, Occurrences
from betimes.core.zones import zone
from betimes.schedules.checks import schedule_problems
from betimes.schedules.model import ScheduleDefinition
from betimes.schedules.recurrence import EXCLUDED_DATES_MAX, Every, Exclude, Partition, Recurrence
from docs.build_dst import changes, middle
from tests.automation.cron_oracle import occurrences
from tests.definition_requests import schedule_request

CHANGES = list(changes().items())
NINE = parse("2026-01-05T09:00:00Z")
DAY_S = 86_400
TARGET = {"kind": "handler", "name": "brief"}


def ticks(recurrence: Recurrence, start: str, count: int) -> list[str]:
    return [render(tick) for tick in islice(recurrence.occurrences().after(parse(start)), count)]


# -- several crons


def test_several_crons_are_one_calendar_in_which_an_instant_occurs_once() -> None:
    found = Recurrence(cron=("0 8 * * *", "0 8,20 * * MON", "0 17 * * FRI"))
    assert ticks(found, "2026-01-04T20:00:00Z", 4) == [
        "2026-01-05T08:00:00Z",
        "2026-01-05T20:00:00Z",
        "2026-01-06T08:00:00Z",
        "2026-01-07T08:00:00Z",
    ]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{render(change[0][0] * SECOND)} {change[1][0]}")
def test_several_crons_with_exclusions_at_every_change_of_the_year(
    change: tuple[tuple[int, int, int], list[str]],
) -> None:
    (at_s, before, after), [name, *_] = change
    local = middle(at_s, before, after)
    start, end = at_s - 2 * DAY_S, at_s + 2 * DAY_S
    crons = (f"*/20 {local.hour} * * *", "0 22-2 * * *", f"{local.minute} {local.hour} {local.day} {local.month} ?")
    weekdays = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
    for exclude in (
        Exclude(dates=(local.date(),)),
        Exclude(weekdays=(weekdays[local.weekday() - 1],)),  # type: ignore[arg-type]
        Exclude(dates=(date.fromordinal(local.toordinal() + 1),), weekdays=(weekdays[local.weekday() - 2],)),  # type: ignore[arg-type]
    ):
        all_of_them = {second for cron in crons for second in occurrences(cron, name, start, end, None, None)}
        expected = [second for second in sorted(all_of_them) if not _is_excluded(second, name, exclude)]
        found = Recurrence(cron=crons, timezone=name, exclude=exclude).occurrences()
        ahead = [tick // SECOND for tick in found.between(start * SECOND - 1, end * SECOND - 1)]
        back = [tick // SECOND for tick in found.newest(start * SECOND - 1, end * SECOND - 1, 10_000)]
        assert ahead == expected, (name, exclude)
        assert back == expected, (name, exclude)


def _is_excluded(second: int, name: str, exclude: Exclude) -> bool:
    day = datetime.fromtimestamp(second, UTC).astimezone(zone(name)).date()
    return day in exclude.dates or f"{day:%a}".upper() in exclude.weekdays


# -- intervals


def test_an_interval_is_round_without_an_anchor_and_starts_at_one() -> None:
    assert ticks(Recurrence(every=Every(5_400)), "2026-01-05T09:00:00Z", 2) == [
        "2026-01-05T10:30:00Z",
        "2026-01-05T12:00:00Z",
    ]
    anchored = Recurrence(every=Every(5_400, NINE + 60 * SECOND))
    assert ticks(anchored, "2020-01-01T00:00:00Z", 2) == ["2026-01-05T09:01:00Z", "2026-01-05T10:31:00Z"]
    found = anchored.occurrences()
    assert list(found.before(NINE + 2 * HOUR)) == [parse("2026-01-05T10:31:00Z"), parse("2026-01-05T09:01:00Z")]
    assert found.previous(parse("2026-01-05T09:01:00Z")) == parse("2026-01-05T07:31:00Z")


def test_an_interval_keeps_real_time_where_clocks_change() -> None:
    found = Recurrence(every=Every(86_400, parse("2026-03-28T08:00:00Z")), timezone="Europe/Berlin")
    assert ticks(found, "2026-03-28T00:00:00Z", 3)[1:] == ["2026-03-29T08:00:00Z", "2026-03-30T08:00:00Z"]


# -- excluded days


def test_excluded_days_are_local_days() -> None:
    found = Recurrence(
        cron="30 23 * * *",
        timezone="America/New_York",
        exclude=Exclude(dates=(date(2026, 1, 6),), weekdays=("SAT", "SUN")),
    )
    assert ticks(found, "2026-01-05T12:00:00Z", 4) == [
        "2026-01-06T04:30:00Z",
        "2026-01-08T04:30:00Z",
        "2026-01-09T04:30:00Z",
        "2026-01-10T04:30:00Z",
    ]


def test_what_is_excluded_for_ever_ends() -> None:
    never = Recurrence(cron="0 0 * * MON", exclude=Exclude(weekdays=("MON",))).occurrences()
    assert next(never.after(NINE), None) is None
    assert never.previous(NINE) is None


class Mondays(Occurrences, frozen=True):
    """The first Monday of each four years, counting how often it is asked."""

    asked: list[Instant]

    def after(self, at: Instant) -> Iterator[Instant]:
        self.asked.append(at)
        return (tick for tick in count(NINE, 4 * 364 * DAY) if tick > at)

    def before(self, at: Instant) -> Iterator[Instant]:
        self.asked.append(at)
        return (tick for tick in count(NINE, -4 * 364 * DAY) if tick < at)


def test_what_is_excluded_for_fifty_years_is_not_searched_for_thousands() -> None:
    asked: list[Instant] = []
    never = Excluding(Mondays(asked), "UTC", frozenset(), frozenset({0}))
    assert next(never.after(NINE), None) is None
    assert next(never.before(NINE), None) is None
    assert len(asked) < 30


def test_excluding_a_year_of_days_walks_no_seconds() -> None:
    dates = tuple(date.fromordinal(date(2026, 1, 5).toordinal() + day) for day in range(365))
    assert ticks(Recurrence(cron="* * * * * *", exclude=Exclude(dates=dates)), "2026-01-05T09:00:00Z", 1) == [
        "2027-01-05T00:00:00Z"
    ]


# -- partitions


@pytest.mark.parametrize(
    ("partition", "at", "expected"),
    [
        ("hourly", "2026-10-25T00:30:00Z", "2026-10-25T02+0200"),
        ("hourly", "2026-10-25T01:30:00Z", "2026-10-25T02+0100"),  # the same hour again
        ("daily", "2026-10-25T22:59:59Z", "2026-10-25"),
        ("daily", "2026-10-25T23:00:00Z", "2026-10-26"),
        ("weekly", "2027-01-01T12:00:00Z", "2026-W53"),
        ("monthly", "2026-10-31T23:30:00Z", "2026-11"),
    ],
)
def test_partitions_are_named_in_the_zone(partition: Partition, at: str, expected: str) -> None:
    assert Recurrence(cron="@daily", timezone="Europe/Berlin").partition_key(partition, parse(at)) == expected


def test_an_hour_of_utc_ends_in_z() -> None:
    assert Recurrence(cron="@daily").partition_key("hourly", NINE) == "2026-01-05T09Z"


# -- as they are written


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"cron": ["0 8 * * *", "x", "@never"]}, ["cron[1]", "cron[2]"]),
        ({"cron": "0 8 * * *", "timezone": "Mars/Base"}, ["timezone"]),
        ({"every": {"seconds": 60, "anchor": "2026-01-05T09:00:00.5Z"}}, ["every.anchor"]),
        (
            {"cron": "x", "exclude": {"weekdays": ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]}},
            ["cron", "exclude.weekdays"],
        ),
    ],
)
def test_what_cannot_occur_is_named(body: dict[str, Any], paths: list[str]) -> None:
    definition = schedule_request({**body, "target": TARGET}).definition()
    assert [path for path, _ in schedule_problems("s", definition)] == paths


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"cron": "0 8 * * *", "every": {"seconds": 60}},
        {"cron": []},
        {"cron": ["* * * * *"] * 17},
        {"every": {"seconds": 0}},
        {"every": {"seconds": 366 * 86_400 + 1}},
        {"every": {"seconds": 60, "unit": "s"}},
        {"cron": "* * * * *", "exclude": {"dates": ["2026-02-30"]}},
        {"cron": "* * * * *", "exclude": {"weekdays": ["Monday"]}},
        {"cron": "* * * * *", "partition": "yearly"},
    ],
)
def test_what_has_another_shape_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        schedule_request({**body, "target": TARGET})


def test_a_definition_without_what_is_new_is_spelt_as_before() -> None:
    """Databases written before these fields existed are folded again byte for byte."""
    definition = schedule_request({"cron": "0 8 * * *", "target": TARGET}).definition()
    assert encode(definition) == (
        '{"cron":"0 8 * * *","target":{"kind":"handler","name":"brief"},"timezone":"UTC","asset_selection":[],'
        '"partition_selection":null,"payload":{},"max_catchup_ticks":1,"catchup_window_minutes":1440,'
        '"catchup_keep":"newest","jitter_seconds":0,"overlap":"allow","dst":{},"enabled":true,"starts_at":null,'
        '"ends_at":null}'
    )


def test_a_definition_with_everything_is_read_back() -> None:
    body = {
        "cron": ["0 8 * * *", "@hourly"],
        "exclude": {"dates": ["2026-12-25"], "weekdays": ["SUN"]},
        "partition": "daily",
        "target": TARGET,
    }
    definition = schedule_request(body).definition()
    assert msgspec.json.decode(encode(definition), type=ScheduleDefinition) == definition
    every = schedule_request({"every": {"seconds": 60, "anchor": "2026-01-05T09:00:00Z"}, "target": TARGET})
    assert every.definition().every == Every(60, NINE)


def test_what_is_kept_of_recurrences_that_exclude_many_days_does_not_grow_with_each() -> None:
    def exclude_days_from(first: int) -> None:
        days = tuple(date.fromordinal(day) for day in range(first, first + EXCLUDED_DATES_MAX))
        Recurrence(cron="0 9 * * *", exclude=Exclude(dates=days)).occurrences()

    exclude_days_from(700_000)
    tracemalloc.start()
    try:
        for number in range(1, 101):
            exclude_days_from(700_000 + number)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000
