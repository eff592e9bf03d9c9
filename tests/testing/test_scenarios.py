"""The scenario tester fails where the engine would, and says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from betimes import Call, Decider, Decision, Instant, Policy, Refusal, StreamId, View, Wake, parse
from betimes.testing.scenarios import Scenario, given

NINE = parse("2026-01-05T09:00:00Z")
OTHER = StreamId("tenant", "jar", "other")


class Put(msgspec.Struct, frozen=True, tag=True):
    """Decided by whatever the test says."""


class Added(msgspec.Struct, frozen=True, tag=True):
    count: int = 1
    labels: tuple[str, ...] = ()
    weight: float = 0.0


class Set(msgspec.Struct, frozen=True, tag=True):
    alarm_at: Instant | None


class Stray(msgspec.Struct, frozen=True, tag=True):
    """An event nobody declared."""


class Jar(msgspec.Struct, frozen=True):
    count: int = 0
    alarm_at: Instant | None = None


Decide = Callable[[View[Jar], Any, Policy, Instant], Decision | Refusal]


def fold(state: Jar | None, event: Any) -> Jar | None:
    jar = state or Jar()
    match event:
        case Added(count):
            return Jar(jar.count + count, jar.alarm_at)
        case Set(alarm_at):
            return Jar(jar.count, alarm_at)
        case _:
            return jar


def jar(decide: Decide, *events: Any, needs: tuple[StreamId, ...] = (), fold: Any = fold) -> Scenario[Jar]:
    decider: Decider[Jar] = Decider(
        kind="jar",
        state=Jar,
        commands=Put,
        events=Added | Set,
        decide=decide,
        fold=fold,
        alarm=lambda state: state.alarm_at,
        needs=lambda stream, command, policy: needs,
    )
    return given(decider, *events)


def deciding(*events: Any, **more: Any) -> Decide:
    return lambda view, command, policy, now: Decision(events, **more)


def test_a_wake_that_writes_nothing_fails_instead_of_ringing_for_ever() -> None:
    scenario = jar(deciding(), Set(NINE))
    with pytest.raises(AssertionError, match="is due and its wake wrote nothing"):
        scenario.when(Put())
    with pytest.raises(AssertionError, match="its wake wrote nothing"):
        scenario.wakes()
    with pytest.raises(AssertionError, match="its wake wrote nothing"):
        scenario.when(Wake())


def test_a_wake_that_is_refused_fails() -> None:
    scenario = jar(lambda view, command, policy, now: Refusal("NOT_NOW", "later"), Set(NINE))
    for act in (scenario.wakes, lambda: scenario.when(Put())):
        with pytest.raises(AssertionError, match=r"later: Refusal\(reason='NOT_NOW'"):
            act()


def test_wakes_that_never_move_the_alarm_fail() -> None:
    with pytest.raises(AssertionError, match="still due after 1,000 wakes"):
        jar(deciding(Added()), Set(NINE)).when(Put())


def test_a_wake_without_an_alarm_may_write_nothing() -> None:
    jar(deciding()).when(Wake()).then_nothing()


@pytest.mark.parametrize("more", [{"effects": (Call("handler:x"),)}, {"also": {OTHER: (Added(),)}}])
def test_what_follows_from_a_decision_needs_an_event_of_its_own(more: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="effects or other streams' events but no event of its own"):
        jar(deciding(**more)).when(Put())
    jar(deciding(Added(), **more)).when(Put()).then(Added())


def test_events_of_its_own_belong_in_events() -> None:
    with pytest.raises(AssertionError, match="names its own stream in `also`"):
        jar(deciding(Added(), also={StreamId("tenant", "jar", "subject"): (Added(),)})).when(Put())


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (Stray(), r"cannot be written and read back: Stray\(\)"),
        (Added("one"), r"cannot be written and read back: Added\(count='one'"),  # type: ignore[arg-type]
        (Added(labels=["a"]), r"does not come back as it was written\nwritten Added\(.*\['a'\]"),  # type: ignore[arg-type]
        (Added(weight=1), r"does not come back as it was written\nwritten Added\(.*weight=1\)"),
        (Added(weight=object()), r"cannot be written and read back: Added"),  # type: ignore[arg-type]
    ],
    ids=["outside the union", "of another type", "a list for a tuple", "an int for a float", "no JSON"],
)
def test_an_event_the_ledger_would_not_give_back_fails(event: Any, problem: str) -> None:
    with pytest.raises(AssertionError, match=f"an event of tenant/jar/subject {problem}"):
        jar(deciding(event)).when(Put())
    with pytest.raises(AssertionError, match=f"an event of tenant/jar/subject {problem}"):
        jar(deciding(), event)


@pytest.mark.parametrize("state", [Jar("one"), Added(), Jar(1, 1.0)])  # type: ignore[arg-type]
def test_a_state_that_does_not_come_back_fails(state: Any) -> None:
    with pytest.raises(AssertionError, match=f"the state of tenant/jar/subject .*\n?.*{type(state).__name__}"):
        jar(deciding(Added()), fold=lambda before, event: state).when(Put())


def test_a_stream_that_is_deleted_has_no_state_to_check() -> None:
    assert jar(deciding(Added()), fold=lambda before, event: None).when(Put()).state is None


def test_a_decision_sees_the_streams_it_asked_for_and_no_others() -> None:
    seen: list[dict[StreamId, Any]] = []

    def decide(view: View[Jar], command: Any, policy: Policy, now: Instant) -> Decision:
        seen.append(dict(view.others))
        return Decision()

    jar(decide).with_others({OTHER: Jar(5)}).when(Put())
    jar(decide, needs=(OTHER,)).with_others({OTHER: Jar(5)}).when(Put())
    jar(decide, needs=(OTHER,)).when(Put())
    assert seen == [{}, {OTHER: Jar(5)}, {OTHER: None}]


def test_a_stream_that_is_there_after_all_is_seen_by_a_second_decision() -> None:
    def decide(view: View[Jar], command: Any, policy: Policy, now: Instant) -> Decision:
        return Decision((Added(2),)) if OTHER in view.others else Decision((Added(),), also={OTHER: (Added(),)})

    jar(decide).when(Put()).then(Added()).then_also(OTHER, Added())
    jar(decide).with_others({OTHER: Jar(1)}).when(Put()).then(Added(2)).then_also(OTHER)


def test_the_events_of_another_stream_are_compared() -> None:
    scenario = jar(deciding(Added(), also={OTHER: (Added(3),)})).when(Put()).then_also(OTHER, Added(3))
    with pytest.raises(AssertionError, match=r"in tenant/jar/other\nexpected .*count=4.*\n.*got .*count=3"):
        scenario.then_also(OTHER, Added(4))


def test_an_alarm_that_is_due_rings_ahead_of_a_command_and_not_of_a_wake_too_early() -> None:
    def decide(view: View[Jar], command: Any, policy: Policy, now: Instant) -> Decision:
        return Decision((Added(10), Set(None)) if isinstance(command, Wake) else (Added(),))

    scenario = jar(decide, Set(NINE)).when(Put()).then(Added())
    assert scenario.state == Jar(11)
    assert scenario.version == 3
    jar(decide, Set(NINE + 1)).when(Wake()).then_nothing().wakes().then(Added(10), Set(None))


def test_an_event_past_the_bound_of_the_engine_fails() -> None:
    with pytest.raises(AssertionError, match=r"the events of tenant/jar/subject is .* characters long"):
        jar(deciding(Added(labels=("x" * 5_000_000,)))).when(Put())


def test_what_settles_a_refusal_is_folded_and_the_refusal_stays_the_outcome() -> None:
    settling = Put()

    def decide(view: View[Jar], command: Any, policy: Policy, now: Instant) -> Decision | Refusal:
        return Decision((Added(),)) if command is settling else Refusal("FULL", "no room", settling)

    scenario = jar(decide).when(Put()).then_refused("FULL")
    assert scenario.state == Jar(1)
