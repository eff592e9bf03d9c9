"""Definitions under idempotency keys, on every store: a repeat is answered with what was recorded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from betimes.core.errors import KeyConflict, MissingScope, NotFound, VersionMismatch
from betimes.domain.service import Caller
from betimes.schedules.service import Schedules
from betimes.schedules.views import BackfillRequest
from betimes.sensors.evaluators import Evaluators
from betimes.sensors.model import Evaluation
from tests.automation.worlds import HANDLER, automation_world
from tests.definition_requests import schedule_request, sensor_request
from tests.stores.backends import Backend

SWEEP = {"kind": "sweep"}
NINE = datetime(2026, 1, 5, 9, tzinfo=UTC)


async def test_a_patch_is_replayed_as_it_was_recorded(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.schedule()
        first = await world.schedules.patch("brief", {"payload": {"n": 1}}, if_match=1, key="k")
        await world.schedules.patch("brief", {"payload": {"n": 2}})
        with pytest.raises(KeyConflict):
            await world.schedules.patch("brief", {"payload": {"n": 3}}, key="k")
        for _ in range(2):
            again = await world.elsewhere.patch("brief", {"payload": {"n": 1}}, if_match=1, key="k")
            assert (again, world.elsewhere.is_replay) == (first, True)
            await world.schedules.delete("brief")
            with pytest.raises(NotFound):
                await world.schedules.get("brief")
            await world.schedule()


async def test_whoever_puts_a_definition_learns_whether_it_is_new(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        request = sensor_request({"sensor_type": "push", "target": HANDLER})
        await world.sensors.put("orders", request)
        assert world.sensors.has_created
        await world.sensors_elsewhere.put("orders", replace(request, payload={"n": 1}))
        assert not world.sensors_elsewhere.has_created
        for conditions in ({"only_create": True}, {"if_match": 0}):
            with pytest.raises(VersionMismatch):
                await world.sensors.put("orders", request, **conditions)
        await world.sensors.delete("orders")
        await world.sensors_elsewhere.put("orders", request)
        assert world.sensors_elsewhere.has_created


async def test_a_target_is_saved_by_whoever_may_do_what_it_does(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        limited = Schedules(world.engine, Caller("acme", "eve", scopes=("automation:write",)))
        request = schedule_request({"cron": "0 * * * *", "target": SWEEP})
        with pytest.raises(MissingScope):
            await limited.put("sweep", request)
        await world.schedules.put("sweep", request)
        assert (await limited.put("sweep", replace(request, cron="30 * * * *"))).cron == "30 * * * *"
        await limited.patch("sweep", {"target": {"kind": "handler", "name": "brief"}})
        with pytest.raises(MissingScope):
            await limited.patch("sweep", {"target": {"kind": "sweep", "name": None}})


async def test_a_backfill_is_replayed_though_its_schedule_was_changed_or_deleted(
    backend: Backend, tmp_path: Path
) -> None:
    request = BackfillRequest(NINE - timedelta(minutes=20), NINE)
    async with automation_world(backend, tmp_path) as world:
        await world.schedule()
        first = await world.schedules.backfill("brief", request, key="k")
        await world.schedules.patch("brief", {"payload": {"n": 1}})
        assert await world.elsewhere.backfill("brief", request, key="k") == first
        with pytest.raises(KeyConflict):
            await world.schedules.backfill("brief", replace(request, max_concurrency=5), key="k")
        await world.schedules.delete("brief")
        assert await world.elsewhere.backfill("brief", request, key="k") == first


async def test_an_evaluation_by_hand_that_is_repeated_calls_nobody_again(backend: Backend, tmp_path: Path) -> None:
    evaluators, calls = Evaluators(), count(1)

    @evaluators.evaluator("counting")
    async def counting(cursor: object, ctx: object) -> Evaluation:
        return Evaluation(cursor=next(calls))

    async with automation_world(backend, tmp_path, evaluators=evaluators) as world:
        evaluator = {"kind": "handler", "name": "counting"}
        await world.sensor(sensor_type="poll", evaluator=evaluator, enabled=False)
        first = await world.sensors.evaluate("orders", key="k")
        again = await world.sensors_elsewhere.evaluate("orders", key="k")
        assert again == replace(first, is_replay=True)
        assert next(calls) == 2
