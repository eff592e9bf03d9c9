"""A definition made by code belongs to that application: what it declares no longer does not go on for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from betimes import Betimes
from betimes.app.settings import Settings
from betimes.core.errors import Invalid
from betimes.engine.reports import Report
from betimes.engine.virtual_clock import VirtualClock

TARGET: dict[str, Any] = {"kind": "sweep"}


class Shop:
    """An application that is started again and again, with other decorators."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'shop.db'}"
        self.clock = VirtualClock()
        self.calls: list[str] = []
        self.reports: list[Report] = []

    def start(self, *schedules: str, sensors: tuple[str, ...] = (), **settings: Any) -> Betimes:
        bt = Betimes(self.url, clock=self.clock, report=self.reports.append, **settings)
        for name in schedules:
            bt.schedule("0 * * * *", schedule_id=name)(lambda body, name=name: self.calls.append(name))
        for name in sensors:
            bt.sensor(every="1h", target=TARGET, sensor_id=name)(_poll)
        return bt


async def _poll(cursor: Any, context: Any) -> dict[str, Any]:
    return {}


async def statuses(bt: Betimes) -> dict[str, tuple[str, str | None]]:
    page = await bt.schedules.list()
    return {view.schedule_id: (view.status, view.paused_reason) for view in page.items}


async def test_a_removed_decorator_stops_firing_after_the_restart(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    async with shop.start("brief", "report", sensors=("orders",)) as bt:
        await bt.schedules.create({"schedule_id": "by-hand", "cron": "0 * * * *", "target": TARGET})
        await bt.advance(by_s=3_600)
    assert sorted(shop.calls) == ["brief", "report"]
    async with shop.start("brief") as bt:
        assert await statuses(bt) == {
            "brief": ("active", None),
            "report": ("paused", "NOT_DECLARED"),
            "by-hand": ("active", None),
        }
        sensor = await bt.sensors.get("orders")
        assert (sensor.status, sensor.paused_reason, sensor.declared_by) == ("paused", "NOT_DECLARED", "default")
        shop.calls.clear()
        await bt.advance(by_s=2 * 3_600)
    assert shop.calls == ["brief", "brief"]
    paused = [told for told in shop.reports if told.what.endswith("_paused")]
    assert [(told.what, told.name) for told in paused] == [("schedule_paused", "report"), ("sensor_paused", "orders")]
    assert all("NOT_DECLARED" in str(told.error) for told in paused)
    async with shop.start("brief", "report", sensors=("orders",)) as bt:
        assert (await statuses(bt))["report"] == ("active", None)
        assert (await bt.sensors.get("orders")).status == "active"


async def test_the_policy_may_be_to_delete_or_to_keep(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    async with shop.start("brief", "report"):
        pass
    async with shop.start("brief", settings=Settings(undeclared="keep")) as bt:
        assert (await statuses(bt))["report"] == ("active", None)
        await bt.schedules.disable("report")
    async with shop.start("brief") as bt:  # paused by hand, so there is nothing to pause and nothing to tell
        assert (await statuses(bt))["report"] == ("paused", None)
    assert shop.reports == []
    async with shop.start("brief", settings=Settings(undeclared="delete")) as bt:
        assert set(await statuses(bt)) == {"brief"}


async def test_visitors_and_other_applications_leave_it_alone(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    async with shop.start("brief"):
        pass
    async with shop.start() as bt:
        assert await statuses(bt) == {"brief": ("active", None)}
    async with shop.start("report", app="billing") as bt:
        assert await statuses(bt) == {"brief": ("active", None), "report": ("active", None)}
    async with shop.start(app="billing") as bt:  # it has its name, so that declaring nothing means nothing
        assert await statuses(bt) == {"brief": ("active", None), "report": ("paused", "NOT_DECLARED")}


async def test_whoever_enables_it_by_hand_takes_it_over(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    async with shop.start("brief", "report"):
        pass
    async with shop.start("brief") as bt:
        await bt.schedules.enable("report")
    async with shop.start("brief") as bt:
        assert (await statuses(bt))["report"] == ("active", None)
        assert (await bt.schedules.get("report")).declared_by is None


@pytest.mark.parametrize("settings", [{"target": TARGET}, {"surprise": 1}])
def test_a_decorator_refuses_what_it_does_not_take(settings: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=next(iter(settings))):
        Betimes("memory://").schedule("0 8 * * *", **settings)


def test_a_decorator_refuses_bad_settings_by_name() -> None:
    bt = Betimes("memory://")
    with pytest.raises(Invalid, match="jitter_seconds"):
        bt.schedule("0 8 * * *", jitter_seconds=-1)(print)
    with pytest.raises(Invalid, match="cron"):
        bt.schedule()(print)


async def test_a_decorator_takes_several_crons_or_an_interval() -> None:
    bt = Betimes("memory://", clock=VirtualClock())
    bt.schedule(["0 8 * * *", "@weekly"], schedule_id="crons")(print)
    bt.schedule(every="15m", schedule_id="interval")(print)
    async with bt:
        assert (await bt.schedules.get("crons")).cron == ("0 8 * * *", "@weekly")
        assert (await bt.schedules.get("interval")).to_dict()["every"] == {"seconds": 900, "anchor": None}
