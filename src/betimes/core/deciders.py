"""The decider protocol: one small record of pure functions per kind of stream.

    decide(view, command, policy, now) -> Decision | Refusal      what happens, and why
    fold(state, event)                 -> state | None            how the state follows; never emits anything
    alarm(state)                       -> instant | None          when the stream wants to be woken
    index(state)                       -> Index                   by what it can be listed and claimed

No function here may read a clock, the environment or a random number: `now` is given, ids derive from the view
and the command, jitter is a hash. `needs(stream, command, policy)` names the other streams a decision locks and reads,
before any state is seen; `reads(stream)` names those it only looks at, which are not locked. A state of `None` is a
stream that does not exist yet, or exists no more (its version goes on).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce
from inspect import signature
from operator import or_
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, get_args, get_type_hints

import msgspec
from msgspec.structs import force_setattr

from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.segments import Recorded
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import EffectId, StreamId
from betimes.core.verdicts import RuleTable, Verdict

State = TypeVar("State", bound=msgspec.Struct)
Command: TypeAlias = msgspec.Struct
Event: TypeAlias = msgspec.Struct


class Wake(StoredMessage):
    """The stream's alarm is due."""

    held_until_at: Instant | None = None
    """When the hold ended that kept it from ringing, if one did."""


class Reconsider(StoredMessage):
    """A section of the policy that the decider heeds has changed: derive the instants that follow from it again.

    Nothing is judged and nothing counted, and no promise is broken: what was promised for an instant happens then at
    the latest. A stream whose instants stay as they are writes nothing.
    """


class Settled(StoredMessage):
    """A call whose end was to be reported to this stream has ended."""

    effect: str
    executor: str
    status: Literal["done", "failed", "dead", "abandoned"]
    attempts: int = 1
    result: Any = None
    error: str = ""


class Checkpoint(StoredMessage):
    """Stands in the ledger for all of a stream's history up to its version."""

    state: msgspec.Raw
    segments: int


class Repair(StoredMessage, omit_defaults=False):
    """A stream continues from this state, whatever came before; `lost` are the versions that cannot be replayed."""

    state: msgspec.Raw
    why: str
    lost: tuple[int, ...] = ()


class Call(StoredMessage, gc=False):
    """Something outside must happen after the commit, carried out by the named executor.

    `at_most_once` calls are leased before they start and never started again; the others are repeated with
    back-off up to `attempts_max` times and then kept as dead letters. The end comes back as `Settled` to the stream
    `report_to`, in the commit that ends it.
    """

    executor: str
    payload: Any = None
    at_most_once: bool = False
    attempts_max: int = 6
    lease_s: int = 60
    not_before_at: Instant | None = None
    report_to: StreamId | None = None


class Send(StoredMessage, gc=False, omit_defaults=False):
    """A command to another stream of the same tenant: applied exactly once, in order per source stream.

    With a `key` it is the target's idempotency key in the `collection` (by default the target's kind), and `request` is
    what a repeat must agree in. With an `authority` a definition or a policy asks for it: it is applied only if
    those scopes may write to that kind of stream and, where the command was written down as it is, only if the kind
    lists it as a target.
    """

    to: StreamId
    command: Command | Mapping[str, Any]
    """The command, or what the target's decider reads as one."""
    key: str | None = None
    collection: str = ""
    request: str = ""
    authority: tuple[str, ...] | None = None
    """The scopes of the key that defined the source of the command; `None`: the domain itself."""


Effect: TypeAlias = Call | Send


class View(msgspec.Struct, Generic[State], frozen=True, gc=False):
    """The input of a decision: its stream's state and those of the other streams it needs."""

    stream: StreamId
    state: State | None
    version: int = 0
    others: Mapping[StreamId, Any] = {}
    key: str | None = None
    """The idempotency key of the command, from which ids of new streams may derive."""
    correlation: str = ""
    """The correlation id of the command, from its caller or its cause."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a command. Without events nothing is written and the reply is only returned; under a key of the
    caller's, a segment without events keeps it."""

    events: tuple[Event, ...] = ()
    also: Mapping[StreamId, tuple[Event, ...]] = {}
    effects: tuple[Effect, ...] = ()
    verdict: Verdict | None = None
    reply: Any = None
    promised_at: Instant | None = None
    """The last instant promised to what this leaves waiting; the key is kept beyond it."""
    is_invalid: bool = False
    """The reply says what is wrong with the command: nothing is written and its key stays free."""


class Refusal(msgspec.Struct, frozen=True):
    """The command cannot be carried out as things stand; nothing of it is written and its key stays free."""

    reason: str
    message: str
    settles: Command | None = None
    """A command of the same stream that is carried out all the same, in the same turn: what was owed anyway."""


class Index(msgspec.Struct, frozen=True, gc=False):
    """By what a stream is listed (`owner`, `status`, in order of `listed_at`) and claimed or swept (`due_at`)."""

    status: str = ""
    owner: str = ""
    due_at: Instant | None = None
    listed_at: Instant | None = None
    """Where it stands in a list of what to look at, which may be earlier than it can be claimed."""


