"""The rules that schedules and sensors share as definitions: size, ids, versions and owners.

A definition belongs to the application whose code declares it. When the application no longer declares it, it is paused
with the reason `NOT_DECLARED`; whoever then changes or enables it takes it over, and it belongs to no application.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from betimes.core.canonical import encode
from betimes.core.checks import Problem, Rule, broken_rules
from betimes.core.deciders import Refusal
from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.domain.targets import NotificationTarget, Target, TriggerTarget

PAYLOAD_BYTES_MAX = 64 * 1024
DEFINITION_CHARS_MAX = 128 * 1024
"""Encoded size of a definition: its selections and payload go into every run it asks for."""
PausedReason: TypeAlias = Literal["", "NOT_DECLARED"]


# -- commands and events that every definition has, under tags of its own


class ChangeIfVersion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of whatever is there, or only of this version."""

    if_version: int | None = None


class PauseIfVersion(ChangeIfVersion, frozen=True):
    reason: PausedReason = ""


class OwnerDeclared(msgspec.Struct, frozen=True):
    """It belongs to this application, which pauses or deletes it when its code declares it no longer."""

    declared_by: str


class DefinitionDeleted(msgspec.Struct, frozen=True):
    at: Instant


# -- owners


class OwnedState(Protocol):
    """The state of a stream that an application may own."""

    @property
    def declared_by(self) -> str: ...
    @property
    def paused_reason(self) -> PausedReason: ...


Owned = TypeVar("Owned", bound=msgspec.Struct)


# -- problems, each with its path


def definition_problems(path: str, id: str, definition: Any, rules: Sequence[Rule[Any]]) -> tuple[Problem, ...]:
    """Return all problems of a definition, those of its id first."""
    return (*id_problems(path, id), *broken_rules(definition, rules), *size_problems(definition))


def id_problems(path: str, id: str) -> tuple[Problem, ...]:
    """Refuse colons: the names of ticks and runs are joined with them."""
    return ((path, "must not contain ':'"),) if ":" in id else ()


def target_problems(path: str, target: Target) -> tuple[Problem, ...]:
    """Demand an account or a person: neither a schedule nor a sensor has one of its own."""
    match target:
        case TriggerTarget(account_id=None):
            return ((f"{path}.account_id", "is required"),)
        case NotificationTarget(user_id=None):
            return ((f"{path}.user_id", "is required"),)
        case _:
            return ()


def own_target_problems(definition: Any) -> tuple[Problem, ...]:
    return target_problems("target", definition.target)


def size_problems(definition: Any) -> tuple[Problem, ...]:
    # The payload alone first: of a definition that is too long it is the part to shorten, most often.
    if len(encode(definition.payload).encode()) > PAYLOAD_BYTES_MAX:
        return (("payload", f"at most {PAYLOAD_BYTES_MAX:,} bytes"),)
    length = len(encode(definition))
    if length <= DEFINITION_CHARS_MAX:
        return ()
    return (("", f"the definition is {length:,} characters long; at most {DEFINITION_CHARS_MAX:,} fit"),)


def refuse_invalid(problems: tuple[Problem, ...]) -> Refusal | None:
    """Return a refusal that lists every problem, or `None` if there are none."""
    text = "; ".join(f"{path}: {message}" if path else message for path, message in problems)
    return Refusal("INVALID", text) if problems else None


# -- versions and owners


def refuse_missing(stream: StreamId) -> Refusal:
    return Refusal("NOT_FOUND", f"there is no {stream.kind} {stream.id!r}")


def refuse_version(stream: StreamId, expected: int | None, current: int) -> Refusal | None:
    """Refuse a change for another version; `None` expects nothing."""
    if expected is None or expected == current:
        return None
    message = f"the {stream.kind} {stream.id!r} is at version {current}, not {expected}; read it again"
    return Refusal("VERSION_MISMATCH", message)


def refuse_definition(stream: StreamId, expected: int | None, current: int) -> Refusal | None:
    """Refuse a definition for another version; 0 expects that there is none yet."""
    if expected == 0 and current:
        return Refusal("ALREADY_EXISTS", f"the {stream.kind} {stream.id!r} exists already, at version {current}")
    return refuse_version(stream, expected, current)


def changes_owner(state: OwnedState | None, declared_by: str) -> bool:
    """Return whether the application that declares a definition takes ownership of it."""
    # One that was paused as no longer declared counts as nobody's, so that its own application can claim it again.
    owner = state.declared_by if state and not state.paused_reason else ""
    return bool(declared_by) and declared_by != owner


def take_over(state: Owned) -> Owned:
    """Return the state after a change or enabling by hand: if it was paused as undeclared, it has no owner."""
    return replace(state, declared_by="", paused_reason="") if getattr(state, "paused_reason", "") else state
