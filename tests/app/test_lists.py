"""Lists refuse from Python what they refuse over HTTP: a filter nothing can match is a mistake, not an empty page."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from betimes import Betimes, Invalid, VirtualClock
from betimes.domain.service import Caller
from betimes.ledger.effects import Effects
from betimes.ledger.service import Ledger
from tests.app.test_mappings import SERVICES

LISTS: dict[str, list[dict[str, Any]]] = {
    "runs.runs": [{"status": "zz"}, {"handler": "zz"}, {"account_id": 7}],
    "schedules.list": [{"status": "zz"}],
    "schedules.ticks": [{"status": "zz"}],
    "sensors.list": [{"status": "zz"}, {"sensor_type": "zz"}],
    "sensors.evaluations": [{"status": "zz"}],
    "intents.list": [{"trigger_type": "zz"}, {"enabled": "zz"}],
    "intents.pending": [{"in_cooldown": "zz"}],
    "scores.list": [{"overdue": "zz"}, {"game_status": 7}],
    "scores.history": [{"event_type": "zz"}],
    "notifications.inbox": [{"unread": "zz"}],
    "ledger.segments": [{"order": "zz"}],
}


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    return ((name, wrong) for name, each in LISTS.items() for wrong in each)


@pytest.mark.parametrize(("name", "wrong"), list(cases()))
async def test_a_filter_that_nothing_can_match_is_refused(name: str, wrong: dict[str, Any]) -> None:
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        with pytest.raises(Invalid) as refused:
            await call(bt, name, wrong)
        assert [path for path, _ in refused.value.problems] == [f"query.{field}" for field in wrong]


async def test_everything_that_is_wrong_with_a_list_is_named() -> None:
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        with pytest.raises(Invalid, match=r"3 parameters are wrong.*must be active, paused or error") as refused:
            await call(bt, "sensors.list", {"status": "zz", "sensor_type": "zz", "limit": "ten"})
        assert len(refused.value.problems) == 3


def paged() -> Iterator[str]:
    """Every method of a service that gives pages."""
    for service in SERVICES:
        for name, method in inspect.getmembers(service, inspect.iscoroutinefunction):
            if not name.startswith("_") and {"cursor", "limit"} <= inspect.signature(method).parameters.keys():
                yield f"{service.__name__.lower()}.{name}"


@pytest.mark.parametrize("name", list(paged()))
async def test_every_list_is_checked(name: str) -> None:
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        with pytest.raises(Invalid) as refused:
            await call(bt, name, {"limit": "ten"})
        assert [path for path, _ in refused.value.problems] == ["query.limit"]


async def call(bt: Betimes, name: str, named: dict[str, Any]) -> Any:
    """Call a list of a service; whatever it lists of does not matter."""
    service, _, method = name.partition(".")
    kind = next(one for one in SERVICES if one.__name__.lower() == service)
    more: Any = (frozenset({"runs"}),) if kind in (Effects, Ledger) else ()
    found = getattr(kind(bt.engine, Caller("default", "test"), *more), method)
    required = [one for one in inspect.signature(found).parameters.values() if one.default is one.empty]
    return await found(*[{} if one.name == "filters" else "any" for one in required], **named)
