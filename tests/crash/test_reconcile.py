"""The books are compared for real: each way of losing or repeating something is noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from betimes.core.deciders import EffectCall
from betimes.core.instants import HOUR, SECOND
from betimes.core.streams import StreamId
from betimes.testing.sample import GatePolicy, Knock
from tests.crash.journal import Answered, Asked, Called, Journal, Journals
from tests.crash.reconcile import against_the_rules, reconcile
from tests.crash.scene import Place, Rules, engine_on
from tests.crash.workload import Workload, submission

FRONT, BACK = StreamId("acme", "gate", "front"), StreamId("acme", "gate", "back")
RULES = Rules(GatePolicy(greet=True, tally=True))
LOAD = Workload(seed=2, commands=20, tenants=1, gates=5, shared=0)


async def play(place: Place, folder: Path) -> None:
    """A process that does everything right."""
    journal = Journal(folder, "w1")

    async def greet(call: EffectCall) -> None:
        journal.write(Called.of(call.id))

    async with engine_on(place.store(), RULES, "w1", greet, lambda _: None) as engine:
        for errand in LOAD.errands("w1"):
            if isinstance(errand.command, Knock):
                journal.write(errand)
                journal.write(Answered.of(errand.key, await engine.submit(submission(errand, "w1"))))
        await engine.tick()
    journal.close()


async def test_books_that_agree_are_found_in_order(sqlite_place: Place, tmp_path: Path) -> None:
    await play(sqlite_place, tmp_path)
    outcome = await reconcile(sqlite_place, tmp_path, RULES)
    assert outcome.admissions == 5
    assert outcome.unanswered == 0


Tamper = Callable[[Place, Journals, Journal], None]


def an_answer_nobody_gave(place: Place, journals: Journals, more: Journal) -> None:
    more.write(replace(journals.of(Answered)[0], key="stranger"))
    more.write(replace(journals.of(Asked)[0], key="stranger"))


def another_answer(place: Place, journals: Journals, more: Journal) -> None:
    more.write(replace(journals.of(Answered)[0], verdict="NEVER SHUT"))


def a_second_call(place: Place, journals: Journals, more: Journal) -> None:
    more.write(journals.of(Called)[0])


def a_call_nobody_made(place: Place, journals: Journals, more: Journal) -> None:
    _change(place, """UPDATE ledger SET command = replace(command, '"effect":"', '"effect":"x')""")


def a_lost_segment(place: Place, journals: Journals, more: Journal) -> None:
    _change(place, "DELETE FROM ledger WHERE seq = (SELECT max(seq) FROM ledger WHERE key IS NOT NULL)")


def a_key_forgotten(place: Place, journals: Journals, more: Journal) -> None:
    _change(place, "DELETE FROM key")


def a_count_too_many(place: Place, journals: Journals, more: Journal) -> None:
    _change(place, """UPDATE ledger SET events = '[{"type":"Counted","visitor":"x"}]' WHERE kind = 'tally'""")


def time_turned_back(place: Place, journals: Journals, more: Journal) -> None:
    _change(place, "UPDATE ledger SET at = 1 WHERE kind = 'tally' AND version = 2")


@pytest.mark.parametrize(
    ("tamper", "found"),
    [
        (time_turned_back, "at 1 follows tally:"),
        (an_answer_nobody_gave, "acknowledged and lost"),
        (another_answer, "one key, two answers"),
        (a_second_call, "was made 2 times"),
        (a_call_nobody_made, "is done and was never made"),
        (a_lost_segment, "acknowledged and lost"),
        (a_key_forgotten, "decided twice"),
        (a_count_too_many, "counted too often"),
    ],
)
async def test_books_that_do_not_agree_are_found_out(
    sqlite_place: Place, tmp_path: Path, tamper: Tamper, found: str
) -> None:
    await play(sqlite_place, tmp_path)
    more = Journal(tmp_path, "w2")
    tamper(sqlite_place, Journals(tmp_path), more)
    more.close()
    with pytest.raises(AssertionError, match=found):
        await reconcile(sqlite_place, tmp_path, RULES)


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        ((0, 60, 120), None),
        ((0, 59), "cooldown"),
        ((0, 60, 120, 180), "4 in an hour, at most 3"),
        ((0, 60, 120, 3600), None),
    ],
)
def test_admissions_are_held_against_the_rules(seconds: tuple[int, ...], found: str | None) -> None:
    rules = Rules(GatePolicy(cooldown_s=60, per_hour=3))
    problems = list(against_the_rules({FRONT: [(HOUR + s * SECOND, "ann") for s in seconds]}, rules))
    assert [found in problem for problem in problems if found] == [True] * bool(found)


def test_admissions_of_a_tenant_are_held_against_its_cap() -> None:
    rules = Rules(GatePolicy(cooldown_s=60, tenant_per_hour=1))
    [problem] = against_the_rules({FRONT: [(HOUR, "ann")], BACK: [(HOUR + SECOND, "bob")]}, rules)
    assert problem == "acme admitted 2 in an hour, at most 1 may be"


def _change(place: Place, statement: str) -> None:
    connection = apsw.Connection(place.path)
    connection.execute(statement)
    connection.close()
