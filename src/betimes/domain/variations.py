"""Variations: what a domain says may be varied of a command that was judged, to find out what would have helped.

Pure, and declared by each domain that judges. The settings of the policy need not be declared: rules name those they go
by. What the braces in such a path stand for, what a rule that is switched off amounts to, and what might be otherwise
in the request, the person or the definition, only the domain knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from betimes.core.deciders import Command
from betimes.core.instants import Instant

VariationKind: TypeAlias = Literal["request", "person", "definition"]


class Variation(msgspec.Struct, frozen=True):
    """One thing that might have been otherwise: a command or a state in place of the recorded one."""

    kind: VariationKind
    says: str
    """The difference, as words that follow "if"."""
    path: str
    before: Any
    after: Any
    command: Command | None = None
    state: Any = None


def _no_names(command: Command, state: Any, at: Instant) -> Mapping[str, tuple[str, ...]]:
    return {}


def _no_variations(command: Command, state: Any) -> Iterable[Variation]:
    return ()


def _no_switch(rule: str, names: Mapping[str, tuple[str, ...]]) -> Mapping[str, Any]:
    return {}


class Variations(msgspec.Struct, frozen=True, kw_only=True):
    """The variations of the decisions of one kind of stream."""

    names: Callable[[Command, Any, Instant], Mapping[str, tuple[str, ...]]] = _no_names
    """Return what the names in braces of a rule's `reads` stand for in this case."""
    vary: Callable[[Command, Any], Iterable[Variation]] = _no_variations
    """Return what might have been otherwise, the least first."""
    switch_off: Callable[[str, Mapping[str, tuple[str, ...]]], Mapping[str, Any]] = _no_switch
    """Return the settings, by path, under which a rule does not bind; none if it cannot be switched off."""
