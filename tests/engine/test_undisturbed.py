"""While a pass lasts, Python's collector rests and threads take turns often; afterwards all is as it was."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from betimes.engine.collector_pause import TURN_S, pause_collector


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    collects, turn_s = gc.isenabled(), sys.getswitchinterval()
    yield
    (gc.enable if collects else gc.disable)()
    sys.setswitchinterval(turn_s)


@pytest.mark.parametrize(("collects", "turn_s"), [(True, 0.005), (False, 0.005), (True, TURN_S / 2)])
def test_what_was_set_is_set_again_even_after_a_failure(collects: bool, turn_s: float) -> None:
    (gc.enable if collects else gc.disable)()
    sys.setswitchinterval(turn_s)
    with suppress(RuntimeError), pause_collector():
        assert not gc.isenabled()
        assert sys.getswitchinterval() == pytest.approx(min(turn_s, TURN_S))
        raise RuntimeError
    assert gc.isenabled() == collects
    assert sys.getswitchinterval() == pytest.approx(turn_s)


def test_passes_that_overlap_leave_nothing_behind() -> None:
    sys.setswitchinterval(0.005)
    first, second = pause_collector(), pause_collector()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert gc.isenabled()
    assert sys.getswitchinterval() == pytest.approx(0.005)
