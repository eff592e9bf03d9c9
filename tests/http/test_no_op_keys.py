"""A command that finds nothing to do uses up its key like any other; without a key it writes nothing."""

from __future__ import annotations

import types
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from betimes.app import Betimes
from betimes.core.deciders import Reconsider, Settled, Wake
from betimes.core.errors import BetimesError
from betimes.core.streams import KeyId, StreamId
from betimes.engine.jobs import Submission
from betimes.engine.replay import verify
from betimes.engine.store import StreamQuery
from tests.http.populated import declare, populate
from tests.http.served import site

TENANT = "default"


def examples(kind: Any, known: StreamId) -> Any:
    """Return a value of a type that asks for as little as it can; numbers are those of what is there."""
    while get_origin(kind) in (Annotated, Union, types.UnionType):
        kind = type(None) if type(None) in get_args(kind) else get_args(kind)[0]
    if kind is type(None):
        return None
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        needed = [field for field in msgspec.structs.fields(kind) if field.required]
        return kind(**{field.name: examples(field.type, known) for field in needed})
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if get_origin(kind) in (tuple, list, dict):
        return (get_origin(kind) or kind)()
    plain: dict[Any, Any] = {bool: True, int: 1, float: 1.0, Decimal: Decimal(1), datetime: None, Any: {}, dict: {}}
    return plain.get(kind, known.id)


def commands_of(bt: Betimes, stream: StreamId) -> Iterator[Any]:
    for kind in get_args(bt.engine.kinds.of(stream).decider.commands) or ():
        if kind not in (Wake, Reconsider, Settled):
            yield examples(kind, stream)


async def test_whatever_is_answered_under_a_key_is_on_record_for_every_command_of_every_kind() -> None:
    async with site(declare=declare) as s:
        bt = s.bt
        await populate(s.client, bt, s.clock)
        rows = await bt.engine.store.streams(StreamQuery(tenant=TENANT, limit=1_000))
        there = {row.stream.kind: row.stream for row in rows}
        answered, lost = 0, []
        for stream in (*there.values(), *(StreamId(TENANT, kind, "nobody") for kind in there)):
            for number, command in enumerate(commands_of(bt, stream)):
                key = KeyId(TENANT, "walk", f"{stream.kind}-{stream.id[:9]}-{number}")
                try:
                    asked = Submission(stream=stream, command=command, key=key.key, collection="walk")
                    recorded = await bt.engine.submit(asked)
                except (BetimesError, ValueError):
                    continue
                if getattr(recorded.reply, "problems", ()):  # it is invalid, and may be sent again put right
                    continue
                answered += 1
                if await bt.engine.store.seen(key) is None:
                    lost.append(f"{type(command).__name__} to {stream}")
        assert lost == []
        assert answered > 40
        assert (await verify(bt.engine.store, bt.engine.kinds)).findings == []


async def test_enabling_what_is_enabled_is_answered_as_recorded_and_enables_nothing_later() -> None:
    async with site(declare=declare) as s:
        client = s.as_tenant(TENANT)
        await populate(client, s.bt, s.clock)
        for path, words in (
            ("/v1/schedules/a", ("enable", "disable")),
            ("/v1/sensors/a", ("enable", "disable")),
            ("/v1/intents/b", ("enable", "disable")),
        ):
            for again, other in (words, words[::-1]):
                key = f"{again}-again"
                first = await client("POST", f"{path}/{again}", idempotency_key=key)
                assert (first.status, "idempotency-replayed" in first.headers) == (200, False)
                changed = await client("POST", f"{path}/{other}")
                second = await client("POST", f"{path}/{again}", idempotency_key=key)
                assert (second.headers.get("idempotency-replayed"), second.json) == ("true", first.json)
                assert (await client("GET", path)).json["enabled"] == changed.json["enabled"]
                told = await client("GET", f"/v1/explain/{first.json['segment_id']}")
                assert (told.status, told.json["events"]) == (200, [])
            versions = [(await client("POST", f"{path}/enable")).json["segment_id"] for _ in range(3)]
            assert len(set(versions[1:])) == 1, "without a key nothing is written"


async def test_an_intent_that_was_refused_as_invalid_can_be_sent_again_under_its_key_put_right() -> None:
    body = {"user_id": "ann", "trigger_type": "once", "action_type": "notify", "action_context": "Look."}
    async with site() as s:
        past, later = ({**body, "schedule": {"trigger_at": f"{year}-01-01T00:00:00Z"}} for year in (2025, 2027))
        refused = await s.client("PUT", "/v1/intents/one", past, idempotency_key="k1")
        assert refused.status == 422
        assert (await s.client("GET", "/v1/ledger")).json["items"] == []
        put_right = await s.client("PUT", "/v1/intents/one", later, idempotency_key="k1")
        assert put_right.status in (200, 201), put_right.raw
