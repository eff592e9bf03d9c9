"""Notes: why something was asked for is on the ledger in the words of whoever asked, and decides nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from betimes.catalogue import DECIDERS
from betimes.core.errors import Invalid
from betimes.core.policies import PolicyBook
from betimes.core.segments import NOTE_CHARS_MAX, Segment, check_note
from betimes.engine.codecs import Kinds
from betimes.engine.jobs import Submission
from betimes.engine.replay import verify
from betimes.engine.store import LedgerQuery
from betimes.engine.tenants.decide import tenant_decider
from betimes.testing.sample import Knock, Open, Shut
from tests.engine.worlds import GATE, World, world
from tests.stores.backends import Backend

NOTE = 'ana said "let her in"\n– at noon, for 5 €'


async def _segments(w: World) -> list[Segment]:
    return [*await w.store.ledger(LedgerQuery(kind="gate"))]


async def test_a_note_is_recorded_with_its_command_and_changes_nothing_else(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await w.engine.submit(Submission(stream=GATE, command=Knock("ann"), note=NOTE))
        await w.engine.submit(Submission(stream=GATE._replace(id="back"), command=Knock("ann")))
        noted, plain = await _segments(w)
        assert (noted.note, plain.note) == (NOTE, "")
        assert plain.command == '{"type":"Knock","visitor":"ann"}', "without a note the text is as it ever was"
        assert noted.command == plain.command[:-1] + ',"note":' + msgspec.json.encode(NOTE).decode() + "}"
        assert (noted.events, noted.verdict) == (plain.events, plain.verdict)
        assert w.engine.kinds.of(GATE).command(noted.command, noted) == Knock("ann")
        assert (await verify(w.store, w.engine.kinds)).is_sound


async def test_only_the_command_has_the_note_and_not_the_alarm_ahead_of_it(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await w.knock("ann")
        await w.knock("bob")
        w.clock.advance(61)
        await w.engine.submit(Submission(stream=GATE, command=Knock("cem"), note=NOTE))
        told = [(segment.command or "")[:14] + segment.note for segment in await _segments(w)]
        assert told == ['{"type":"Knock', '{"type":"Knock', '{"type":"Wake"', f'{{"type":"Knock{NOTE}']


async def test_an_alarm_that_is_rung_by_hand_has_the_note_of_whoever_rang(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await w.knock("ann")
        await w.knock("bob")
        w.clock.advance(61)
        await w.engine.wake(GATE, actor="ops", note=NOTE)
        last = (await _segments(w))[-1]
        assert (last.actor, last.note, last.command) == ("ops", NOTE, f'{{"type":"Wake","note":{encoded(NOTE)}}}')


def encoded(text: str) -> str:
    return msgspec.json.encode(text).decode()


@pytest.mark.parametrize("note", ["n" * (NOTE_CHARS_MAX + 1), "a\0b", "\ud800"])
async def test_what_cannot_be_a_note_is_refused_and_writes_nothing(backend: Backend, tmp_path: Path, note: str) -> None:
    async with world(backend, tmp_path) as w:
        for ask in (
            w.engine.submit(Submission(stream=GATE, command=Open(), note=note)),
            w.engine.wake(GATE, note=note),
            w.engine.submit_due([GATE.kind], lambda _: Open(), 1, note=note),
        ):
            with pytest.raises(Invalid) as refused:
                await ask
            assert [path for path, _ in refused.value.problems] == ["note"]
        assert await _segments(w) == []


class Closed(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True): ...


class Short(msgspec.Struct, frozen=True, tag=True, array_like=True): ...


@pytest.mark.parametrize("command", [Closed(), Short()])
def test_a_command_that_could_not_be_read_again_takes_no_note(command: msgspec.Struct) -> None:
    with pytest.raises(Invalid, match="takes no note"):
        check_note(command, "why")


def test_every_command_of_the_product_takes_a_note() -> None:
    kinds = Kinds([*DECIDERS, tenant_decider(PolicyBook({}))])
    own = set()
    for kind in kinds.by_name.values():
        for command in kind.command_classes:
            assert issubclass(command, msgspec.Struct)
            config = command.__struct_config__
            assert not config.forbid_unknown_fields, command
            assert not config.array_like, command
            if "note" in command.__struct_fields__:
                own.add(command.__name__)
    # Their services fill it in from the caller.
    assert own == {"SetPolicy", "EndHold", "RecordOperation"}


def test_a_note_is_the_commands_own_and_nobody_elses() -> None:
    segment = Segment(GATE, 1, "t", 0, 1, None, "[]", "p", "", "")
    for command, note in (
        (None, ""),
        ('{"type":"Notify","data":{"note":"inner"}}', ""),
        ('{"type":"Knock","visitor":"\\"note\\":"}', ""),
        ('{"type":"EndHold","note":null}', ""),
        ('{"type":"Odd","note":7}', ""),
        ('{"type":"Shut","note":"for the night"}', "for the night"),
    ):
        assert replace(segment, command=command).note == note, command


async def test_a_command_that_stops_its_stream_has_its_note_too(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await w.knock("ann")
        await w.engine.submit(Submission(stream=GATE, command=Shut(), note=NOTE))
        assert (await _segments(w))[-1].note == NOTE
