"""Which Python handlers a tenant's definitions may name: said by the configuration, held to when they are called."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from betimes.app.betimes import Betimes
from betimes.app.deployment import HandlerSettings
from betimes.app.settings import Settings
from betimes.core.errors import Invalid
from betimes.domain.service import Caller
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryStore
from betimes.tenancy import Tenancy

LATER = "2026-01-05T09:00:00Z"


class World:
    def __init__(self, bt: Betimes, called: list[str]) -> None:
        self.bt = bt
        self.called = called

    def of(self, tenant: str) -> Tenancy:
        return self.bt.for_caller(Caller(tenant, "test"))


@asynccontextmanager
async def world(
    tenants: dict[str, tuple[str, ...]], *, policy: dict[str, Any] | None = None, store: MemoryStore | None = None
) -> AsyncIterator[World]:
    called: list[str] = []
    settings = Settings(handlers=HandlerSettings(tenants=tenants))
    bt = Betimes("memory://", clock=VirtualClock(LATER), workers=False, settings=settings, policy=policy)
    bt._store = store or bt._store
    for name in ("brief", "wipe"):
        bt.handler(name)(lambda payload, name=name: called.append(name))

    async def poll(cursor: Any, context: Any) -> None:
        called.append("poll")

    bt._evaluators.evaluator("poll")(poll)
    async with bt:
        yield World(bt, called)


def schedule(name: str) -> dict[str, Any]:
    return {"schedule_id": "s", "cron": "0 0 1 1 *", "target": {"kind": "handler", "name": name}}


def entry(name: str) -> dict[str, Any]:
    handler = {"kind": "python", "name": name}
    return {"trigger_type": "OURS", "debounce_seconds": 0, "cooldown_seconds": 0, "handler": handler}


def sensor(target: str, evaluator: str, *allowed: str) -> dict[str, Any]:
    return {
        "sensor_id": "p",
        "sensor_type": "poll",
        "target": {"kind": "handler", "name": target},
        "evaluator": {"kind": "handler", "name": evaluator},
        "allowed_targets": [{"kind": "handler", "name": name} for name in allowed],
    }


async def refused(work: Any) -> list[str]:
    with pytest.raises(Invalid) as error:
        await work
    assert "handlers.tenants" in str(error.value)
    return [path for path, _ in error.value.problems]


async def test_the_applications_own_tenant_may_name_every_handler_and_others_none() -> None:
    async with world({}) as w:
        await w.of("default").schedules.create(schedule("wipe"))
        assert await refused(w.of("acme").schedules.create(schedule("wipe"))) == ["target.name"]


async def test_every_door_holds_to_the_list() -> None:
    async with world({"acme": ("brief",), "globex": ("*",), "default": ("brief",)}) as w:
        acme = w.of("acme")
        await acme.schedules.create(schedule("brief"))
        assert await refused(acme.schedules.put("s", schedule("wipe"))) == ["target.name"]
        assert await refused(acme.schedules.patch("s", {"target": {"name": "wipe"}})) == ["target.name"]
        assert await refused(acme.sensors.create(sensor("wipe", "poll", "brief", "wipe"))) == [
            "target.name",
            "evaluator.name",
            "allowed_targets[1].name",
        ]
        assert await refused(acme.runs.put_registry([entry("wipe")])) == ["entries[0].handler.name"]
        hooks = [{"on": ["RUN_DECISION"], "target": {"kind": "handler", "name": "wipe"}}]
        assert await refused(acme.tenants.set_policy({"overrides": {"hooks": hooks}})) == ["hooks[0].target.name"]
        assert not (await acme.tenants.check_policy({"overrides": {"hooks": hooks}})).valid
        await acme.runs.put_registry([entry("brief")])
        await w.of("globex").sensors.create(sensor("wipe", "poll", "brief"))
        assert await refused(w.of("default").schedules.create(schedule("wipe"))) == ["target.name"]


async def test_what_the_deployments_policy_names_is_for_every_tenant() -> None:
    said = {name: value for name, value in entry("brief").items() if name != "trigger_type"}
    async with world({}, policy={"runs": {"registry": {"OURS": said}}}) as w:
        acme = w.of("acme")
        await acme.runs.trigger({"account_id": "a", "trigger_type": "OURS", "idempotency_key": "k"})
        await acme.tenants.set_policy({"overrides": {"runs": {"action_cap": 7}}})
        await w.bt.tick()
        assert w.called == ["brief"]


async def test_a_definition_older_than_the_list_is_not_carried_out() -> None:
    store = MemoryStore(VirtualClock(LATER))
    async with world({"*": ("*",)}, store=store) as w:
        acme = w.of("acme")
        await acme.schedules.create(schedule("wipe"))
        await acme.sensors.create(sensor("wipe", "poll"))
        await acme.runs.put_registry([entry("wipe")])
    async with world({"acme": ("brief",)}, store=store) as w:
        acme = w.of("acme")
        await acme.schedules.trigger("s")
        await acme.runs.trigger({"account_id": "a", "trigger_type": "OURS", "idempotency_key": "k"})
        assert await refused(acme.sensors.evaluate("p")) == ["evaluator.name"]
        await w.bt.tick()
        assert w.called == []
        [run] = (await acme.runs.runs()).items
        assert run.status == "failed"
        assert "handlers.tenants" in (run.error or "")
