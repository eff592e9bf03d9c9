"""Claims of the built-in worker: one look for many, no claim on what changed since, reports and claims together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.reports import Written, log_report
from betimes.engine.store import StreamQuery, StreamRow
from betimes.engine.virtual_clock import VirtualClock
from betimes.intents.action import Action
from betimes.intents.claimer import Claimer
from betimes.intents.decide import DECIDERS, SECTIONS
from betimes.intents.due import DueIntents
from betimes.intents.lists import statuses
from betimes.intents.model import ClaimIntent, DefineIntent, Definition, ForgetIntent
from betimes.stores.memory import MemoryStore
from tests.engine.test_presuming import Counting
from tests.intents.stories import body
from tests.intents.working import worker, working
from tests.intents.worlds import IntentWorld
from tests.patience import HANGS_S
from tests.stores.backends import Backend


async def make_due(world: IntentWorld, *ids: str) -> None:
    for intent_id in ids:
        await world.intents.create(body("interval", intent_id=intent_id, action_type="briefing"))
    world.hours_pass(0.5)


async def test_one_look_at_what_is_due_serves_many_passes(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(backend, tmp_path) as world:
        await make_due(world, *(f"i{n}" for n in range(12)))
        looks: list[StreamQuery] = []
        store = world.inner.engine.store
        streams = store.streams

        async def noting(query: StreamQuery) -> list[StreamRow]:
            looks.append(query)
            return await streams(query)

        monkeypatch.setattr(store, "streams", noting)
        monkeypatch.setattr("betimes.intents.due.AHEAD_S", HANGS_S)
        assert await worker(world, at_once=2).once() == {"success": 12}
        assert len(looks) == 2, "six passes, and a look that finds nothing"


async def test_whoever_uses_up_what_was_found_finds_more_the_next_time(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("betimes.intents.due.AHEAD_S", HANGS_S)
    async with working(backend, tmp_path) as world:
        await make_due(world, *(f"i{n:02}" for n in range(12)))
        due = DueIntents(world.inner.engine, "acme", statuses(None, True, ("any",)), is_fit, ahead=2)
        found = [len(await due.find(2)) for _ in range(2)]
        assert (found, due._ahead) == ([2, 2], 4)
        found = [len(await due.find(2)) for _ in range(2)]
        assert (found, due._ahead) == ([2, 2], 8), "four were found and used up"
        monkeypatch.setattr("betimes.intents.due.AHEAD_S", 0.0)
        await due.find(2)
        assert due._ahead == 4, "some were left until they were too old"


async def test_claiming_what_was_found_asks_nothing_of_what_another_process_wrote() -> None:
    store = Counting(VirtualClock())
    async with (
        Engine(MemoryStore(store.clock, store.database), DECIDERS, name="defines", sections=SECTIONS) as other,
        Engine(store, DECIDERS, name="claims", sections=SECTIONS) as engine,
    ):
        for number in range(3):
            intent = StreamId("acme", "intent", f"i{number}")
            await other.submit(Submission(stream=intent, command=DefineIntent(body("price", user_id="ann"))))
        await engine.submit(Submission(stream=StreamId("acme", "owner", "bob"), command=ForgetIntent("none", 1)))
        due = DueIntents(engine, "acme", statuses(None, True, ("any",), frozenset({"price"})), is_fit)
        claimer, begun = Claimer(engine, due, ClaimIntent("w", among_many=True), log_report), store.begun
        assert [claim.intent.definition.user_id for claim in await claimer.claim(10)] == ["ann"] * 3
        assert (store.begun - begun, store.presumed) == (0, 1)


async def is_fit(stream: StreamId, definition: Definition) -> bool:
    return True


async def test_what_changed_since_it_was_found_is_not_claimed(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        await make_due(world, "a", "b", "c", "d", "e")
        ours = worker(world)
        [first] = await ours._claim(1)
        await world.intents.disable("b")
        await world.others.claim("c")
        assert await ours._claim(1) != [], "what is left is looked at again"
        [third] = await ours._claim(1)
        held = await world.intents.list()
        claims = {view.intent_id: view.claim and view.claim.worker for view in held.items}
        assert claims == {"a": "built-in", "b": None, "c": "other", "d": "built-in", "e": "built-in"}
        assert (first.stream.id, third.stream.id) == ("a", "e")


async def test_a_claimed_intent_is_as_the_store_has_it(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        await make_due(world, "a", "b")
        ours = worker(world)
        held = await ours._claim(1)
        await world.intents.patch("b", {"action_context": "Another text."})
        held += await ours._claim(1)
        assert [claim.intent for claim in held] == [await world.inner.state(claim.stream) for claim in held]
        assert held[1].intent.definition.action_context == "Another text."


async def test_a_report_and_the_next_claim_are_one_commit(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("betimes.intents.due.AHEAD_S", HANGS_S)
    monkeypatch.setattr("betimes.intents.claim_stock.AHEAD_S", 0.0)
    commits: list[str] = []
    done = asyncio.Event()

    def note(written: Sequence[Written]) -> None:
        events = "".join(segment.events for segment, _, _ in written if segment.stream.kind == "intent")
        commits.append("+".join(name for name in ("IntentFired", "IntentClaimed") if name in events))
        if events.count("IntentFired") and sum("IntentFired" in commit for commit in commits) == 3:
            done.set()

    async def brief(action: Action) -> None:
        """Nothing to do."""

    async with working(backend, tmp_path) as world:
        await make_due(world, "a", "b", "c")
        world.inner.engine._queue.observe = note
        running = asyncio.create_task(worker(world, at_once=1, handlers={"briefing": brief}).run())
        await asyncio.wait_for(done.wait(), HANGS_S)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert [commit for commit in commits if commit] == [
            "IntentClaimed",
            "IntentFired+IntentClaimed",
            "IntentFired+IntentClaimed",
            "IntentFired",
        ]
