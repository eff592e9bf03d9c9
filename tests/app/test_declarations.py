"""What is declared in Python acts, or is refused with the next step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from betimes import Betimes, BlockingBetimes, Invalid, Refused, VirtualClock
from betimes.core.checks import check_value
from betimes.schedules.views import ScheduleRequest


async def _poll(cursor: Any, context: Any) -> None: ...


DECLARED_LATE: dict[str, Callable[[Any], Any]] = {
    "handler": lambda bt: bt.handler("x")(print),
    "run": lambda bt: bt.run("SIGNAL_ARRIVED")(print),
    "schedule": lambda bt: bt.schedule("0 8 * * *")(print),
    "sensor": lambda bt: bt.sensor(target={"kind": "sweep"})(_poll),
    "on_message": lambda bt: bt.on_message("orders")(print),
    "source": lambda bt: bt.source("price")(print),
    "enrichment": lambda bt: bt.enrichment(print),
    "channel": lambda bt: bt.channel("push")(print),
}


@pytest.mark.parametrize("name", DECLARED_LATE)
async def test_declaring_on_an_open_instance_is_refused(name: str) -> None:
    bt = Betimes("memory://", clock=VirtualClock())
    async with bt:
        with pytest.raises(Invalid, match="declare it first, and open betimes afterwards"):
            DECLARED_LATE[name](bt)
    DECLARED_LATE[name](bt)


def test_declaring_on_an_open_blocking_instance_is_refused() -> None:
    with BlockingBetimes("memory://", clock=VirtualClock()) as bt, pytest.raises(Invalid, match="open already"):
        bt.schedule("0 8 * * *", tz="UTC")(print)


async def test_a_decorated_schedule_takes_timezone_or_tz() -> None:
    bt = Betimes("memory://", clock=VirtualClock())
    bt.schedule("0 8 * * *", timezone="Europe/Berlin", schedule_id="long")(lambda body: None)
    bt.schedule("0 8 * * *", tz="Europe/Berlin", schedule_id="short")(lambda body: None)
    with pytest.raises(Invalid, match="tz and timezone"):
        bt.schedule("0 8 * * *", tz="UTC", timezone="UTC")
    async with bt:
        page = await bt.schedules.list()
    assert {view.schedule_id: view.timezone for view in page.items} == {
        "long": "Europe/Berlin",
        "short": "Europe/Berlin",
    }


def test_a_function_without_a_name_needs_an_id() -> None:
    bt = Betimes("memory://")
    with pytest.raises(Invalid, match="give schedule_id="):
        bt.schedule("0 8 * * *")(lambda body: None)
    with pytest.raises(Invalid, match="give sensor_id="):
        bt.sensor(target={"kind": "sweep"})(lambda cursor: None)
    with pytest.raises(Invalid, match=r"^'functools\.partial' is not a valid name"):
        bt.schedule("0 8 * * *")(partial(print, "x"))


def test_an_object_in_the_wrong_place_is_told_without_its_address() -> None:
    bt = Betimes("memory://")
    for mistake in (lambda: bt.source(object()), lambda: VirtualClock(object())):  # type: ignore[arg-type]
        with pytest.raises(Invalid, match=r"builtins\.object") as refused:
            mistake()
        assert "0x" not in str(refused.value)
    with pytest.raises(Invalid) as refused:
        check_value({print: 1}, ScheduleRequest)
    assert "builtins.print" in [path for path, _ in refused.value.problems]


@pytest.mark.parametrize(
    ("decorator", "settings", "told"),
    [
        ("schedule", {"cron": "0 8 * * *", "target": {"kind": "sweep"}}, "target; its target is the function"),
        ("schedule", {"cron": "0 8 * * *", "colour": 1}, "colour; known: asset_selection, "),
        ("schedule", {"cron": "0 8 * * *", "zone": "UTC"}, r"zone; did you mean tz\?"),
        ("schedule", {"cron": "0 8 * * *", "timezon": "UTC"}, r"timezon; did you mean timezone\?"),
        ("sensor", {"target": {"kind": "sweep"}, "colour": 1, "sensor_type": "push"}, "colour, sensor_type"),
        ("on_message", {"sensor_id": "orders", "target": {"kind": "sweep"}}, "target; its target is the function"),
    ],
)
def test_a_decorator_names_the_settings_it_does_not_take(decorator: str, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match=f"@bt.{decorator} does not take {told}"):
        getattr(Betimes("memory://"), decorator)(**settings)


@pytest.mark.parametrize("decorator", ["handler", "run", "schedule", "sensor", "on_message", "source", "channel"])
def test_a_decorator_without_parentheses_is_refused(decorator: str) -> None:
    """It would replace the function by a decorator and register nothing."""
    bt = Betimes("memory://")
    with pytest.raises(Invalid, match=rf"write @bt\.{decorator}\("):

        @getattr(bt, decorator)  # type: ignore[untyped-decorator, unused-ignore]
        def morning(body: Any) -> None: ...


def test_a_sensor_without_a_target_is_refused() -> None:
    with pytest.raises(Invalid, match="needs a target"):
        Betimes("memory://").sensor("30s")


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"debounce": 60}, "debounce: no such field; did you mean debounce_keep, debounce_max_wait_seconds, debounce_"),
        ({"debounce_second": 1}, "debounce_second: no such field; did you mean debounce_seconds[?]"),
        ({"cooldown_seconds": -1}, "cooldown_seconds: must be at least 0"),
    ],
)
def test_a_run_is_told_where_it_is_declared_what_is_wrong_with_its_entry(entry: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match=f"runs.registry.ORDER_PAID.{told}"):
        Betimes("memory://").run("ORDER_PAID", **entry)


async def test_a_new_type_without_its_limits_is_refused_with_the_function_that_declares_it() -> None:
    bt = Betimes("memory://", clock=VirtualClock())

    @bt.run("ORDER_PAID", cooldown_seconds=0)
    def thank(payload: Any) -> None: ...

    with pytest.raises(Invalid) as refused:
        await bt.open()
    assert f"see @bt.run('ORDER_PAID') of {__name__}.{thank.__qualname__};" in str(refused.value)
    assert "needs debounce_seconds=… there" in str(refused.value)
    assert refused.value.problems == (("runs.registry.ORDER_PAID.debounce_seconds", "is required"),)


async def test_a_roll_back_keeps_what_the_application_declares() -> None:
    limits = {"debounce_seconds": 0, "cooldown_seconds": 0}
    bt = Betimes("memory://", clock=VirtualClock())
    bt.run("ORDER_PAID", **limits)(print)
    async with bt:
        with pytest.raises(Refused, match=r"only in what applications declare.*runs.registry.ORDER_PAID") as refused:
            await bt.mine.tenants.rollback_policy({})
        assert refused.value.reason == "DECLARED_IN_CODE"
        own = (await bt.mine.tenants.policy()).overrides
        await bt.mine.tenants.set_policy({"overrides": {**own, "intents": {"claim_lease_s": 600}}})
        back = await bt.mine.tenants.rollback_policy({"to_version": 0})
        assert back.overrides == own
        assert back.warnings == []


async def test_overrides_without_what_the_application_declares_are_warned_of() -> None:
    bt = Betimes("memory://", clock=VirtualClock())
    bt.run("ORDER_PAID", debounce_seconds=0, cooldown_seconds=0)(print)
    async with bt:
        request = {"overrides": {"intents": {"claim_lease_s": 600}}}
        checked = await bt.mine.tenants.check_policy(request)
        assert [warning.path for warning in checked.warnings] == ["runs.registry.ORDER_PAID"]
        assert "the application 'default' declares it" in checked.warnings[0].message
        written = await bt.mine.tenants.set_policy(request)
        assert written.warnings == checked.warnings


async def test_what_an_application_declares_no_longer_is_not_kept(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/betimes.db"
    first = Betimes(url, clock=VirtualClock())
    first.run("ORDER_PAID", debounce_seconds=0, cooldown_seconds=0)(print)
    await first.open()
    await first.close()
    async with Betimes(url, app="default", clock=VirtualClock()) as bt:
        assert "runs" in (await bt.mine.tenants.policy()).overrides, "it is in force until somebody changes that"
        assert (await bt.mine.tenants.rollback_policy({"to_version": 0})).overrides == {}


async def test_a_type_that_the_policy_registers_needs_no_limits_in_python() -> None:
    entry = {"debounce_seconds": 0, "cooldown_seconds": 0}
    bt = Betimes("memory://", clock=VirtualClock(), policy={"runs": {"registry": {"ORDER_PAID": entry}}})
    bt.run("ORDER_PAID")(print)
    async with bt:
        asked = {"account_id": "a", "trigger_type": "ORDER_PAID", "idempotency_key": "k"}
        assert (await bt.runs.trigger(asked)).result == "ALLOW"


async def test_a_schedule_that_is_refused_at_open_is_named() -> None:
    bt = Betimes("memory://")
    bt.schedule("0 8 * * *", tz="UTC")(fine)
    bt.schedule("0 8 * * *", tz="America/NewYork")(wrong)
    with pytest.raises(Invalid, match=r"@bt\.schedule of wrong: .*America/New_York"):
        await bt.open()


async def fine(payload: Any) -> None: ...


async def wrong(payload: Any) -> None: ...