def _no_alarm(state: Any) -> Instant | None:
    return None


def _no_index(state: Any) -> Index:
    return Index()


def _no_needs(stream: StreamId, command: Command, policy: Policy) -> tuple[StreamId, ...]:
    return ()


def _no_reads(stream: StreamId) -> tuple[StreamId, ...]:
    return ()


# Compared by identity: where a kind has no needs or reads, nothing is called or sorted for a command.
NO_NEEDS: Final = _no_needs
NO_READS: Final = _no_reads
_BY_HINTS: Any = msgspec.UNSET


class Decider(msgspec.Struct, Generic[State], frozen=True, kw_only=True):
    """One kind of stream: its types, and the pure functions that are its behaviour.

    `state`, `commands` and `events` can be left out where the type hints of `decide` and `fold` name them.
    """

    kind: str
    scope: str = "admin"
    """The scope a caller's key needs to write to streams of this kind."""
    state: type[State] = _BY_HINTS
    commands: Any = _BY_HINTS
    """The union of its command structs, tagged."""
    events: Any = _BY_HINTS
    """The union of its event structs, tagged."""
    decide: Callable[[View[State], Any, Policy, Instant], Decision | Refusal]
    needs: Callable[[StreamId, Any, Policy], tuple[StreamId, ...]] = _no_needs
    reads: Callable[[StreamId], tuple[StreamId, ...]] = _no_reads
    """Streams of the tenant that decisions look at as they were last committed, without a lock: what many share."""
    tables: tuple[RuleTable[Any], ...] = ()
    reasons: Mapping[str, str] = {}
    """The meaning of each reason of its verdicts; a verdict with another is refused. None: any is allowed."""
    replies: Any = Any
    """The type of its replies, so that one answered from the record is what was answered first."""
    repeated: Callable[[Any, Recorded], Command | None] | None = None
    """The command to decide (and record, without a key) when a key is repeated; `None`: only answer from the record."""
    stops: tuple[type[msgspec.Struct], ...] = ()
    """Commands that stop the stream, so that an alarm already due does not ring before them."""
    claims: tuple[type[msgspec.Struct], ...] = ()
    """Commands that claim the stream's work; they are refused while its domain is held."""
    targets: tuple[type[msgspec.Struct], ...] = ()
    """Commands that a definition or a policy may send to a stream of this kind. None of them defines anything or
    carries a command itself, so that nobody gains a privilege by nesting."""
    heeds: tuple[type[msgspec.Struct], ...] = ()
    """Sections of the policy that instants in its states follow from; when one changes, streams are told so with
    `Reconsider`."""
    heeding: tuple[str, ...] = ("",)
    """The statuses of the streams that are notified; an empty one stands for all."""
    fold: Callable[[State | None, Any], State | None]
    alarm: Callable[[State], Instant | None] = _no_alarm
    index: Callable[[State], Index] = _no_index
    schema: int = 1
    """The version of its state and event shapes; data from a newer one is refused."""

    def __post_init__(self) -> None:
        # Filled in once, when the decider is made: for everybody else it stays frozen.
        if self.state is _BY_HINTS:
            force_setattr(self, "state", _find_type(self.decide, 0, lambda view: get_args(view)[:1]))
        if self.commands is _BY_HINTS:
            force_setattr(self, "commands", _find_type(self.decide, 1, _own_commands))
        if self.events is _BY_HINTS:
            force_setattr(self, "events", _find_type(self.fold, 1, lambda events: (events,)))


def _find_type(function: Callable[..., Any], place: int, parts: Callable[[Any], tuple[Any, ...]]) -> Any:
    """Return the union of the parts of a parameter's type; raise `TypeError` if no hint names them."""
    found: tuple[Any, ...] = ()
    # Local types of a module that postpones its hints, partials and the like: nothing there says what is meant.
    with suppress(NameError, TypeError):
        # By place, not by name: what a function calls its parameters is its own affair.
        hint = get_type_hints(function).get([*signature(function).parameters, ""][place])
        found = () if hint is None else parts(hint)
    if not found or Any in found:
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{name} has no type hints for this; give the decider its state, commands and events")
    return reduce(or_, found)


def _own_commands(commands: Any) -> tuple[Any, ...]:
    """Return the members of the union without what every decider gets from the engine."""
    members = get_args(commands) or (commands,)
    return tuple(command for command in members if command not in (Wake, Settled, Reconsider))


class EffectCall(msgspec.Struct, frozen=True):
    """The argument of an executor: the same id on every attempt, and the fence of this one."""

    id: EffectId
    executor: str
    payload: Any
    attempt: int
    created_at: Instant
    fence: int
    lease_s: int
    at_most_once: bool
    attempts_max: int
    report_to: StreamId | None
