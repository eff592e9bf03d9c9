"""Nobody gains a privilege by nesting: what a definition or an evaluator sends is checked against who defined it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec.inspect import type_info

from betimes.catalogue import DECIDERS, SCOPES, SECTIONS
from betimes.core.canonical import encode
from betimes.core.deciders import Decider
from betimes.core.errors import Invalid, MissingScope
from betimes.core.scopes import allows
from betimes.core.streams import StreamId
from betimes.domain.service import Caller
from betimes.domain.targets import (
    CommandTarget,
    HandlerTarget,
    NotificationTarget,
    StreamName,
    SweepTarget,
    Target,
    TriggerTarget,
    WebhookTarget,
    permits,
)
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.store import EffectQuery
from betimes.engine.tenants.model import CreateKey, tenant_stream
from betimes.engine.virtual_clock import VirtualClock
from betimes.schedules.model import DefineSchedule, ScheduleDefinition, TriggerSchedule
from betimes.schedules.service import Schedules
from betimes.sensors.evaluators import Evaluators
from betimes.sensors.model import DefineSensor, Evaluation, RunRequest, SensorDefinition, WebhookEvaluator
from betimes.sensors.service import Sensors
from betimes.stores.memory import MemoryStore

SAMPLE_TEXTS = ("a", "A", "https://example.com/x", "2026-01-05T09:00:00Z", "0 8 * * *")


def smallest(kind: Any) -> Any:
    """Return plain JSON that a type accepts, as little of it as possible."""
    match kind:
        case msgspec.inspect.StructType():
            fields = {field.encode_name: smallest(field.type) for field in kind.fields if field.required}
            return fields | ({kind.tag_field: kind.tag} if kind.tag_field else {})
        case msgspec.inspect.Metadata():
            return smallest(kind.type)
        case msgspec.inspect.UnionType():
            return smallest(kind.types[0])
        case msgspec.inspect.StrType():
            fits = (text for text in SAMPLE_TEXTS if not kind.pattern or re.search(kind.pattern, text))
            return next(fits)
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return kind.ge or 1
        case msgspec.inspect.LiteralType():
            return kind.values[0]
        case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
            return [smallest(kind.item_type)] * (kind.min_length or 0)
        case msgspec.inspect.TupleType():
            return [smallest(item) for item in kind.item_types]
        case msgspec.inspect.DictType():
            return {}
        case msgspec.inspect.BoolType():
            return False
        case _:
            return None


def commands() -> Iterator[tuple[Decider[Any], type[msgspec.Struct], dict[str, Any]]]:
    """Return every command of every kind, the tenant's own among them, as JSON that its stream reads."""
    kinds = Engine(MemoryStore(VirtualClock()), DECIDERS, name="one", sections=SECTIONS).kinds
    for name in kinds.names:
        kind = kinds.of(StreamId("acme", name, "x"))
        for command in sorted(kind.command_classes, key=lambda cls: cls.__name__):
            body = smallest(type_info(command))
            assert type(kind.command(encode(body), "a test")) is command
            yield kind.decider, command, body


@asynccontextmanager
async def opened() -> AsyncIterator[Engine]:
    store = MemoryStore(VirtualClock("2026-01-05T09:00:00Z"))
    async with Engine(store, DECIDERS, name="one", sections=SECTIONS) as engine:
        yield engine


def schedule(target: Any) -> dict[str, Any]:
    return {"cron": "0 8 * * *", "target": msgspec.to_builtins(target)}


async def settle(engine: Engine) -> None:
    while not (await engine.tick()).complete:
        pass


async def test_every_command_of_every_kind_is_a_target_only_where_it_is_listed_and_its_scope_held() -> None:
    async with opened() as engine:
        number = saved_count = 0
        for decider, command, body in commands():
            target = CommandTarget(StreamName(decider.kind, "x"), body)
            for scope in SCOPES:
                number += 1
                scopes = ("automation:write", scope)
                service = Schedules(engine, Caller("acme", "mallory", scopes=scopes))
                may = command in decider.targets and allows(scopes, decider.scope)
                try:
                    await service.create({"schedule_id": f"s{number}", **schedule(target)})
                except (Invalid, MissingScope):
                    assert not may, f"{command.__name__} of {decider.kind} was refused to {scopes}"
                else:
                    assert may, f"{command.__name__} of {decider.kind} was saved by {scopes}"
                    saved_count += 1
                    await service.trigger(f"s{number}")
        await settle(engine)
        assert saved_count > 20
        assert not await engine.store.load([tenant_stream("acme")]), "the tenant's stream, with its keys, was touched"


