"""The arithmetic of decay against an independent calculation with fractions, and its inverse against itself."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.core.instants import DAY, HOUR, MINUTE
from betimes.scores.amounts import POINT
from betimes.scores.decay import Terms, debt_until, falls_to_at, loss_after, next_loss_at, time_to_lose

CHAPTER_1 = Terms(24 * HOUR, 800_000, 15 * POINT, 20 * POINT)
BASE = 1_767_600_000_000_000
GRACE_END = BASE + 24 * HOUR

amounts = st.integers(0, 100 * POINT)
terms_st = st.builds(Terms, st.integers(0, 400 * HOUR), st.integers(0, 100 * POINT), amounts, amounts)
fading = st.builds(
    Terms, st.integers(0, 400 * HOUR), st.integers(1, 100 * POINT), st.integers(1, 100 * POINT), st.just(100 * POINT)
)
spans = st.integers(0, 60 * DAY)


def by_hand(terms: Terms, x: int) -> int:
    """D(x) day by day, with fractions, rounded down at the end."""
    total = Fraction(0)
    while x > 0:
        within = min(x, DAY)
        total += min(Fraction(terms.daily_cap), Fraction(terms.rate) * Fraction(within, HOUR))
        x -= within
    return int(total)


@given(terms_st, spans)
def test_what_is_lost_is_the_rate_times_the_time_capped_within_each_day(terms: Terms, x: int) -> None:
    assert loss_after(terms, x) == by_hand(terms, x)


@given(terms_st, spans, spans)
def test_more_time_never_costs_less(terms: Terms, x: int, more: int) -> None:
    assert loss_after(terms, x + more) >= loss_after(terms, x)


@given(terms_st, st.integers(max_value=0))
def test_nothing_is_lost_before_the_grace_end(terms: Terms, x: int) -> None:
    assert loss_after(terms, x) == 0


@given(fading, st.integers(1, 300 * POINT))
def test_the_inverse_is_the_first_instant_at_which_so_much_is_lost(terms: Terms, amount: int) -> None:
    x = time_to_lose(terms, amount)
    assert x is not None
    assert loss_after(terms, x) >= amount
    assert loss_after(terms, x - 1) < amount


@pytest.mark.parametrize("never", [Terms(0, 0, POINT, POINT), Terms(0, POINT, 0, POINT)])
def test_what_cannot_fade_is_never_due(never: Terms) -> None:
    assert time_to_lose(never, 1) is None
    assert next_loss_at(never, BASE, None) is None
    assert falls_to_at(never, BASE, None, 50 * POINT, 0, BASE) is None


@pytest.mark.parametrize(
    ("hours", "points"), [(2, 1.6), (10, 8), (18.75, 15), (24, 15), (30, 19.8), (48, 30), (240, 150)]
)
def test_chapter_one_costs_what_the_table_says(hours: float, points: float) -> None:
    assert loss_after(CHAPTER_1, int(hours * HOUR)) == points * POINT


@given(terms_st, st.lists(st.integers(1, 10 * DAY), min_size=1, max_size=12))
def test_any_rhythm_takes_the_same_when_the_cap_per_cycle_does_not_bind(terms: Terms, pauses: list[int]) -> None:
    free = Terms(terms.grace_us, terms.rate, terms.daily_cap, 10**15)
    now, applied, left = BASE, None, 10**15
    for pause in pauses:
        now += pause
        cycle = debt_until(free, BASE, applied, now, left)
        if cycle.amount:
            left -= cycle.amount
            applied = cycle.to_at
    assert 10**15 - left == by_hand(free, now - BASE - free.grace_us)


@given(terms_st, spans, spans, amounts)
def test_a_cycle_takes_no_more_than_its_cap_and_never_more_than_there_is(
    terms: Terms, applied: int, until: int, score: int
) -> None:
    cycle = debt_until(terms, BASE, BASE + applied, BASE + until, score)
    due = by_hand(terms, until - terms.grace_us) - by_hand(terms, applied - terms.grace_us)
    assert cycle.amount == min(max(due, 0), terms.cycle_cap, score)
    assert cycle.forgiven == max(due - terms.cycle_cap, 0)
    assert cycle.amount == 0 or cycle.from_at < cycle.to_at


def test_a_score_is_overdue_strictly_after_its_grace() -> None:
    assert debt_until(CHAPTER_1, BASE, None, GRACE_END, 50 * POINT).amount == 0
    assert debt_until(CHAPTER_1, BASE, None, GRACE_END + MINUTE, 50 * POINT).amount == 13_333


@given(fading, spans, spans)
def test_a_score_is_due_exactly_when_there_is_something_to_take(terms: Terms, applied: int, until: int) -> None:
    due_at = next_loss_at(terms, BASE, BASE + applied)
    cycle = debt_until(terms, BASE, BASE + applied, BASE + until, 100 * POINT)
    assert due_at is not None
    assert (cycle.amount > 0) == (due_at <= BASE + until)


@given(fading, st.integers(1, 100 * POINT), st.integers(0, 99), spans, spans)
def test_a_forecast_is_what_frequent_sweeps_bring(
    terms: Terms, score: int, percent: int, applied: int, now: int
) -> None:
    level = score * percent // 100
    base, swept, now = BASE, BASE + applied, BASE + applied + now
    at = falls_to_at(terms, base, swept, score, level, now)
    assert at is not None
    first = debt_until(terms, base, swept, min(at, now), score)
    rest = debt_until(Terms(terms.grace_us, terms.rate, terms.daily_cap, 10**15), base, max(now, swept), at, score)
    assert score - first.amount - (rest.amount if at > now else 0) <= level
    before = debt_until(terms, base, swept, min(at - 1, now), score)
    late = debt_until(Terms(terms.grace_us, terms.rate, terms.daily_cap, 10**15), base, max(now, swept), at - 1, score)
    assert score - before.amount - (late.amount if at - 1 > now else 0) > level


def test_the_forecast_of_the_contract() -> None:
    now = GRACE_END + 2 * HOUR
    at = [falls_to_at(CHAPTER_1, BASE, None, 50 * POINT, level * POINT, now) for level in (40, 20, 0)]
    assert at == [GRACE_END + int(hours * HOUR) for hours in (12.5, 42.75, 78.25)]


def test_a_forecast_after_a_capped_cycle_goes_on_from_now() -> None:
    """A week unswept costs 20 points; the next 10 fall after now, not on the way."""
    now = GRACE_END + 7 * DAY
    assert falls_to_at(CHAPTER_1, BASE, None, 50 * POINT, 20 * POINT, now) == now + int(12.5 * HOUR)
    assert falls_to_at(CHAPTER_1, BASE, None, 50 * POINT, 40 * POINT, now) == GRACE_END + int(12.5 * HOUR)
