"""Streams that decisions look at without a lock."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from betimes.core.deciders import Decider, Decision, View
from betimes.core.errors import Fault
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.store import LockRequest
from betimes.engine.virtual_clock import VirtualClock
from tests.engine.test_store_failures import BusyStore
from tests.engine.worlds import World, world
from tests.stores.backends import Backend

BOARD = StreamId("acme", "board", "all")
READER = StreamId("acme", "reader", "ann")
WRITER = StreamId("acme", "writer", "bob")


class Write(msgspec.Struct, frozen=True, tag=True):
    text: str


class Look(msgspec.Struct, frozen=True, tag=True): ...


class Written(msgspec.Struct, frozen=True, tag=True):
    text: str


class Noted(msgspec.Struct, frozen=True, tag=True):
    text: str | None


class Text(msgspec.Struct, frozen=True):
    text: str | None = None


def look(view: View[Text], command: Look, policy: Any, now: int) -> Decision:
    board = view.others[BOARD]
    return Decision((Noted(board.text if board else None),))


def deciders(**changed: Any) -> tuple[Decider[Text], ...]:
    board: Decider[Text] = Decider(
        kind="board",
        state=Text,
        commands=Write,
        events=Written,
        decide=lambda view, command, policy, now: Decision((Written(command.text),)),
        fold=lambda state, event: Text(event.text),
    )
    reader: Decider[Text] = Decider(
        kind="reader",
        state=Text,
        commands=Look,
        events=Noted,
        decide=look,
        fold=lambda state, event: Text(event.text),
        **({"reads": lambda stream: (BOARD,)} | changed),
    )
    writer: Decider[Text] = Decider(
        kind="writer",
        state=Text,
        commands=Write,
        events=Noted,
        decide=lambda view, command, policy, now: Decision((Noted(None),), also={BOARD: (Written(command.text),)}),
        fold=lambda state, event: Text(event.text),
        needs=lambda stream, command, policy: (BOARD,),
    )
    return board, reader, writer


async def write(w: World, text: str) -> Recorded:
    return await w.engine.submit(Submission(stream=BOARD, command=Write(text)))


async def test_a_decision_sees_what_was_last_committed(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, deciders=deciders(), sections={}, body={}) as w:
        for text in (None, "one", "two"):
            if text:
                await write(w, text)
            for engine in (w.other, w.engine):
                await engine.submit(Submission(stream=READER, command=Look()))
                assert (await w.state(READER)).text == text


async def test_what_is_only_looked_at_is_not_waited_for(backend: Backend, tmp_path: Path) -> None:
    if backend.id != "postgres":
        pytest.skip("a store that locks its whole database lets one transaction in at a time")
    async with world(backend, tmp_path, deciders=deciders(), sections={}, body={}) as w:
        await write(w, "one")
        async with w.other.store.begin(LockRequest({BOARD: -1})):
            await w.engine.submit(Submission(stream=READER, command=Look()))
        assert (await w.state(READER)).text == "one"


async def test_what_an_earlier_command_of_the_batch_wrote_is_seen(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, deciders=deciders(), sections={}, body={}) as w:
        commands = ((WRITER, Write("one")), (READER, Look()))
        await asyncio.gather(*(w.engine.submit(Submission(stream=to, command=each)) for to, each in commands))
        assert (await w.state(READER)).text == "one"


async def test_an_earlier_command_that_is_held_is_waited_for_by_whoever_looks_at_what_it_writes(
    backend: Backend, tmp_path: Path
) -> None:
    if not backend.traits.locks_rows:
        pytest.skip("a store that locks its whole database lets one transaction in at a time")
    async with world(backend, tmp_path, deciders=deciders(), sections={}, body={}) as w:
        await write(w, "zero")
        other = StreamId("acme", "reader", "eve")
        async with w.other.store.begin(LockRequest({WRITER: -1})):
            commands = ((other, Look()), (WRITER, Write("one")), (READER, Look()))
            asked = [
                asyncio.ensure_future(w.engine.submit(Submission(stream=to, command=each))) for to, each in commands
            ]
            await asked[0]
        await asyncio.gather(*asked)
        assert [(await w.state(stream)).text for stream in (other, READER)] == ["zero", "one"]


async def test_after_a_conflict_it_is_waited_for_too() -> None:
    store = BusyStore(VirtualClock())
    store.held = WRITER
    async with Engine(store, deciders(), name="one") as engine:
        await engine.submit(Submission(stream=BOARD, command=Write("zero")))
        store.stumbles, store.looks_left = 1, 2
        commands = ((WRITER, Write("one")), (READER, Look()))
        await asyncio.gather(*(engine.submit(Submission(stream=to, command=each)) for to, each in commands))
        row = store.database.rows[READER]
        assert engine.kinds.of(READER).state(READER, row.schema, row.state).text == "one"


async def test_a_decider_that_cannot_say_what_it_looks_at_fails_its_own_commands_only(
    backend: Backend, tmp_path: Path
) -> None:
    def broken(stream: StreamId) -> tuple[StreamId, ...]:
        raise RuntimeError("no idea")

    async with world(backend, tmp_path, deciders=deciders(reads=broken), sections={}, body={}) as w:
        with pytest.raises(Fault, match="no idea"):
            await w.engine.submit(Submission(stream=READER, command=Look()))
        await write(w, "one")
