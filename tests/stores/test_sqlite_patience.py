"""How long a process waits for a file that somebody else holds."""

from __future__ import annotations

import time

import pytest

from betimes.stores.sqlite.connection import Patience
from betimes.stores.sqlite.failures import LOCK_TIMEOUT_S


@pytest.fixture
def time_passes(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is, which only sleeping moves."""
    clock = [1000.0]

    def sleep(pause_s: float) -> None:
        clock[0] += pause_s

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", sleep)
    return clock


def waited_s(patience: Patience, clock: list[float]) -> float:
    """How long a lock is waited for that nobody gives back."""
    start_s, pauses = clock[0], 0
    while patience(pauses):
        pauses += 1
    return clock[0] - start_s


def test_waits_behind_one_in_vain_are_short_until_the_lock_is_had_again(time_passes: list[float]) -> None:
    patience = Patience()
    assert waited_s(patience, time_passes) == pytest.approx(LOCK_TIMEOUT_S, abs=0.01)
    assert [waited_s(patience, time_passes) for _ in range(3)] == pytest.approx([0.5] * 3, abs=0.01)
    patience.wait_s = LOCK_TIMEOUT_S
    assert waited_s(patience, time_passes) == pytest.approx(LOCK_TIMEOUT_S, abs=0.01)


def test_whoever_has_gone_is_not_waited_for(time_passes: list[float]) -> None:
    patience = Patience()
    patience.given_up = True
    assert waited_s(patience, time_passes) == 0
    patience.given_up = False
    assert waited_s(patience, time_passes) == pytest.approx(LOCK_TIMEOUT_S, abs=0.01)
