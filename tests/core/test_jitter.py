"""Jitter: in range, the same for ever, and evenly spread."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.core.jitter import spread

NAMES = 100_000
CHI_SQUARE_59_AT_0_999 = 98.3


@given(st.integers(1, 2**62), st.lists(st.text() | st.integers(), max_size=4))
def test_a_spread_is_within_its_span(span: int, names: list[str | int]) -> None:
    assert 0 <= spread(span, *names) < span


@pytest.mark.parametrize("span", [0, -1])
def test_an_empty_span_has_no_jitter(span: int) -> None:
    assert spread(span, "a") == 0


# Written down once: a change here would move every alarm that was ever spread.
@pytest.mark.parametrize(
    ("span", "names", "value"),
    [
        (60, ("acme", "gate", "a"), 53),
        (3_600_000_000, ("acme", "gate", "a", 7), 773_724_431),
        (1_000, ("é", 0), 321),
        (1, ("anything",), 0),
    ],
)
def test_known_values_stay_as_they_are(span: int, names: tuple[str | int, ...], value: int) -> None:
    assert spread(span, *names) == value


def test_names_are_told_apart() -> None:
    assert spread(2**62, "a", "b") != spread(2**62, "ab")
    assert spread(2**62, "a", "b") != spread(2**62, "b", "a")


def test_a_hundred_thousand_names_fall_evenly_into_sixty_buckets() -> None:
    buckets = Counter(spread(60, "acme", f"user-{number}") for number in range(NAMES))
    expected = NAMES / 60
    assert len(buckets) == 60
    assert sum((seen - expected) ** 2 / expected for seen in buckets.values()) < CHI_SQUARE_59_AT_0_999


def test_a_wide_span_is_filled_evenly_too() -> None:
    span = 3_600_000_000
    quarters = Counter(spread(span, number) * 4 // span for number in range(NAMES))
    assert all(abs(seen - NAMES / 4) < NAMES / 100 for seen in quarters.values())
