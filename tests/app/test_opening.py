"""An application that cannot be opened leaves nothing open, and can be opened once it is possible."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from betimes import Betimes
from betimes.core.errors import Invalid, PolicyInvalid, Unavailable


async def test_what_could_not_be_opened_is_closed_and_opens_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bt = Betimes(f"sqlite:///{tmp_path}/not-yet/betimes.db", workers=False)
    for _ in range(2):
        with pytest.raises(Unavailable):
            await bt.open()
        with pytest.raises(Invalid, match="not open"):
            _ = bt.engine
    (tmp_path / "not-yet").mkdir()
    async with bt:
        told = await bt.runs.trigger({"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"})
        assert told.result == "ALLOW"
    del bt
    gc.collect()
    assert "Unclosed" not in caplog.text


async def test_a_policy_that_cannot_work_is_refused_on_opening_with_every_path() -> None:
    bt = Betimes("memory://", policy={"runz": {}, "runs": {"nope": 1}}, workers=False)
    with pytest.raises(PolicyInvalid) as refused:
        await bt.open()
    assert [path for path, _ in refused.value.problems] == ["runz", "runs.nope"]


def test_a_clock_that_is_an_instant_is_refused_with_the_clock_that_is_meant() -> None:
    with pytest.raises(Invalid, match=r"clock=VirtualClock\('2026-01-05T09:00:00Z'\)"):
        Betimes("memory://", clock="2026-01-05T09:00:00Z")  # type: ignore[arg-type]
