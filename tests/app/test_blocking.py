"""betimes for code that does not await."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from betimes import BlockingBetimes, NotFound, VirtualClock
from betimes.app import Betimes
from betimes.core.errors import Invalid
from betimes.domain.service import Caller
from betimes.ledger.service import Ledger
from betimes.runs.views import TriggerRequest
from tests.definition_requests import schedule_request


def trigger(key: str) -> TriggerRequest:
    return TriggerRequest(account_id="acct-7", trigger_type="SIGNAL_ARRIVED", idempotency_key=key)


def test_services_are_called_and_waited_for(tmp_path: Path) -> None:
    with BlockingBetimes(f"sqlite:///{tmp_path}/b.db", workers=False) as bt:
        assert bt.runs.trigger(trigger("sig-1")).result == "ALLOW"
        assert bt.for_caller(Caller("other")).runs.trigger(trigger("sig-1")).result == "ALLOW"
        with pytest.raises(NotFound):
            bt.schedules.get("none")
    with BlockingBetimes(f"sqlite:///{tmp_path}/b.db", workers=False) as bt:
        assert bt.runs.trigger(trigger("sig-1")).reason == "DUPLICATE_IDEMPOTENCY_KEY"


def test_what_is_done_is_recorded_with_the_reason_for_it() -> None:
    with BlockingBetimes("memory://", workers=False) as bt:
        bt.with_note("a gift for ana").schedules.create(
            {"schedule_id": "brief", "cron": "0 8 * * *", "target": {"kind": "handler", "name": "brief"}}
        )
        bt.schedules.disable("brief")
        told = bt.ledger.segments({"kind": "schedule"}).items
        assert [(one.actor, one.note) for one in told] == [("app", "a gift for ana"), ("app", "")]


def test_what_is_declared_runs_when_its_time_has_come() -> None:
    bt = BlockingBetimes("memory://", clock=VirtualClock("2026-01-05T09:00:00Z"))
    heard: list[Any] = []

    def brief(payload: Any) -> None:
        heard.append(threading.current_thread().name)

    bt.schedule("0 10 * * *")(brief)
    with bt:
        done = bt.advance(by_s=2 * 86_400)
    assert done.fired["schedule"] == 2
    assert len(heard) == 2


def test_it_is_made_of_every_method_of_the_application() -> None:
    with BlockingBetimes("memory://", workers=False) as bt:
        for name in (name for name in dir(Betimes) if not name.startswith("_") and name not in ("open", "close")):
            getattr(bt, name)


def test_before_and_after_it_is_open_it_says_so() -> None:
    bt = BlockingBetimes("memory://", workers=False)
    with pytest.raises(Invalid, match="not open"):
        bt.tick()
    with bt:
        bt.tick()
    with pytest.raises(Invalid, match="not open"):
        bt.tick()


def test_its_thread_ends_with_it() -> None:
    before = set(threading.enumerate())
    with BlockingBetimes("memory://"):
        assert any(thread.name == "betimes" for thread in threading.enumerate())
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "betimes"]


def test_a_store_that_cannot_be_opened_leaves_no_thread_behind(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r".+"):
        BlockingBetimes(f"sqlite:///{tmp_path}/no/such/folder/b.db").open()
    assert not [thread for thread in threading.enumerate() if thread.name == "betimes"]


def test_waiting_for_itself_is_refused_and_not_a_deadlock() -> None:
    bt = BlockingBetimes("memory://", clock=VirtualClock())
    refused: list[BaseException] = []

    async def again(payload: Any) -> None:
        await asyncio.sleep(0)
        try:
            bt.tick()
        except Invalid as error:
            refused.append(error)

    bt.handler("again")(again)
    with bt:
        bt.schedules.create(_every_minute("again"))
        bt.advance(by_s=60)
    assert "cannot wait for itself" in str(refused[0])


def _every_minute(handler: str) -> Any:

    return schedule_request({"schedule_id": "s", "cron": "* * * * *", "target": {"kind": "handler", "name": handler}})


def test_what_it_has_is_listed_for_whoever_explores_it() -> None:
    with BlockingBetimes("memory://", workers=False) as bt:
        assert {"notifications", "advance"} <= set(dir(bt))
        assert {"send", "send_many"} <= set(dir(bt.notifications))


def test_the_error_before_it_is_open_names_the_blocking_form() -> None:
    with pytest.raises(Invalid, match="`with BlockingBetimes"):
        _ = BlockingBetimes("memory://").runs


async def test_what_is_not_found_says_where_to_look() -> None:
    async with Betimes("memory://", workers=False) as bt:
        with pytest.raises(NotFound, match=r"/v1/triggers/\{run_key\}"):
            await bt.runs.run("nope")
        with pytest.raises(NotFound, match="kind:id:version"):
            await Ledger(bt.engine, Caller(), frozenset()).explain("nope")


def test_a_mistake_is_told_in_the_name_of_the_class_that_was_used() -> None:
    with pytest.raises(TypeError, match=r"BlockingBetimes\(\): got an unexpected keyword argument 'foo'"):
        BlockingBetimes("memory://", foo=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="'BlockingBetimes' object has no attribute 'nope'"):
        BlockingBetimes("memory://").nope  # type: ignore[attr-defined]  # noqa: B018


def test_services_list_what_callers_use() -> None:
    with BlockingBetimes("memory://", workers=False) as bt:
        listed = [name for name in dir(bt.runs) if not name.startswith("__")]
        assert {"trigger", "run_state", "claim", "is_replay"} <= {*listed}
        assert not [name for name in listed if name.startswith("_") or name in ("engine", "submit", "stream", "last")]
