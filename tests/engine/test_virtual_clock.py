"""The clock that stands still: what it can be set to, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from betimes.core.errors import Invalid
from betimes.core.instants import parse
from betimes.engine.virtual_clock import VirtualClock


def test_it_is_set_by_a_text_an_instant_or_an_aware_datetime() -> None:
    noon = parse("2026-01-05T12:00:00Z")
    berlin = timezone(timedelta(hours=1))
    for start in ("2026-01-05T12:00:00Z", noon, datetime(2026, 1, 5, 13, tzinfo=berlin)):
        assert VirtualClock(start)() == noon
    assert VirtualClock("2026-01-05T09:00:00Z").advance_to(datetime(2026, 1, 5, 12, tzinfo=UTC)) == noon


@pytest.mark.parametrize("start", [datetime(2026, 1, 5), 5.0, None, True])  # noqa: DTZ001 — that is what is refused
def test_anything_else_is_refused_at_once(start: Any) -> None:
    with pytest.raises(Invalid, match="datetime"):
        VirtualClock(start)
