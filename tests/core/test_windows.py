"""Windows against a list of everything that happened: nothing is undercounted, and room is where it is said to be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.core.instants import SECOND
from betimes.core.windows import Window, add, count, free_at

START = 1_767_603_600 * SECOND
spans = st.integers(1, 20)
steps = st.lists(st.integers(0, 4 * SECOND), max_size=30)


def happened(steps: list[int]) -> list[int]:
    instants, at = [], START
    for step in steps:
        at += step
        instants.append(at)
    return instants


def window_of(instants: list[int], span_s: int) -> Window:
    window: Window = ()
    for at in instants:
        window = add(window, at, span_s)
    return window


def model_count(instants: list[int], now: int, span_s: int) -> int:
    """By the rule: an event counts from the whole second at or after it, for the whole seconds of the span."""
    return sum(-(-at // SECOND) > now // SECOND - span_s for at in instants)


@given(steps, spans, st.integers(0, 30 * SECOND))
def test_a_window_counts_what_a_list_of_everything_counts(steps: list[int], span_s: int, later: int) -> None:
    instants = happened(steps)
    now = (instants or [START])[-1] + later
    assert count(window_of(instants, span_s), now, span_s) == model_count(instants, now, span_s)


@given(steps, spans, st.integers(0, 30 * SECOND))
def test_rounding_never_undercounts_and_never_holds_a_second_too_long(
    steps: list[int], span_s: int, later: int
) -> None:
    instants = happened(steps)
    now = (instants or [START])[-1] + later
    counted = count(window_of(instants, span_s), now, span_s)
    assert sum(now - span_s * SECOND < at <= now for at in instants) <= counted
    assert counted <= sum(now - (span_s + 2) * SECOND < at for at in instants)


@given(steps, spans)
def test_a_window_is_ascending_and_holds_one_pair_per_second(steps: list[int], span_s: int) -> None:
    window = window_of(happened(steps), span_s)
    seconds = [second for second, _ in window]
    assert seconds == sorted(set(seconds))
    assert len(window) <= span_s + 1
    assert all(n > 0 for _, n in window)


@given(steps, spans, st.integers(0, 30 * SECOND), st.integers(1, 6))
def test_there_is_room_at_the_instant_it_says_and_not_before(
    steps: list[int], span_s: int, later: int, cap: int
) -> None:
    instants = happened(steps)
    now = (instants or [START])[-1] + later
    window = window_of(instants, span_s)
    free = free_at(window, now, span_s, cap)
    assert free >= now
    assert count(window, free, span_s) < cap
    if free > now:
        assert count(window, free - 1, span_s) >= cap
        assert count(window, max(now, free - SECOND), span_s) >= cap


@given(st.lists(st.integers(0, 40 * SECOND), max_size=20), spans)
def test_an_event_out_of_order_is_never_lost_while_it_matters(offsets: list[int], span_s: int) -> None:
    instants = [START + offset for offset in offsets]
    now = max(instants, default=START)
    counted = count(window_of(instants, span_s), now, span_s)
    assert counted >= sum(now - span_s * SECOND < at <= now for at in instants)


@given(steps, spans, st.integers(1, 5))
def test_several_at_once_are_as_many_one_by_one(steps: list[int], span_s: int, n: int) -> None:
    window = window_of(happened(steps), span_s)
    at = (happened(steps) or [START])[-1]
    one_by_one = window
    for _ in range(n):
        one_by_one = add(one_by_one, at, span_s)
    assert add(window, at, span_s, n) == one_by_one


@given(steps, spans, st.integers(1, 4))
def test_who_waits_for_room_never_exceeds_the_cap(steps: list[int], span_s: int, cap: int) -> None:
    window: Window = ()
    admitted: list[int] = []
    for at in happened(steps):
        if count(window, at, span_s) < cap:
            window = add(window, at, span_s)
            admitted.append(at)
    for now in admitted:
        assert sum(now - span_s * SECOND < at <= now for at in admitted) <= cap


@pytest.mark.parametrize("cap", [0, -1])
def test_a_cap_below_one_is_refused(cap: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        free_at(window_of([START], 5), START, 5, cap)


def test_an_event_is_in_the_window_for_exactly_its_span() -> None:
    window = add((), START, 60)
    assert count(window, START, 60) == 1
    assert count(window, START + 60 * SECOND - 1, 60) == 1
    assert count(window, START + 60 * SECOND, 60) == 0
    assert free_at(window, START, 60, 1) == START + 60 * SECOND
