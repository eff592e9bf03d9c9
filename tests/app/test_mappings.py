"""Requests from Python may be what would come over a wire; what is wrong with them is named all at once."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import pytest

from betimes import Betimes, Invalid, VirtualClock
from betimes.admin.service import Tenants
from betimes.domain.service import Caller, Service
from betimes.intents.service import Intents
from betimes.ledger.effects import Effects
from betimes.ledger.service import Ledger
from betimes.notifications.service import Notifications
from betimes.runs.service import Runs
from betimes.schedules.service import Schedules
from betimes.scores.service import Scores
from betimes.sensors.service import Sensors


async def test_mappings_are_taken_for_requests() -> None:
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        asked = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"}
        verdict = await bt.runs.trigger(asked)
        claim = await bt.runs.claim(verdict.run_id or "", {"worker": "w"})
        done = await bt.runs.complete(claim.run.run_id, {"claim_token": claim.claim_token, "status": "succeeded"})
        assert done.status == "succeeded"
        await bt.scores.create({"user_id": "ann"})
        await bt.scores.adjust("ann", {"delta": -10, "reason": "a game"})
        assert (await bt.scores.get("ann")).score == 40


async def test_everything_that_is_wrong_with_a_mapping_is_named() -> None:
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        with pytest.raises(Invalid) as wrong:
            await bt.runs.trigger({"account_id": 7, "trigger_typ": "SIGNAL_ARRIVED"})
        paths = {path for path, _ in wrong.value.problems}
        assert {"account_id", "trigger_type", "trigger_typ", "idempotency_key"} <= paths


async def test_a_misspelt_field_is_told_the_one_that_is_meant() -> None:
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        with pytest.raises(Invalid) as wrong:
            await bt.runs.trigger({"account_id": "a", "trigger_typ": "SIGNAL_ARRIVED", "colour": 1})
    told = dict(wrong.value.problems)
    assert told["trigger_typ"] == "no such field; did you mean trigger_type?"
    assert "known:" in told["colour"]
    assert "idempotency_key" in told["colour"]


@pytest.mark.parametrize("sent", [{"event_id": "e"}, 5, "e"])
async def test_one_thing_where_many_are_expected_is_refused(sent: Any) -> None:
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        for ask in (bt.notifications.send_many, bt.notifications.statuses, bt.scores.create_many):
            with pytest.raises(Invalid, match="expected a list"):
                await ask(sent)


SERVICES: tuple[type[Service], ...] = (
    Runs,
    Notifications,
    Intents,
    Schedules,
    Sensors,
    Scores,
    Tenants,
    Effects,
    Ledger,
)
NO_REQUEST = {"command", "is_wanted", "kind", "place", "recorded", "rows_of", "segment", "target", "targets"}
"""Parameters that are the code's own, never what somebody asks for."""


def requests() -> Iterator[tuple[type[Service], str, str]]:
    """Every public method of a service that takes a request, and the parameter that is one."""
    for service in SERVICES:
        for name, method in inspect.getmembers(service, inspect.iscoroutinefunction):
            if name.startswith("_"):
                continue
            for parameter, hint in get_type_hints(method).items():
                if parameter not in NO_REQUEST | {"return"} and is_request(hint):
                    yield service, name, parameter


def is_request(hint: Any) -> bool:
    is_struct = isinstance(hint, type) and issubclass(hint, msgspec.Struct)
    return is_struct or isinstance(hint, TypeVar) or any(map(is_request, get_args(hint)))


def test_requests_are_found_by_looking() -> None:
    found = {f"{service.__name__}.{name}" for service, name, _ in requests()}
    assert {"Schedules.create", "Schedules.put", "Sensors.message", "Scores.sweep", "Tenants.set_policy"} <= found
    assert len(found) > 35


def named(part: Any) -> str:
    return getattr(part, "__name__", str(part))


@pytest.mark.parametrize(("service", "method", "parameter"), list(requests()), ids=named)
async def test_every_request_may_be_a_mapping(service: type[Service], method: str, parameter: str) -> None:
    """What is wrong with it is `Invalid` that names the field; a mapping is never asked for an attribute."""
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        more: Any = (frozenset({"runs"}),) if service in (Effects, Ledger) else ()
        bound = getattr(service(bt.engine, Caller("default", "test"), *more), method)
        arguments: dict[str, Any] = {
            name: "x" for name, one in inspect.signature(bound).parameters.items() if one.default is one.empty
        }
        hint = get_type_hints(bound)[parameter]
        sent: Any = [{"no_such_field": 1}] if get_origin(hint) is Sequence else {"no_such_field": 1}
        try:
            told = str(await bound(**arguments | {parameter: sent}))
        except Invalid as error:
            told = str(error.problems)
    assert "no_such_field" in told or "is required" in told


async def test_what_was_refused_with_attribute_errors_works() -> None:
    target = {"kind": "handler", "name": "brief"}
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        made = await bt.schedules.create({"schedule_id": "brief", "cron": "0 8 * * *", "target": target})
        assert (await bt.schedules.put("brief", {**made.to_dict(), "cron": "0 9 * * *"})).version == 2
        preview = await bt.schedules.preview({"cron": "0 8 * * *", "count": 2})
        assert len(preview.items) == 2
        await bt.sensors.create({"sensor_id": "mail", "sensor_type": "push", "target": target})
        assert (await bt.sensors.message("mail", {"message_id": "m", "data": {"n": 1}})).status == "triggered"
        assert (await bt.notifications.ban("ann", {"reason": "asked for it"})).banned
        entry = {"trigger_type": "NIGHTLY", "debounce_seconds": 0, "cooldown_seconds": 60}
        registry = await bt.runs.put_registry([entry])
        assert "NIGHTLY" in {one.trigger_type for one in registry.entries}
        with pytest.raises(Invalid) as wrong:
            await bt.runs.put_registry([entry, {"trigger_type": "OTHER", "colour": 1}])
        paths = {path for path, _ in wrong.value.problems}
        assert {"entries[1].colour", "entries[1].cooldown_seconds"} <= paths
