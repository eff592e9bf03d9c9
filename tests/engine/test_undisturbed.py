"""While a pass lasts, Python's collector rests; afterwards all is as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress

import pytest

from betimes.engine.transactions import pause_collector


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    collects = gc.isenabled()
    yield
    (gc.enable if collects else gc.disable)()


@pytest.mark.parametrize("collects", [True, False])
def test_what_was_set_is_set_again_even_after_a_failure(collects: bool) -> None:
    (gc.enable if collects else gc.disable)()
    with suppress(RuntimeError), pause_collector():
        assert not gc.isenabled()
        raise RuntimeError
    assert gc.isenabled() == collects


def test_passes_that_overlap_leave_nothing_behind() -> None:
    first, second = pause_collector(), pause_collector()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert gc.isenabled()
