"""What services inherit is called with a stream; a user's id in its place is refused by name.

Refusals that mean the same in every domain are errors of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from betimes import Betimes, Invalid, VirtualClock
from betimes.backtest.jobs import Backtests
from betimes.core.errors import NotFound
from betimes.domain.service import Caller

CALLED_WITH_AN_ID: dict[str, Callable[[Betimes], Any]] = {
    "notifications.state": lambda bt: bt.notifications.state("ana"),  # type: ignore[arg-type]
    "runs.state": lambda bt: bt.runs.state(("acct", "1")),  # type: ignore[arg-type]
    "scores.submit": lambda bt: bt.scores.submit("ana", None),  # type: ignore[arg-type]
    "intents.state_after": lambda bt: bt.intents.state_after("ana"),  # type: ignore[arg-type]
    "schedules.require_state": lambda bt: bt.schedules.require_state("brief"),  # type: ignore[arg-type]
    "schedules.segment": lambda bt: bt.schedules.segment("brief", 1),  # type: ignore[arg-type]
    "schedules.change": lambda bt: bt.schedules.change("brief", None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", CALLED_WITH_AN_ID)
async def test_an_id_in_place_of_a_stream_is_refused(name: str) -> None:
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        with pytest.raises(Invalid, match=r"is not a StreamId|is not a Recorded"):
            await CALLED_WITH_AN_ID[name](bt)


async def test_what_is_not_there_is_not_found_in_python_as_over_http() -> None:
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        with pytest.raises(NotFound, match="there is no backtest 'none'"):
            await Backtests(bt.engine, Caller("default")).delete("none")
