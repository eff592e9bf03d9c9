"""Variations of a sweep that left a score unchanged, for the search for alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Command
from betimes.core.instants import Instant
from betimes.domain.variations import Variation, Variations
from betimes.scores.model import ScoreState
from betimes.scores.policy import ScoresPolicy

_ACTIVE = ScoresPolicy().active_statuses[0]
_person = partial(Variation, "person")


def names(command: Command, state: ScoreState | None, at: Instant) -> Mapping[str, tuple[str, ...]]:
    """Return the stage of the score."""
    return {} if state is None else {"chapter": (str(state.chapter),)}


def vary(command: Command, state: ScoreState | None) -> Iterator[Variation]:
    """Return the score in a status that is not paused, and one whose person was not there since it was made."""
    if state is None:
        return
    if state.status != _ACTIVE:
        changed = replace(state, status=_ACTIVE)
        yield _person(f"its status had been {_ACTIVE}", "game_status", state.status, _ACTIVE, state=changed)
    if state.interacted_at is not None and state.interacted_at > state.created_at:
        changed = replace(state, interacted_at=None)
        yield _person("nothing had happened since it was made", "last_interaction_at", "set", "none", state=changed)


def switch_off(rule: str, names: Mapping[str, tuple[str, ...]]) -> Mapping[str, Any]:
    """Return a stage without grace; the other rules cannot be switched off."""
    return {f"scores.stages.{name}.grace_hours": 0 for name in names.get("chapter", ()) if rule == "grace"}


VARIATIONS = Variations(names=names, vary=vary, switch_off=switch_off)
