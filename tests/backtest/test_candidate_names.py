"""Names of candidates: the same wherever an answer names one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backtest.test_api import STRICT, office


@pytest.mark.parametrize("base", [{}, {"policy": STRICT}, {"policies": {"strict": STRICT}}])
async def test_a_candidate_has_one_name_in_the_whole_answer(base: dict[str, Any]) -> None:
    async with office(5) as o:
        swept = {**base, "sweep": {"runs.daily_run_budget": [3, 12]}}
        where = (await o.client("POST", "/v1/backtests", swept)).headers["location"]
        await o.bt.tick()
        told = (await o.client("GET", where)).json
    prefix = "strict " if "policies" in base else ""
    names = [f"{prefix}runs.daily_run_budget={budget}" for budget in (3, 12)]
    assert told["candidates"] == names
    assert [one["name"] for one in told["result"]["candidates"]] == names
    assert [one["name"] for one in told["summary"]["candidates"]] == names
