"""What a decider is made of: its types, which the hints of its functions name."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest

from betimes.core.deciders import Decider, Decision, Reconsider, Settled, View, Wake
from betimes.core.instants import Instant
from betimes.core.policies import Policy


class Ring(msgspec.Struct, frozen=True, tag=True):
    pass


class Mute(msgspec.Struct, frozen=True, tag=True):
    pass


class Rung(msgspec.Struct, frozen=True, tag=True):
    pass


class Muted(msgspec.Struct, frozen=True, tag=True):
    pass


class Bell(msgspec.Struct, frozen=True):
    count: int = 0


def decide(
    view: View[Bell], command: Ring | Mute | Wake | Settled | Reconsider, policy: Policy, now: Instant
) -> Decision:
    return Decision((Rung(),))


def fold(state: Bell | None, event: Rung | Muted) -> Bell:
    return Bell((state or Bell()).count + 1)


def test_a_decider_takes_its_types_from_the_hints_of_its_functions() -> None:
    bell = Decider(kind="bell", decide=decide, fold=fold)
    assert bell.state is Bell
    assert bell.commands == Ring | Mute  # what every decider gets from the engine is not its own
    assert bell.events == Rung | Muted


def test_a_single_command_is_no_union() -> None:
    def ring(view: View[Bell], command: Ring | Wake, policy: Policy, now: Instant) -> Decision:
        return Decision((Rung(),))

    assert Decider(kind="bell", decide=ring, fold=fold).commands is Ring


def test_types_that_are_given_hold() -> None:
    bell = Decider(kind="bell", commands=Ring, events=Rung, decide=decide, fold=fold)
    assert (bell.commands, bell.events, bell.state) == (Ring, Rung, Bell)


def test_functions_without_hints_leave_the_types_to_be_given() -> None:
    def silent(view, command, policy, now):  # type: ignore[no-untyped-def]
        return Decision()

    with pytest.raises(TypeError, match=r"silent has no type hints for this; give the decider its state, commands"):
        Decider[Any](kind="bell", decide=silent, fold=fold)


def test_functions_with_some_hints_are_not_misread() -> None:
    def decide_view(view, command: Ring | Wake, policy: Policy, now: Instant) -> Decision:  # type: ignore[no-untyped-def]
        return Decision()

    def decide_command(view: View[Bell], command, policy: Policy, now: Instant) -> Decision:  # type: ignore[no-untyped-def]
        return Decision()

    def decide_bare(view: View, command: Ring, policy: Policy, now: Instant) -> Decision:  # type: ignore[type-arg]
        return Decision()

    def decide_any(view: View[Bell], command: Any, policy: Policy, now: Instant) -> Decision:
        return Decision()

    def decide_wakes(view: View[Bell], command: Wake, policy: Policy, now: Instant) -> Decision:
        return Decision()

    for misread in (decide_view, decide_command, decide_bare, decide_any, decide_wakes, partial(decide)):
        with pytest.raises(TypeError, match=r"decide.* has no type hints for this; give the decider its state"):
            Decider[Any](kind="bell", decide=misread, fold=fold)


def test_local_types_of_postponed_hints_are_to_be_given() -> None:
    class Knock(msgspec.Struct, frozen=True, tag=True):
        pass

    def decide_local(view: View[Bell], command: Knock, policy: Policy, now: Instant) -> Decision:
        return Decision()

    with pytest.raises(TypeError, match="decide_local has no type hints for this"):
        Decider(kind="bell", decide=decide_local, fold=fold)
    assert Decider(kind="bell", state=Bell, commands=Knock, decide=decide_local, fold=fold).commands is Knock
