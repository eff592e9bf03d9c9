"""Intents as `Betimes` wires them: with the real gate, and with handlers that are declared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from betimes.app import Betimes
from betimes.engine.virtual_clock import VirtualClock
from betimes.intents.action import Action
from betimes.outbound.handlers import HandlerContext
from tests.intents.stories import body

URLS = ["memory://", "sqlite:///{folder}/betimes.db"]
MINUTE_S = 60


@asynccontextmanager
async def gated(url: str, folder: Path, handler: Any, cooldown_s: int) -> AsyncIterator[Betimes]:
    """An intent every five minutes, behind a gate with a cooldown."""
    registry = {"BRIEF": {"debounce_seconds": 0, "cooldown_seconds": cooldown_s}}
    policy = {"runs": {"registry": registry}}
    bt = Betimes(url.format(folder=folder), clock=VirtualClock("2026-01-05T09:00:00Z"), policy=policy)
    bt.handler("briefing")(handler)
    async with bt:
        schedule, gate = {"interval_minutes": 5}, {"trigger_type": "BRIEF"}
        await bt.intents.create(body("interval", intent_id="b", schedule=schedule, gate=gate, action_type="briefing"))
        yield bt


async def told(bt: Betimes) -> list[tuple[int, str]]:
    """Minutes past nine and what was reported then."""
    return [(item.executed_at.minute, item.status) for item in reversed((await bt.intents.history("b")).items)]


@pytest.mark.parametrize("url", URLS)
async def test_an_intent_that_the_gate_postpones_leaves_nothing_there_that_goes_before_it(
    url: str, tmp_path: Path
) -> None:
    async with gated(url, tmp_path, lambda action: "done", 10 * MINUTE_S) as bt:
        await bt.advance(by_s=27 * MINUTE_S)
        assert await told(bt) == [
            (5, "success"),
            (10, "gate_blocked"),
            (15, "success"),
            (20, "gate_blocked"),
            (25, "success"),
        ]
        assert (await bt.runs.run_state("ann")).deferred == []
        [_, blocked, *_] = (await bt.intents.history("b")).items
        assert blocked.gate_result == {
            "trigger_type": "BRIEF",
            "result": "DEFER",
            "reasons": ["COOLDOWN"],
            "defer_until": "2026-01-05T09:25:00Z",
            "segment_id": None,
        }
        why = (await bt.ledger.explain(blocked.segment_id)).verdict
        assert why
        assert why.explanation.startswith("Its gate BRIEF was closed: COOLDOWN until 2026-01-05T09:25:00Z; the next ")


@pytest.mark.parametrize("url", URLS)
async def test_an_action_that_is_tried_again_was_let_through_already(url: str, tmp_path: Path) -> None:
    calls: list[str] = []

    def brief(action: Action) -> str:
        calls.append(action.action_id)
        if len(calls) == 1:
            raise RuntimeError("not now")
        return "done"

    async with gated(url, tmp_path, brief, 120 * MINUTE_S) as bt:
        await bt.advance(by_s=22 * MINUTE_S)
        assert await told(bt) == [(5, "failed"), (20, "success")]
        assert calls == ["intent:b:2026-01-05T09:05:00Z"] * 2
        [again, _] = (await bt.intents.history("b")).items
        assert again.gate_result
        assert (again.gate_result["result"], again.gate_result["segment_id"]) == ("ALLOW", "account:ann:1")


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_declared_handler_may_take_a_context_too(is_async: bool, tmp_path: Path) -> None:
    seen: list[tuple[str, HandlerContext]] = []

    def brief(action: Action, context: HandlerContext) -> str:
        seen.append((action.intent_id, context))
        if context.attempt == 1:
            raise RuntimeError("not now")
        return "done"

    async def brief_too(action: Action, context: HandlerContext) -> str:
        return brief(action, context)

    async with gated("memory://", tmp_path, brief_too if is_async else brief, 120 * MINUTE_S) as bt:
        await bt.advance(by_s=22 * MINUTE_S)
        assert await told(bt) == [(5, "failed"), (20, "success")]
        check = "intent:b:2026-01-05T09:05:00Z"
        assert seen == [("b", HandlerContext(check, "default", attempt)) for attempt in (1, 2)]


async def test_a_gate_whose_trigger_type_nobody_knows_is_warned_of(tmp_path: Path) -> None:
    async with gated("memory://", tmp_path, lambda action: "done", MINUTE_S) as bt:
        known = body("interval", intent_id="known", gate={"trigger_type": "BRIEF"})
        assert (await bt.intents.check(known)).warnings == []
        assert (await bt.intents.create(known)).warnings == []
        unknown = body("interval", intent_id="unknown", gate={"trigger_type": "BREIF"})
        checked, saved = await bt.intents.check(unknown), await bt.intents.create(unknown)
        assert checked.valid
        assert checked.warnings == saved.warnings
        [warning] = saved.warnings
        assert warning.path == "gate.trigger_type"
        assert warning.message.startswith("'BREIF' is not in the registry; register it first")
