"""An application that cannot be opened leaves nothing open, and can be opened once it is possible."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from betimes import Betimes
from betimes.core.errors import Invalid, Unavailable


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
