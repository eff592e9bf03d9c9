"""The built-in worker on every store: conditions, sources, the gate, notifications, handlers, and lost claims."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from betimes.core.datetimes import instant
from betimes.core.errors import Invalid
from betimes.core.streams import StreamId
from betimes.engine.jobs import Submission
from betimes.engine.reports import Report
from betimes.intents.action import Action
from betimes.intents.actions import action_id_of
from betimes.notifications.model import Notify
from betimes.scores.model import Interact
from tests.intents.stories import HOUR, MINUTE, NINE, body
from tests.intents.working import MEMORY, inbox, worker, working
from tests.intents.worlds import IntentWorld
from tests.patience import HANGS_S
from tests.stores.backends import Backend


async def test_a_condition_that_holds_is_told_once_and_then_cools(backend: Backend, tmp_path: Path) -> None:
    prices = {"NVDA": 131.0}
    async with working(backend, tmp_path, channels=["email"]) as world:
        await world.intents.create(
            body(intent_id="nvda", condition={"expression": "NVDA < 130"}, action_priority="high")
        )
        worker_ = worker(world, sources={"price": prices.__getitem__})
        assert await worker_.once() == {"condition_not_met": 1}
        world.hours_pass(0.1)
        prices["NVDA"] = 128.4
        check_at = (await world.intents.get("nvda")).next_check
        assert check_at
        assert await worker_.once() == {"success": 1}
        world.hours_pass(23.9)
        assert await worker_.once() == {}
        world.hours_pass(0.1)
        assert await worker_.once() == {"success": 1}
        told = await inbox(world)
        assert len(told) == 2
        assert told[0].asked == Notify(
            "ALERT",
            "Alert: NVDA < 130",
            "Tell me.",
            "intents",
            ("email",),
            "HIGH",
            dedupe_key=told[0].key,
            metadata={"intent_id": "nvda", "action_type": "notify"},
            requested=True,
        )
        assert told[0].key == f"intent:nvda:{check_at.isoformat().replace('+00:00', 'Z')}"
        newest = (await world.intents.history("nvda")).items[0]
        assert newest.trigger_data == {
            "price:NVDA": 128.4,
            "notification": {"outcome": "NOW", "reasons": ["DEFAULT_PASS"]},
        }
        assert newest.message_id == told[1].key
        assert newest.worker == "built-in"
        assert newest.evaluation_ms is not None


DEFAULTS = {
    "notify": ("ALERT", "Alert"),
    "reminder": ("REMINDER", "Reminder"),
    "check_in": ("ALERT", "Check-in"),
    "briefing": ("ALERT", "Briefing"),
    "analysis": ("ALERT", "Analysis"),
}


async def test_each_action_has_its_default(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        context = "A first line\n" + "x" * 2_000
        for action_type in DEFAULTS:
            await world.intents.create(
                body("interval", user_id=action_type, action_type=action_type, action_context=context)
            )
        world.hours_pass(0.5)
        assert await worker(world).once() == {"success": 5}
        for action_type, (event_type, title) in DEFAULTS.items():
            [told] = await inbox(world, action_type)
            asked = told.asked
            assert (asked.event_type, asked.title, len(asked.message)) == (event_type, title, 1_000)
            assert asked.priority_hint == "MEDIUM"


async def test_a_handler_of_that_name_is_called_instead(backend: Backend, tmp_path: Path) -> None:
    seen: list[Action] = []

    def brief(action: Action) -> str:
        seen.append(action)
        return "Good morning."

    async def check_in(action: Action) -> None:
        raise RuntimeError("not now")

    async with working(backend, tmp_path) as world:
        await world.intents.create(body("interval", intent_id="b", action_type="briefing", metadata={"a": 1}))
        await world.intents.create(body("interval", intent_id="c", action_type="check_in"))
        world.hours_pass(0.5)
        handlers = {"briefing": brief, "handler:check_in": check_in, "notify": brief}
        assert await worker(world, handlers=handlers).once() == {"success": 1, "failed": 1}
        [action] = seen
        assert (action.intent_id, action.user_id, action.metadata, action.tenant) == ("b", "ann", {"a": 1}, "acme")
        assert action.action_id == action_id_of("b", NINE + HOUR // 2)
        assert await inbox(world) == ()
        [execution] = (await world.intents.history("b")).items
        assert execution.message_preview == "Good morning."
        failed = await world.intents.get("c")
        assert (failed.last_status, failed.last_error) == ("failed", "RuntimeError('not now')")


async def test_the_gate_is_asked_first(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        for kind in ("ALLOWED", "DEFERRED", "SKIPPED"):
            gate = {"trigger_type": kind, "account_id": "acct"} if kind == "ALLOWED" else {"trigger_type": kind}
            await world.intents.create(body("interval", intent_id=kind, gate=gate))
        world.hours_pass(0.5)
        assert await worker(world).once() == {"success": 1, "gate_blocked": 2}
        [allowed] = (await world.intents.history("ALLOWED")).items
        [deferred] = (await world.intents.history("DEFERRED")).items
        [skipped] = (await world.intents.history("SKIPPED")).items
        assert allowed.gate_result
        assert allowed.gate_result["segment_id"] == "account:acct:1"
        assert deferred.gate_result
        assert (deferred.gate_result["result"], deferred.gate_result["reasons"]) == ("DEFER", ["COOLDOWN"])
        assert skipped.gate_result
        assert skipped.gate_result["result"] == "SKIP"
        assert len(await inbox(world)) == 1
        assert (await world.intents.get("SKIPPED")).next_check


async def test_silence_is_fed_by_scores_without_any_set_up(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        score = StreamId("acme", "score", "ann")
        await world.inner.engine.submit(Submission(stream=score, command=Interact("text")))
        await world.intents.create(body("silence", intent_id="s"))
        world.hours_pass(47)
        await world.inner.engine.submit(Submission(stream=score, command=Interact("text")))
        world.hours_pass(47)
        assert await worker(world).once() == {"condition_not_met": 1}
        world.hours_pass(1)
        assert await worker(world).once() == {"success": 1}
        [execution, _] = (await world.intents.history("s")).items
        assert execution.trigger_data
        assert execution.trigger_data["inactive_hours"] == 48


async def test_somebody_never_heard_of_is_silent_since_the_intent_was_made(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        await world.intents.create(body("silence", intent_id="s"))
        assert await worker(world).once() == {"condition_not_met": 1}
        world.hours_pass(48)
        assert await worker(world).once() == {"success": 1}


async def test_portfolios_give_their_value_and_their_largest_move(backend: Backend, tmp_path: Path) -> None:
    async def portfolio(user_id: str) -> dict[str, Any]:
        return {"total_value": 9_999.5, "holdings": {"NVDA": 1.5, "AMD": "-6.25"}}

    async with working(backend, tmp_path) as world:
        both = "any_holding_change > 6% and total_value < 10000"
        await world.intents.create(body("portfolio", intent_id="p", condition={"expression": both}))
        assert await worker(world, sources={"portfolio": portfolio}).once() == {"success": 1}
        [execution] = (await world.intents.history("p")).items
        assert execution.trigger_data
        assert execution.trigger_data["any_holding_change"] == 6.25


async def test_what_is_no_number_is_the_sources_failure_and_says_so(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        for number, given in enumerate((None, "much", float("nan"), True, [1], {"price": 1})):
            await world.intents.create(body(intent_id=f"i{number}"))
            source = {"price": partial(_always, given)}
            assert await worker(world, sources=source).once() == {"waiting_for_source": 1}
            assert "no number" in await waits_for(world, f"i{number}")


def _always(given: Any, ticker: str) -> Any:
    return given


async def waits_for(world: IntentWorld, intent_id: str) -> str:
    """The error of the source an intent waits for, after which it is as if it had never been looked at."""
    left = await world.intents.get(intent_id)
    assert left.waiting_for_source
    assert (left.waiting_for_source.name, left.claim, left.last_status, left.last_error) == ("price", None, None, None)
    assert (await world.intents.history(intent_id)).items == []
    return left.waiting_for_source.error


async def test_a_slow_or_broken_source_is_never_the_intents_failure(backend: Backend, tmp_path: Path) -> None:
    async def slow(ticker: str) -> int:
        await asyncio.Event().wait()
        return 1

    def broken(ticker: str) -> int:
        raise OSError("no line")

    async with working(backend, tmp_path) as world:
        for name, source, wanted in (("slow", slow, "took longer"), ("broken", broken, "no line")):
            await world.intents.create(body(intent_id=name))
            # a source that never answers has had too long whatever the limit is
            settings = {"source_timeout_s": 0} if name == "slow" else {}
            reports: list[Report] = []
            worker_ = worker(world, sources={"price": source}, report=reports.append, **settings)
            assert await worker_.once() == {"waiting_for_source": 1}
            assert wanted in await waits_for(world, name)
            assert [report.what for report in reports] == ["source_failed"]
        with pytest.raises(Invalid, match="no such source: weather"):
            worker(world, sources={"weather": broken})


async def test_a_source_is_asked_again_with_back_off_and_never_disables_an_intent(tmp_path: Path) -> None:
    prices: dict[str, float] = {}
    async with working(MEMORY, tmp_path) as world:
        await world.intents.create(body(intent_id="nvda"))
        pauses = []
        since = (await world.intents.get("nvda")).next_check
        for _ in range(12):
            assert await worker(world, sources={"price": prices.__getitem__}).once() == {"waiting_for_source": 1}
            left = await world.intents.get("nvda")
            assert left.next_check
            assert left.waiting_for_source
            assert left.waiting_for_source.since == since
            pauses.append((instant(left.next_check) - world.clock()) / MINUTE)
            world.clock.advance(pauses[-1] * 60)
        assert pauses == [1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30, 30]
        assert (await world.intents.get("nvda")).enabled
        prices["NVDA"] = 128
        assert await worker(world, sources={"price": prices.__getitem__}).once() == {"success": 1}
        assert (await world.intents.get("nvda")).waiting_for_source is None


@pytest.mark.parametrize(
    "raised",
    [StopIteration(), asyncio.CancelledError(), SystemExit(3), TimeoutError("theirs"), KeyError("\ud800\0")],
    ids=repr,
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_whatever_a_source_or_a_handler_raises_is_told_as_theirs(
    raised: BaseException, is_async: bool, tmp_path: Path
) -> None:
    def broken(given: Any) -> Any:
        raise raised

    async def broken_too(given: Any) -> Any:
        raise raised

    function = broken_too if is_async else broken
    async with working(MEMORY, tmp_path) as world:
        await world.intents.create(body(intent_id="source"))
        await world.intents.create(body("interval", intent_id="handler", action_type="briefing"))
        world.hours_pass(0.5)
        reports: list[Report] = []
        worker_ = worker(world, sources={"price": function}, handlers={"briefing": function}, report=reports.append)
        assert await worker_.once() == {"failed": 1, "waiting_for_source": 1}
        assert {report.what for report in reports} == {"source_failed", "intent_failed"}
        source, handler = await world.intents.get("source"), await world.intents.get("handler")
        assert source.waiting_for_source
        assert handler.last_error
        for told in (source.waiting_for_source.error, handler.last_error):
            assert "took longer" not in told
        assert (source.claim, handler.claim) == (None, None)


async def test_numbers_beyond_measure_are_the_sources_failure_and_say_so(tmp_path: Path) -> None:
    async with working(MEMORY, tmp_path) as world:
        for number, given in enumerate(("1e18", -(10**30), Decimal("1e200000"))):
            await world.intents.create(body(intent_id=f"i{number}"))
            assert await worker(world, sources={"price": partial(_always, given)}).once() == {"waiting_for_source": 1}
            assert "below 10^18" in await waits_for(world, f"i{number}")
        await world.intents.create(body(intent_id="least", condition={"expression": "NVDA >= 999999999999999"}))
        most = 10**18 - 1
        assert await worker(world, sources={"price": partial(_always, most)}).once() == {"success": 1}


async def test_what_a_handler_returns_is_shown_as_far_as_it_can_be_kept(tmp_path: Path) -> None:
    async with working(MEMORY, tmp_path) as world:
        await world.intents.create(body("interval", intent_id="b", action_type="briefing"))
        world.hours_pass(0.5)
        assert await worker(world, handlers={"briefing": lambda action: "a\0b\ud800c"}).once() == {"success": 1}
        [execution] = (await world.intents.history("b")).items
        assert execution.message_preview == "a\ufffdb?c"


async def test_a_worker_of_one_tenant_is_not_kept_awake_by_what_is_due_of_another(tmp_path: Path) -> None:
    async with working(MEMORY, tmp_path) as world:
        await world.intents.create(body("interval", intent_id="theirs"))
        world.hours_pass(0.5)
        assert await worker(world, tenant="other", poll_s=7)._rest_s() == 7
        assert await worker(world, poll_s=7)._rest_s() < 7


async def test_work_is_stopped_before_it_is_given_back(tmp_path: Path) -> None:
    reached, held_while_stopping = asyncio.Event(), []

    async with working(MEMORY, tmp_path) as world:

        async def brief(action: Action) -> None:
            reached.set()
            try:
                await asyncio.Event().wait()
            finally:
                held_while_stopping.append((await world.intents.get("b")).claim is not None)

        await world.intents.create(body("interval", intent_id="b", action_type="briefing"))
        world.hours_pass(0.5)
        running = asyncio.create_task(worker(world, handlers={"briefing": brief}).run())
        await asyncio.wait_for(reached.wait(), HANGS_S)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert held_while_stopping == [True]
        assert (await world.intents.get("b")).claim is None


async def test_after_a_crash_the_second_workers_notification_is_a_replay(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        await world.intents.create(body("interval", intent_id="tick"))
        world.hours_pass(0.5)
        first = worker(world)
        [held] = await first._claim(1)
        await first._outcome(held)
        world.hours_pass(0.5)
        assert await worker(world, name="second").once() == {"success": 1}
        assert len(await inbox(world)) == 1
        assert await first._fire(held, await first._carry_out(held)) == "claim_lost"
        assert len(await inbox(world)) == 1
        statuses = [(item.status, item.worker) for item in (await world.intents.history("tick")).items]
        assert statuses == [("success", "second")]


async def test_a_worker_that_slept_past_its_claim_does_nothing(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        await world.intents.create(body("interval", intent_id="tick"))
        world.hours_pass(0.5)
        sleeper = worker(world)
        [held] = await sleeper._claim(1)
        held.ends_s = 0.0
        assert await sleeper._work(held) == "claim_lost"
        assert await inbox(world) == ()
        assert (await world.intents.history("tick")).items == []


async def test_a_running_worker_works_until_it_is_cancelled_and_gives_back_what_it_holds(
    backend: Backend, tmp_path: Path
) -> None:
    reached = asyncio.Event()

    async def brief(action: Action) -> None:
        reached.set()
        await asyncio.Event().wait()

    async with working(backend, tmp_path) as world:
        await world.intents.create(body(intent_id="nvda"))
        await world.intents.create(body("interval", intent_id="b", action_type="briefing"))
        world.hours_pass(0.5)
        running = asyncio.create_task(
            worker(world, sources={"price": lambda ticker: 1}, handlers={"briefing": brief}, poll_s=0.01).run()
        )
        await asyncio.wait_for(reached.wait(), HANGS_S)
        while not (await world.intents.history("nvda")).items:  # noqa: ASYNC110 — a database signals nobody
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        left = await world.intents.get("b")
        assert (left.claim, left.last_status) == (None, None)
        assert len(await inbox(world)) == 1


def test_long_ids_still_give_an_action_id_that_fits() -> None:
    long = action_id_of("x" * 200, NINE)
    assert len(long) < 200
    assert long == action_id_of("x" * 200, NINE) != action_id_of("x" * 200, NINE + 1)
    assert action_id_of("nvda", NINE) == "intent:nvda:2026-01-05T09:00:00Z"
