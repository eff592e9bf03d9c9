"""Instants are exact integers; text goes in with an offset and comes out in UTC."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.core.errors import Invalid
from betimes.core.instants import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    earliest,
    epoch_down,
    epoch_up,
    parse,
    render,
    seconds,
    spell_duration,
)

FIRST = 0
LAST = 253_402_300_800 * SECOND - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
instants = st.integers(FIRST, LAST)
offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@pytest.mark.parametrize(
    ("count_s", "said"),
    [
        (0, "0 seconds"),
        (0.000_2, "1 millisecond"),
        (0.030_54, "31 milliseconds"),
        (0.25, "0.25 seconds"),
        (1, "1 second"),
        (1.530_54, "1.5 seconds"),
        (30.0, "30 seconds"),
        (2_400, "40 minutes"),
        (3_900, "1 hour 5 minutes"),
    ],
)
def test_a_duration_is_spelt_as_people_say_it(count_s: float, said: str) -> None:
    assert spell_duration(count_s) == said


@given(instants)
def test_what_is_rendered_is_parsed_back(at: int) -> None:
    assert parse(render(at)) == at


@given(st.integers(FIRST + DAY, LAST - DAY), offsets)
def test_any_offset_names_the_same_instant(at: int, offset: timezone) -> None:
    moment = (EPOCH + timedelta(microseconds=at)).astimezone(offset)
    assert parse(moment.isoformat()) == at


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("2026-01-05T09:00:00Z", 1_767_603_600 * SECOND),
        ("2026-01-05T10:00:00+01:00", 1_767_603_600 * SECOND),
        ("2026-01-05T03:30:00-05:30", 1_767_603_600 * SECOND),
        ("9999-12-31T23:59:59.999999Z", LAST),
    ],
)
def test_known_instants(text: str, at: int) -> None:
    assert parse(text) == at


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_500_000, "1970-01-01T00:00:01.5Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (1_767_603_600 * SECOND, "2026-01-05T09:00:00Z"),
    ],
)
def test_a_fraction_is_rendered_only_when_there_is_one(at: int, text: str) -> None:
    assert render(at) == text


@given(instants, st.integers(0, 999))
def test_what_is_finer_than_a_microsecond_is_cut_off(at: int, nanos: int) -> None:
    whole = render(at - at % SECOND).removesuffix("Z")
    assert parse(f"{whole}.{at % SECOND:06}{nanos:03}Z") == at


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-05",
        "2026-01-05T09:00:00",
        "2026-01-05 09:00",
        "2026-13-05T09:00:00Z",
        "1767603600",
        "2026-01-05T25:00:00Z",
        "2026-01-05T09:00:00+25:00",
        "2026-02-29T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "Z",
    ],
)
def test_text_that_names_no_instant_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="ISO 8601"):
        parse(text)


def test_a_long_text_is_cut_in_the_message() -> None:
    with pytest.raises(Invalid) as refusal:
        parse("x" * 100_000)
    assert len(str(refusal.value)) < 200


@given(instants)
def test_a_deadline_is_never_early_and_an_event_never_late(at: int) -> None:
    assert epoch_down(at) * SECOND <= at <= epoch_up(at) * SECOND
    assert epoch_up(at) - epoch_down(at) == (at % SECOND > 0)


@given(st.lists(st.none() | instants))
def test_the_earliest_is_the_first_that_is_set(some: list[int | None]) -> None:
    assert earliest(*some) == min((at for at in some if at is not None), default=None)


@pytest.mark.parametrize(
    ("count", "span"),
    [
        (0, 0),
        (1, SECOND),
        (0.1, 100_000),
        (90, MINUTE + 30 * SECOND),
        (0.000_000_4, 0),
        (0.000_000_6, 1),
        (-1.5, -1_500_000),
    ],
)
def test_seconds_are_rounded_to_the_nearest_microsecond(count: float, span: int) -> None:
    assert seconds(count) == span


def test_the_units_are_what_they_say() -> None:
    assert (seconds(60), seconds(3600), seconds(86400)) == (MINUTE, HOUR, DAY)
