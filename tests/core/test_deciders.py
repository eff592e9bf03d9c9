"""What a decider is made of: its types, which the hints of its functions name."""

from __future__ import annotations

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

    with pytest.raises(TypeError, match=r"silent has no type hints; give the decider its state, commands and events"):
        Decider[Any](kind="bell", decide=silent, fold=fold)
