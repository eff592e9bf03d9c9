"""The breaker, as tables of what happened when."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.outbound.circuit_breaker import Breaker, Passage


class Seconds:
    """A monotonic clock that stands still."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(
    ("history", "condition"),
    [
        ([(0, "fail")] * 4, "closed"),
        ([(0, "fail")] * 5, "open"),
        ([(0, "fail"), (2, "fail"), (2, "fail"), (2, "fail"), (3.9, "fail")], "open"),
        ([(0, "fail"), (2, "fail"), (2, "fail"), (2, "fail"), (4, "fail")], "closed"),
        ([(0, "fail"), (2, "fail"), (2, "fail"), (2, "fail"), (4, "fail"), (0, "fail")], "open"),
        ([(0, "fail"), (0, "pass"), (0, "fail"), (0, "fail"), (0, "fail"), (0, "pass"), (0, "fail")], "open"),
        ([(0, "fail")] * 5 + [(9.9, "refused")], "open"),
        ([(0, "fail")] * 5 + [(10, "pass")], "closed"),
        ([(0, "fail")] * 5 + [(10, "fail"), (9.9, "refused")], "open"),
        ([(0, "fail")] * 5 + [(10, "fail"), (10, "pass")], "closed"),
        ([(0, "fail")] * 5 + [(10, "pass")] + [(0, "fail")] * 4, "closed"),
        ([(0, "fail")] * 5 + [(10, "pass")] + [(0, "fail")] * 5, "open"),
        ([(0, "fail")] * 5 + [(10, "withdraw"), (0, "pass")], "closed"),
    ],
)
def test_five_failures_within_ten_seconds_open_it_for_ten(history: list[tuple[float, str]], condition: str) -> None:
    clock = Seconds()
    breaker = Breaker(clock)
    for after_s, what in history:
        clock.now_s += after_s
        play(breaker, what)
    assert breaker.condition == condition


def play(breaker: Breaker, what: str) -> None:
    passage = breaker.enter()
    if what == "refused":
        assert passage is None
        return
    assert passage is not None, what
    {"fail": breaker.record_failure, "pass": breaker.record_success, "withdraw": breaker.withdraw}[what](passage)


def opened(clock: Seconds) -> tuple[Breaker, list[Passage]]:
    """An open breaker, and two passages from before it opened."""
    breaker = Breaker(clock)
    early: list[Any] = [breaker.enter(), breaker.enter()]
    for _ in range(5):
        play(breaker, "fail")
    return breaker, early


def test_only_one_trial_passes_at_a_time() -> None:
    clock = Seconds()
    breaker, _ = opened(clock)
    clock.now_s += 10
    trial = breaker.enter()
    assert trial is not None
    assert [breaker.enter(), breaker.enter()] == [None, None]
    breaker.record_success(trial)
    assert breaker.enter() is not None


def test_what_began_before_it_opened_neither_closes_nor_opens_it() -> None:
    clock = Seconds()
    breaker, early = opened(clock)
    breaker.record_success(early[0])
    assert breaker.enter() is None
    clock.now_s += 9.9
    breaker.record_failure(early[1])
    clock.now_s += 0.1
    trial = breaker.enter()
    assert trial is not None
    breaker.record_success(early[0])
    breaker.record_failure(early[1])
    assert breaker.enter() is None
    breaker.record_success(trial)
    assert breaker.condition == "closed"
