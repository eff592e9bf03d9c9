"""Which application a definition belongs to: the one whose code declares it.

What an application declares no longer it pauses with the reason `NOT_DECLARED`. Whoever changes or enables that takes
it over: it belongs to no application any more.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from betimes.schedules.model import ScheduleState
from betimes.sensors.model import SensorState

State = TypeVar("State", ScheduleState, SensorState)


def changes_owner(state: ScheduleState | SensorState | None, declared_by: str) -> bool:
    """Whether a definition comes to belong to the application that declares it."""
    owner = state.declared_by if state and not state.paused_reason else ""
    return bool(declared_by) and declared_by != owner


def take_over(state: State) -> State:
    """Return the state as it is changed or enabled by hand."""
    return replace(state, declared_by="", paused_reason="") if state.paused_reason else state
