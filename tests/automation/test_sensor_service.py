"""Sensors through the service, on every store, with evaluators in Python and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession
from standardwebhooks import Webhook

from betimes.core.errors import Invalid, NotFound, Refused, VersionMismatch
from betimes.core.streams import StreamId
from betimes.sensors.evaluators import EvaluationContext, Evaluators
from betimes.sensors.model import Evaluation, Message, RunRequest
from betimes.sensors.views import EvaluationView
from tests.automation.worlds import HANDLER, Automation, automation_world
from tests.definition_requests import sensor_request
from tests.stores.backends import Backend

POLL: dict[str, Any] = {"sensor_type": "poll", "evaluator": {"kind": "handler", "name": "orders"}}


def counting() -> Evaluators:
    """An evaluator whose cursor counts up and that asks for one run at every step."""
    evaluators = Evaluators()

    @evaluators.evaluator("orders")
    async def orders(seen: Any, ctx: EvaluationContext) -> Evaluation:
        if isinstance(seen, dict):
            return Evaluation((RunRequest(f"order-{seen['data']}"),))
        number = (seen or 0) + 1
        return Evaluation((RunRequest(f"order-{number}"),), cursor=number)

    return evaluators


def keys(world: Automation) -> list[str]:
    return [body["run_key"] for body in world.called]


async def listed(world: Automation, **filters: Any) -> list[EvaluationView]:
    return (await world.sensors.evaluations("orders", **filters)).items


# -- push


async def test_a_message_causes_one_run_however_often_it_comes(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.sensor(payload={"p": 1})
        first = await world.sensors.receive("orders", {}, b'{"message_id": "m-1", "data": {"n": 1}}')
        assert (first.status, first.is_replay, first.message_id) == ("triggered", False, "m-1")
        [request] = first.run_requests
        assert (request.run_key, request.outcome) == ("sensor:orders:msg:m-1", "requested")
        repeats = await asyncio.gather(
            *(
                s.receive("orders", {}, b'{"message_id": "m-1", "data": "other"}')
                for s in (world.sensors, world.sensors_elsewhere) * 3
            )
        )
        assert {(r.evaluation_id, r.is_replay) for r in repeats} == {(first.evaluation_id, True)}
        await world.settle()
        assert keys(world) == ["sensor:orders:msg:m-1"]
        assert world.called[0]["payload"]["message"]["data"] == {"n": 1}
        [shown] = await listed(world)
        assert shown.run_requests[0].run
        assert shown.run_requests[0].run.status == "done"


async def test_a_storm_with_repeats_evaluates_each_message_once(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.sensor()
        ids = [f"m-{number % 700}" for number in range(1_000)]
        services = (world.sensors, world.sensors_elsewhere)
        for start in range(0, 1_000, 100):
            await asyncio.gather(
                *(services[n % 2].message("orders", Message(name)) for n, name in enumerate(ids[start : start + 100]))
            )
        distinct = len(set(ids))
        history = (await world.engine.store.history(StreamId("acme", "sensor", "orders"), 0, 1_000))[1]
        assert len(history) == 1 + distinct
        await world.settle()
        assert len(keys(world)) == len(set(keys(world))) == distinct


async def test_with_an_evaluator_a_message_is_pending_until_it_reports(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path, evaluators=counting()) as world:
        await world.sensor(evaluator=POLL["evaluator"], timeout_seconds=300)
        first = await world.sensors.receive("orders", {}, b'{"message_id": "m-1", "data": 7}')
        assert (first.status, first.message_id, first.run_requests) == ("pending", "m-1", [])
        assert [view.status for view in await listed(world)] == ["pending"]
        await world.settle()
        [view] = await listed(world)
        assert (view.status, view.message_id, view.evaluation_id) == ("triggered", "m-1", first.evaluation_id)
        again = await world.sensors.receive("orders", {}, b'{"message_id": "m-1", "data": 7}')
        assert (again.status, again.is_replay, again.run_requests[0].run_key) == ("triggered", True, "order-7")
        assert keys(world) == ["order-7"]


async def test_what_became_of_a_message_is_found_by_its_id(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path, evaluators=counting()) as world:
        await world.sensor(evaluator=POLL["evaluator"], timeout_seconds=300)
        for number in range(3):
            await world.sensors.message("orders", Message(f"m-{number}", number))
        [waiting] = (await world.sensors.evaluations("orders", message_id="m-1")).items
        assert (waiting.status, waiting.message_id) == ("pending", "m-1")
        await world.settle()
        [view] = (await world.sensors.evaluations("orders", message_id="m-1")).items
        assert (view.message_id, view.evaluation_id) == ("m-1", waiting.evaluation_id)
        assert view in await listed(world)
        assert (await world.sensors.evaluations("orders", message_id="m-1", status="pending")).items == []
        assert (await world.sensors.evaluations("orders", message_id="m-9")).items == []


async def test_a_failing_evaluator_ends_as_a_dead_letter_and_the_message_is_not_lost(
    backend: Backend, tmp_path: Path
) -> None:
    evaluators = Evaluators()

    @evaluators.evaluator("orders")
    async def orders(message: Any, ctx: EvaluationContext) -> Evaluation:
        raise RuntimeError("boom")

    body = {"automation": {"evaluator_attempts_max": 2}}
    async with automation_world(backend, tmp_path, evaluators=evaluators, body=body) as world:
        await world.sensor(evaluator=POLL["evaluator"], timeout_seconds=300)
        await world.sensors.message("orders", Message("m-1"))
        await world.settle()
        await world.go(60)
        [view] = await listed(world)
        assert (view.status, view.message_id, "boom" in (view.error or "")) == ("error", "m-1", True)
        assert (await world.engine.backlog()).effects_dead == 1


async def test_a_paused_sensor_records_nothing_and_takes_the_message_later(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        await world.sensor()
        await world.sensors.disable("orders")
        with pytest.raises(Refused) as refused:
            await world.sensors.message("orders", Message("m-1"))
        assert refused.value.reason == "SENSOR_PAUSED"
        await world.sensors.enable("orders")
        assert not (await world.sensors.message("orders", Message("m-1"))).is_replay
        with pytest.raises(NotFound):
            await world.sensors.message("nobody", Message("m-1"))


# -- proofs


async def test_a_signed_message_needs_no_key(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        made = await world.sensors.create(
            sensor_request({"sensor_id": "orders", "sensor_type": "push", "target": HANDLER, "auth": "signature"})
        )
        assert made.secret
        assert (made.push_url, (await world.sensors.get("orders")).secret) == (
            "/v1/sensors/orders/messages?tenant=acme",
            None,
        )
        body = b'{"data": 1}'
        accepted = await world.sensors.receive_from_outside("orders", signed(made.secret, body), body)
        assert (accepted.status, accepted.message_id) == ("triggered", "wh-1")
        for headers in ({}, signed(made.secret, b"other"), signed("whsec_AAAA", body)):
            await refused_as_unauthenticated(world, "orders", headers, body)
        await refused_as_unauthenticated(world, "nobody", signed(made.secret, body), body)
        rotated = await world.sensors.rotate_secret("orders")
        assert rotated.secret
        for secret in (made.secret, rotated.secret):
            await world.sensors.receive_from_outside("orders", signed(secret, body), body)
        world.clock.advance(86_400)
        await refused_as_unauthenticated(world, "orders", signed(made.secret, body), body)
        await world.sensors.receive_from_outside("orders", signed(rotated.secret, body), body)


async def test_a_token_is_kept_as_its_digest_only(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path) as world:
        made = await world.sensors.create(
            sensor_request({"sensor_id": "orders", "sensor_type": "push", "target": HANDLER, "auth": "token"})
        )
        assert made.secret
        assert made.push_url == f"/v1/sensors/orders/messages?tenant=acme&token={made.secret}"
        body = b'{"message_id": "m-1"}'
        await world.sensors.receive_from_outside("orders", {}, body, token=made.secret)
        for token in (None, "", "wrong"):
            await refused_as_unauthenticated(world, "orders", {}, body, token=token)
        history = (await world.engine.store.history(StreamId("acme", "sensor", "orders"), 0, 10))[1]
        assert all(made.secret not in f"{segment.command}{segment.events}" for segment in history)


def signed(secret: str, body: bytes) -> dict[str, str]:
    now = datetime.now(UTC)
    signature = Webhook(secret).sign("wh-1", now, body.decode())
    return {"Webhook-Id": "wh-1", "Webhook-Timestamp": str(int(now.timestamp())), "Webhook-Signature": signature}


async def refused_as_unauthenticated(
    world: Automation, sensor_id: str, headers: Mapping[str, str], body: bytes, token: str | None = None
) -> None:
    with pytest.raises(Refused) as refused:
        await world.sensors.receive_from_outside(sensor_id, headers, body, token=token)
    assert refused.value.reason == "UNAUTHENTICATED"


# -- poll


async def test_a_poll_sensor_follows_its_cursor(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path, evaluators=counting()) as world:
        await world.sensor(**POLL)
        await world.settle()
        for _ in range(3):
            await world.go(30)
        sensor = await world.sensors.get("orders")
        assert (sensor.cursor, sensor.state_version, sensor.consecutive_errors) == (4, 5, 0)
        assert sorted(keys(world)) == ["order-1", "order-2", "order-3", "order-4"]
        views = await listed(world)
        assert [(v.cursor_before, v.cursor, v.cause) for v in views] == [
            (3, 4, "poll"),
            (2, 3, "poll"),
            (1, 2, "poll"),
            (None, 1, "poll"),
        ]
        assert views[0].evaluation_id == "sensor_eval:orders:poll:1767603690"
        paged = await world.sensors.evaluations("orders", limit=3)
        rest = await world.sensors.evaluations("orders", limit=3, cursor=paged.next_cursor)
        assert [*paged.items, *rest.items] == views


async def test_two_controllers_evaluate_one_at_a_time(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path, evaluators=counting()) as world:
        await world.sensor(**POLL)
        for _ in range(5):
            world.clock.advance(30)
            await asyncio.gather(world.settle(), world.settle(other=True))
        cursors = [view.cursor for view in reversed(await listed(world))]
        assert cursors == [1, 2, 3, 4, 5]
        assert len(keys(world)) == len(set(keys(world))) == 5


async def test_a_manual_evaluation_is_answered_and_recorded(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path, evaluators=counting()) as world:
        await world.sensor(**POLL, enabled=False)
        dry = await world.sensors.evaluate("orders", dry_run=True)
        assert (dry.status, dry.cursor, dry.segment_id) == ("triggered", 1, None)
        assert await listed(world) == []
        done = await world.sensors.evaluate("orders", key="k1")
        assert (done.status, done.cause, done.cursor, done.is_replay) == ("triggered", "manual", 1, False)
        assert done.run_requests[0].target == msgspec.convert(HANDLER, type(done.run_requests[0].target))
        again = await world.sensors_elsewhere.evaluate("orders", key="k1")
        assert (again.is_replay, again.cursor) == (True, 1)
        await world.settle()
        assert keys(world) == ["order-1"]
        await world.sensor("pushed")
        with pytest.raises(Refused) as refused:
            await world.sensors.evaluate("pushed")
        assert refused.value.reason == "NOT_A_POLL_SENSOR"


async def test_an_answer_nested_too_deep_to_keep_is_an_error(backend: Backend, tmp_path: Path) -> None:
    evaluators = Evaluators()

    @evaluators.evaluator("deep")
    async def deep(cursor: Any, ctx: Any) -> Evaluation:
        nested: Any = 1
        for _ in range(40):
            nested = [nested]
        return Evaluation(cursor=nested)

    async with automation_world(backend, tmp_path, evaluators=evaluators) as world:
        await world.sensor(sensor_type="poll", evaluator={"kind": "handler", "name": "deep"})
        await world.settle()
        [evaluation] = (await world.sensors.evaluations("orders")).items
        assert (evaluation.status, evaluation.cursor) == ("error", None)
        assert evaluation.error
        assert "32 levels" in evaluation.error


async def test_an_evaluation_overtaken_by_another_is_stale(backend: Backend, tmp_path: Path) -> None:
    evaluators = Evaluators()
    gate, started = asyncio.Event(), asyncio.Event()

    @evaluators.evaluator("orders")
    async def orders(cursor: Any, ctx: EvaluationContext) -> Evaluation:
        if ctx.id.startswith("sensor:"):
            started.set()
            await gate.wait()
            return Evaluation((RunRequest("slow"),), cursor="slow")
        return Evaluation((RunRequest("quick"),), cursor="quick")

    async with automation_world(backend, tmp_path, evaluators=evaluators) as world:
        await world.sensor(**POLL)
        polling = asyncio.create_task(world.settle())
        await started.wait()
        await world.sensors_elsewhere.evaluate("orders")
        gate.set()
        await polling
        assert [view.status for view in await listed(world)] == ["skipped_stale_cursor", "triggered"]
        assert (await world.sensors.get("orders")).cursor == "quick"
        assert keys(world) == ["quick"]


async def test_definitions_of_sensors(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path, evaluators=counting()) as world:
        await world.sensor("a")
        await world.sensor("b", **POLL, interval_seconds=5)
        assert [s.sensor_id for s in (await world.sensors.list(sensor_type="poll")).items] == ["b"]
        patched = await world.sensors.patch("b", {"interval_seconds": None, "max_errors": 3})
        assert (patched.interval_seconds, patched.max_errors, patched.version) == (30, 3, 2)
        shown = msgspec.to_builtins(await world.sensors.get("b"))
        assert (await world.sensors.put("b", sensor_request(shown))).version == 2
        reset = await world.sensors.reset_cursor("b", "start", state_version=2)
        assert (reset.cursor, reset.state_version) == ("start", 3)
        await world.sensors.delete("a")
        with pytest.raises(NotFound):
            await world.sensors.get("a")


async def test_a_cursor_is_put_elsewhere_only_from_the_state_that_was_read(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path, evaluators=counting()) as world:
        await world.sensor("pushed")
        await world.sensor("polled", **POLL)
        resets = [world.sensors.reset_cursor("polled", n, state_version=1) for n in range(5)]
        told = await asyncio.gather(*resets, return_exceptions=True)
        assert sum(isinstance(one, VersionMismatch) for one in told) == 4
        assert (await world.sensors.get("polled")).state_version == 2
        with pytest.raises(Refused) as refused:
            await world.sensors.reset_cursor("pushed", "x", state_version=1)
        assert refused.value.reason == "NOT_A_POLL_SENSOR"
        with pytest.raises(Invalid, match="65,536"):
            await world.sensors.reset_cursor("polled", "x" * 70_000, state_version=2)


# -- over HTTP


class Posting:
    """Posts over real HTTP."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        id: str,
        tenant: str,
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        async with self._session.post(url, data=body, headers={"webhook-id": id}) as answer:
            answer.raise_for_status()
            return await answer.read()