def test_no_listed_command_carries_a_target_or_a_definition() -> None:
    """So nesting ends after one step."""
    for decider in DECIDERS:
        assert decider.kind != "tenant"
        for command in decider.targets:
            shape = str(msgspec.json.schema(command))
            for word in ("Target", "Definition", "Preferences"):
                assert word not in shape, f"{command.__name__} of {decider.kind} carries a {word}"


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_definition_that_is_already_stored_makes_no_key(depth: int) -> None:
    """As a database of before may hold one: the engine looks again at what is sent, whatever it was nested in."""
    made = CreateKey("k", "mallory", ("admin",), "digest")
    target: Target = CommandTarget(StreamName("tenant", "acme"), _builtins(made))
    for _ in range(depth - 1):
        inner = DefineSchedule(ScheduleDefinition(cron="0 8 * * *", target=target))
        target = CommandTarget(StreamName("schedule", "inner"), _builtins(inner))
    async with opened() as engine:
        outer = StreamId("acme", "schedule", "outer")
        define = DefineSchedule(ScheduleDefinition(cron="0 8 * * *", target=target))
        await engine.submit(Submission(stream=outer, command=define))
        await engine.submit(Submission(stream=outer, command=TriggerSchedule()))
        await settle(engine)
        assert not await engine.store.load([tenant_stream("acme"), StreamId("acme", "schedule", "inner")])
        [dead] = await engine.store.effects(EffectQuery(tenant="acme", status="dead"))
        assert "is not a target" in dead.last_error


def _builtins(command: msgspec.Struct) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(encode(command))
    return body


async def test_what_a_definition_sends_needs_the_scopes_of_whoever_defined_it() -> None:
    """Also where the door was not asked: what is recorded with the definition counts when it fires."""
    async with opened() as engine:
        stream = StreamId("acme", "schedule", "s")
        target = TriggerTarget("SIGNAL_ARRIVED", "acct-7")
        define = DefineSchedule(ScheduleDefinition(cron="0 8 * * *", target=target), authority=("automation:write",))
        await engine.submit(Submission(stream=stream, command=define))
        await engine.submit(Submission(stream=stream, command=TriggerSchedule()))
        await settle(engine)
        assert not await engine.store.load([StreamId("acme", "account", "acct-7")])
        [dead] = await engine.store.effects(EffectQuery(tenant="acme", status="dead"))
        assert "runs:write" in dead.last_error


async def test_who_changes_only_the_hour_keeps_the_authority_of_whoever_chose_the_target() -> None:
    async with opened() as engine:
        owner = Schedules(engine, Caller("acme", "ann", scopes=("automation:write", "runs:write")))
        helper = Schedules(engine, Caller("acme", "bob", scopes=("automation:write", "automation:read")))
        target = {"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED", "account_id": "acct-7"}
        await owner.create({"schedule_id": "s", "cron": "0 8 * * *", "target": target})
        await helper.patch("s", {"cron": "0 9 * * *"})
        await helper.trigger("s")
        await settle(engine)
        assert await engine.store.load([StreamId("acme", "account", "acct-7")])
        with pytest.raises(MissingScope, match="runs:write"):
            await helper.patch("s", {"target": {**target, "account_id": "acct-8"}})


async def test_who_changes_what_a_schedule_hands_to_its_run_needs_the_scope_of_the_target() -> None:
    """Or whoever may only change schedules would say, with the authority of others, what their runs are given."""
    async with opened() as engine:
        owner = Schedules(engine, Caller("acme", "ann", scopes=("automation:write", "runs:write")))
        helper = Schedules(engine, Caller("acme", "bob", scopes=("automation:write", "automation:read")))
        target = {"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED", "account_id": "acct-7"}
        await owner.create({"schedule_id": "s", "cron": "0 8 * * *", "target": target, "payload": {"amount": 1}})
        with pytest.raises(MissingScope, match="runs:write"):
            await helper.patch("s", {"payload": {"amount": 1_000}})
        with pytest.raises(MissingScope, match="runs:write"):
            await helper.trigger("s", {"amount": 1_000})
        assert (await helper.trigger("s", {"amount": 1})).run_key
        sensors = Sensors(engine, owner.caller), Sensors(engine, helper.caller)
        await sensors[0].create({"sensor_id": "s", "sensor_type": "push", "target": target})
        with pytest.raises(MissingScope, match="runs:write"):
            await sensors[1].patch("s", {"payload": {"amount": 1_000}})


async def test_a_changed_payload_acts_for_whoever_changed_it() -> None:
    """Also where the door was not asked."""
    async with opened() as engine:
        stream = StreamId("acme", "schedule", "s")
        for payload, scopes in (({}, ("runs:write",)), ({"amount": 1_000}, ("sweep",))):
            definition = ScheduleDefinition(cron="0 8 * * *", target=TRIGGER, payload=payload)
            await engine.submit(Submission(stream=stream, command=DefineSchedule(definition, authority=scopes)))
        row = (await engine.store.load([stream]))[stream]
        assert engine.kinds.of(stream).state(stream, row.schema, row.state).authority == ("sweep",)


# -- evaluators


def evaluators(function: Any) -> Evaluators:
    known = Evaluators()
    known.evaluator("look")(function)
    return known


