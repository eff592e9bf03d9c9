"""A run that was allowed and could not be started is neither lost nor failed: it is called later, once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from betimes import Betimes, VirtualClock
from betimes.core.deciders import EffectCall
from betimes.core.errors import Unavailable
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.runs.decide import DECIDERS
from betimes.runs.service import Runs
from betimes.runs.worker import RunStarter
from tests.engine.test_store_failures import StumblingStore
from tests.runs.scenes import SECTIONS

TRIGGER = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "one"}
HANDLED = {"registry": {"SIGNAL_ARRIVED": {"handler": {"kind": "python", "name": "brief"}}}}


async def test_a_run_whose_store_was_unavailable_when_it_was_to_start_is_called_later_and_once() -> None:
    called: list[Any] = []

    async def brief(call: EffectCall) -> str:
        called.append(call.payload["payloads"])
        return "done"

    clock = VirtualClock("2026-01-05T09:00:00Z")
    store, starter = StumblingStore(clock), RunStarter("w")
    store.error = Unavailable("PostgreSQL at db.example:5432 does not take commits")
    executors = starter.wrap({"handler:brief": brief})
    engine = Engine(store, DECIDERS, name="one", sections=SECTIONS, policy={"runs": HANDLED}, executors=executors)
    async with engine:
        starter.engine = engine
        runs = Runs(engine, Caller("acme"))
        verdict = await runs.trigger({**TRIGGER, "payload": {"n": 1}})
        assert verdict.run_id
        store.stumbles = 2  # also when it is asked after all what became of the commit
        await engine.tick()
        waiting = await runs.run(verdict.run_id)
        assert (waiting.status, waiting.error, called) == ("allowed", None, [])
        clock.advance(60)
        await engine.tick()
        assert ((await runs.run(verdict.run_id)).status, called) == ("succeeded", [[{"n": 1}]])


async def test_a_run_allowed_just_before_the_process_closes_is_called_once(tmp_path: Path) -> None:
    called: list[Any] = []
    handled = asyncio.Event()

    def declared() -> Betimes:
        bt = Betimes(f"sqlite:///{tmp_path / 'betimes.db'}")

        @bt.run("SIGNAL_ARRIVED")
        async def brief(run: Any) -> str:
            called.append(run)
            handled.set()
            return "done"

        return bt

    async with declared() as bt:
        verdict = await bt.runs.trigger(TRIGGER)
        assert verdict.run_id
    async with declared():
        await handled.wait()
    async with declared() as bt:
        assert (await bt.runs.run(verdict.run_id)).status == "succeeded"
    assert len(called) == 1
