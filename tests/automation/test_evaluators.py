"""An evaluator that could never answer is refused where it is declared."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from betimes import Betimes, Invalid
from betimes.sensors.evaluators import Evaluators


def plain(cursor: Any, context: Any) -> None: ...


async def asynchronous(cursor: Any, context: Any) -> None: ...


class Callable:
    async def __call__(self, cursor: Any, context: Any) -> None: ...


def test_a_sensor_function_that_is_not_async_is_refused_where_it_is_declared() -> None:
    bt = Betimes("memory://")
    with pytest.raises(Invalid, match="the evaluator 'plain' is not async; write it as `async def`"):
        bt.sensor(target={"kind": "sweep"})(plain)
    assert bt.declared.sensors == []
    assert "evaluator:plain" not in bt.declared.evaluators.executors()


@pytest.mark.parametrize(
    "function", [asynchronous, Callable(), partial(asynchronous)], ids=["def", "object", "partial"]
)
def test_everything_that_can_be_awaited_is_an_evaluator(function: Any) -> None:
    evaluators = Evaluators()
    evaluators.evaluator("orders")(function)
    assert list(evaluators.executors()) == ["evaluator:orders"]