TRIGGER = TriggerTarget("SIGNAL_ARRIVED", "acct-7")
NOTICE = NotificationTarget("ALERT", "A title", "A message", "shop", ("push",), user_id="ana")
EVIL: tuple[Target, ...] = (
    CommandTarget(StreamName("tenant", "acme"), _builtins(CreateKey("k", "mallory", ("admin",), "digest"))),
    CommandTarget(StreamName("score", "ana"), {"type": "AdjustScore", "reason": "x", "delta": 1}),
    TriggerTarget("SIGNAL_ARRIVED", "acct-8"),
    TriggerTarget("POSTURE_CHANGE", "acct-7"),
    msgspec.structs.replace(NOTICE, user_id="bob"),
    msgspec.structs.replace(NOTICE, priority_hint="CRITICAL"),
    HandlerTarget("payout"),
    WebhookTarget("https://evil.example/x"),
    SweepTarget(),
)


@pytest.mark.parametrize("chosen", EVIL, ids=lambda target: type(target).__name__)
@pytest.mark.parametrize("own", [TRIGGER, NOTICE, HandlerTarget("brief")], ids=lambda target: type(target).__name__)
async def test_an_evaluator_chooses_only_what_the_definition_allows(own: Target, chosen: Target) -> None:
    async def evaluate(cursor: Any, context: Any) -> Evaluation:
        return Evaluation((RunRequest("one", target=chosen),), cursor=1)

    async with opened() as engine:
        sensors = Sensors(engine, Caller("acme", "ann"), evaluate=evaluators(evaluate))
        body = {"sensor_id": "s", "sensor_type": "poll", "evaluator": {"kind": "handler", "name": "look"}}
        await sensors.create({**body, "target": msgspec.to_builtins(own)})
        evaluated = await sensors.evaluate("s")
        assert (evaluated.status, evaluated.run_requests) == ("error", [])
        assert "allowed_targets" in (evaluated.error or "")
        await settle(engine)
        assert not await engine.store.load([tenant_stream("acme")])


async def test_an_evaluator_may_choose_the_account_and_the_words_where_the_definition_leaves_them_open() -> None:
    asked: list[Target] = [TriggerTarget("POSTURE_CHANGE", "acct-9"), msgspec.structs.replace(NOTICE, title="Other")]

    async def evaluate(cursor: Any, context: Any) -> Evaluation:
        return Evaluation(tuple(RunRequest(f"r{n}", target=target) for n, target in enumerate(asked)), cursor=1)

    async with opened() as engine:
        sensors = Sensors(engine, Caller("acme", "ann"), evaluate=evaluators(evaluate))
        body = {"sensor_id": "s", "sensor_type": "poll", "evaluator": {"kind": "handler", "name": "look"}}
        allowed = [{"kind": "trigger", "trigger_type": "POSTURE_CHANGE"}, msgspec.to_builtins(NOTICE)]
        view = await sensors.create({**body, "target": msgspec.to_builtins(TRIGGER), "allowed_targets": allowed})
        assert len(view.allowed_targets) == 2
        evaluated = await sensors.evaluate("s")
        assert [request.outcome for request in evaluated.run_requests] == ["requested", "requested"]


async def test_allowed_targets_need_their_scopes_when_they_are_saved() -> None:
    async with opened() as engine:
        sensors = Sensors(engine, Caller("acme", "ann", scopes=("automation:write",)))
        body = {"sensor_id": "s", "sensor_type": "push", "target": {"kind": "handler", "name": "brief"}}
        with pytest.raises(MissingScope, match="runs:write"):
            await sensors.create({**body, "allowed_targets": [{"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED"}]})


async def test_who_changes_the_evaluator_needs_the_scopes_of_what_it_may_choose() -> None:
    """Or whoever may only change sensors would choose, with an evaluator of their own, for whom others' runs are."""
    async with opened() as engine:
        owner = Sensors(engine, Caller("acme", "ann", scopes=("automation:write", "runs:write")))
        helper = Sensors(engine, Caller("acme", "bob", scopes=("automation:write", "automation:read")))
        evaluator = {"kind": "webhook", "url": "https://ours.example/x"}
        body = {"sensor_id": "s", "sensor_type": "poll", "evaluator": evaluator, "target": msgspec.to_builtins(TRIGGER)}
        await owner.create({**body, "allowed_targets": [{"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED"}]})
        await helper.patch("s", {"interval_seconds": 60})
        with pytest.raises(MissingScope, match="runs:write"):
            await helper.patch("s", {"evaluator": {**evaluator, "url": "https://mine.example/x"}})


async def test_a_changed_evaluator_acts_for_whoever_changed_it() -> None:
    """Also where the door was not asked."""
    async with opened() as engine:
        stream = StreamId("acme", "sensor", "s")
        for url, scopes in (("https://ours.example/x", ("runs:write",)), ("https://mine.example/x", ("sweep",))):
            evaluator = WebhookEvaluator(url)
            definition = SensorDefinition(sensor_type="push", target=TRIGGER, evaluator=evaluator)
            await engine.submit(Submission(stream=stream, command=DefineSensor(definition, authority=scopes)))
        row = (await engine.store.load([stream]))[stream]
        assert engine.kinds.of(stream).state(stream, row.schema, row.state).authority == ("sweep",)


def test_a_target_permits_itself() -> None:
    for target in (TRIGGER, NOTICE, *EVIL):
        assert permits(target, target)
