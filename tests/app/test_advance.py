"""Moving a virtual clock takes as long as it takes: whoever waits for it is there in the end, or is told why not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from betimes.app import Betimes
from betimes.app.passes import advance_fully
from betimes.core.errors import Fault
from betimes.core.instants import HOUR, Instant, parse, render
from betimes.engine.tick_result import TickResult
from betimes.engine.virtual_clock import VirtualClock
from tests.http.served import site

START = "2026-01-05T09:00:00Z"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Return a handler that takes 26 seconds, by moving the time of the event loop it is called in."""

    def handle(payload: Any) -> None:
        loop = asyncio.get_running_loop()
        later_s = loop.time() + 26
        monkeypatch.setattr(loop, "time", lambda: later_s)

    return handle


def hourly(handle: Callable[[Any], None]) -> Callable[[Betimes], None]:
    async def note(payload: Any) -> None:
        handle(payload)

    def declare(bt: Betimes) -> None:
        bt.schedule("0 * * * *", schedule_id="hourly")(note)

    return declare


async def test_a_clock_that_is_moved_in_python_is_there_however_long_it_takes(slow: Callable[[Any], None]) -> None:
    clock = VirtualClock(START)
    bt = Betimes("memory://", clock=clock)
    hourly(slow)(bt)
    async with bt:
        done = await bt.advance(by_s=5 * 3_600)
    assert (render(clock()), done.complete, done.fired) == ("2026-01-05T14:00:00Z", True, {"schedule": 5})


async def test_over_http_a_clock_says_how_far_it_came_and_goes_on_when_asked_again(slow: Callable[[Any], None]) -> None:
    async with site(declare=hourly(slow)) as s:
        ticks, answers = 0, list[dict[str, Any]]()
        while not answers or not answers[-1]["complete"]:
            answers.append((await s.client("POST", "/v1/clock", {"advance_to": "2026-01-05T11:30:00Z"})).json)
            ticks += answers[-1]["fired"].get("schedule", 0)
    assert len(answers) > 1
    assert [answer["complete"] for answer in answers] == [False] * (len(answers) - 1) + [True]
    assert (answers[0]["now"], answers[-1]["now"], ticks) == ("2026-01-05T10:00:00Z", "2026-01-05T11:30:00Z", 2)


@pytest.mark.parametrize("worker", ["any", "outside"])
async def test_an_intent_that_waits_for_an_outside_worker_does_not_stop_the_clock(worker: str) -> None:
    clock = VirtualClock(START)
    bt = Betimes("memory://", clock=clock)
    ran: list[Any] = []
    hourly(ran.append)(bt)
    async with bt:
        await bt.intents.create(
            {
                "intent_id": "nvda",
                "user_id": "ann",
                "trigger_type": "price",
                "action_type": "notify",
                "condition": {"expression": "NVDA < 130"},
                "action_context": "NVDA is under 130.",
                "worker": worker,
            }
        )
        done = await bt.advance(by_s=5 * 3_600)
        assert [intent.intent_id for intent in (await bt.intents.pending()).items] == ["nvda"]
    assert (render(clock()), done.complete, len(ran)) == ("2026-01-05T14:00:00Z", True, 5)


async def test_a_clock_that_cannot_go_on_says_so() -> None:
    clock = VirtualClock(START)
    due_at = clock() + HOUR

    async def tick(left_s: float) -> TickResult:
        return TickResult(clock(), {}, {}, 0, clock() < due_at, due_at)

    with pytest.raises(Fault, match="stopped at 2026-01-05T10:00:00Z, before 2026-01-06T00:00:00Z"):
        await advance_fully(tick, clock, parse("2026-01-06T00:00:00Z"))


async def test_a_clock_at_which_more_comes_due_for_ever_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock(START)
    jumped: list[Instant] = []

    async def tick(left_s: float) -> TickResult:
        loop = asyncio.get_running_loop()
        later_s = loop.time() + 26
        monkeypatch.setattr(loop, "time", lambda: later_s)
        jumped.append(clock())
        return TickResult(clock(), {"sample": 1_000}, {}, 0, False, clock())

    with pytest.raises(Fault, match="cannot be done"):
        await advance_fully(tick, clock, parse("2026-01-06T00:00:00Z"))
    assert set(jumped) == {parse(START)}


async def test_what_moving_time_did_can_be_read() -> None:
    async with Betimes("memory://", clock=VirtualClock(START)) as bt:
        await bt.schedules.put("brief", {"cron": "0 10 * * *", "target": {"kind": "sweep"}})
        done = await bt.advance(by_s=3_600)
    assert "now='2026-01-05T10:00:00Z', fired={'schedule': 1}" in str(done)
    assert "next_due_at='2026-01-0" in repr(done)
