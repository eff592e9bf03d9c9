"""What conditions are evaluated against: real scores, sources that know for whom they are asked."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from betimes.app import Betimes
from betimes.core.errors import Invalid
from betimes.domain.service import Caller
from betimes.engine.virtual_clock import VirtualClock
from betimes.intents.sources import SourceContext, takes_context
from tests.intents.stories import body
from tests.intents.working import MEMORY, worker, working

NINE = "2026-01-05T09:00:00Z"
HOUR_S = 3_600


async def test_a_person_who_interacts_every_two_hours_is_not_told_that_they_are_silent() -> None:
    async with Betimes("memory://", clock=VirtualClock(NINE)) as bt:
        silence = {"threshold_hours": 4}
        await bt.intents.create(body("silence", intent_id="s", condition=silence))
        for _ in range(6):
            await bt.scores.interact("ann", {"type": "text"})
            await bt.advance(by_s=2 * HOUR_S)
        assert {item.status for item in (await bt.intents.history("s", limit=200)).items} == {"condition_not_met"}
        await bt.scores.interact("ann", {"type": "portal"})  # which does not count
        await bt.advance(by_s=2 * HOUR_S)
        [told] = [item for item in (await bt.intents.history("s", limit=200)).items if item.status == "success"]
        assert told.trigger_data
        assert told.trigger_data["inactive_hours"] == 4


async def test_a_source_is_told_for_which_tenant_user_and_intent_it_is_asked() -> None:
    asked: list[tuple[str, SourceContext]] = []

    def portfolio(user_id: str, context: SourceContext) -> dict[str, Any]:
        asked.append((user_id, context))
        return {"total_value": {"one": 1, "two": 20_000}[context.tenant]}

    bt = Betimes("memory://", clock=VirtualClock(NINE))
    bt.source("portfolio")(portfolio)
    async with bt:
        condition = {"metric": "total_value", "operator": "<", "value": 10_000}
        for tenant in ("one", "two"):
            intents = bt.for_caller(Caller(tenant, "test")).intents
            await intents.create(body("portfolio", intent_id="p", user_id="u1", condition=condition))
        await bt.tick()
        statuses = {
            tenant: (await bt.for_caller(Caller(tenant, "test")).intents.get("p")).last_status
            for tenant in ("one", "two")
        }
        assert statuses == {"one": "success", "two": "condition_not_met"}
        assert {(user_id, context.tenant, context.user_id, context.intent_id) for user_id, context in asked} == {
            ("u1", "one", "u1", "p"),
            ("u1", "two", "u1", "p"),
        }


def optional(ticker: str, currency: str = "USD") -> str:
    return ticker + currency


def second(ticker: str, context: SourceContext | None = None) -> str:
    return ticker


def needed(ticker: str, who: SourceContext) -> str:
    return ticker


def test_whoever_takes_one_thing_is_given_one() -> None:
    sources: list[Any] = [str.upper, optional, {}.__getitem__, second, needed]
    assert [takes_context(source) for source in sources] == [False, False, False, True, True]


def test_a_source_that_no_trigger_asks_for_is_refused_where_it_is_declared() -> None:
    bt = Betimes("memory://")
    with pytest.raises(Invalid, match="no such source: prise; known: price, portfolio, last_interaction"):
        bt.source("prise")


async def test_a_number_of_a_source_is_taken_exactly_and_never_costs_more_than_its_bound(tmp_path: Path) -> None:
    async with working(MEMORY, tmp_path) as world:
        for name, given, status in (("sum", 0.1, "success"), ("dust", Decimal("1e-200000"), "condition_not_met")):
            await world.intents.create(body(intent_id=name, condition={"expression": "NVDA + 0.2 == 0.3"}))
            assert await worker(world, sources={"price": {"NVDA": given}.__getitem__}).once() == {status: 1}
