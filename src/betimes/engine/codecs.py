"""The deciders a process knows, by kind, and how their commands, events and states become text and back.

Text that does not decode is a `MalformedRow` that names the stream; text from a newer schema is refused as
`NewerVersion`, because folding it and writing it back would lose what this code does not know.

Decoded states are cached, bounded by the size of their text. An entry is trusted only at the version the store locked.
"""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypeVar, Union, get_args, get_origin

import msgspec

from betimes.core.deciders import Checkpoint, Command, Decider, Event, Reconsider, Repair, Settled, Wake
from betimes.core.errors import Invalid, MalformedRow, MissingScope, NewerVersion, UnknownKind
from betimes.core.instants import Instant
from betimes.core.scopes import allows, areas_of
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import EffectId, StreamId, checked_stream
from betimes.core.verdicts import RuleTable, Verdict
from betimes.engine.store import NOT_CACHED, Row, StreamRow

Named: TypeAlias = StreamId | Segment | EffectId | str
"""The kind of text, named only if it cannot be read."""
C = TypeVar("C", bound=Command)
ENTRY_CHARS = 256
"""Bytes that a cached state takes besides its text."""
_verdicts = msgspec.json.Decoder(Verdict)


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Made once for each type: a large union takes milliseconds."""
    return msgspec.json.Decoder(kind)


class StoredState(Protocol):
    """A row that holds a state as text."""

    @property
    def schema(self) -> int: ...
    @property
    def state(self) -> str | None: ...


class Kind:
    """One decider with its decoders."""

    def __init__(self, decider: Decider[Any]) -> None:
        self.decider = decider
        self.event_classes = _classes(decider.events)
        self.command_classes = _classes(decider.commands)
        self._states = _decoder(decider.state)  # type: ignore[arg-type]
        self._events = _decoder(tuple[decider.events, ...])  # type: ignore[name-defined]
        # The engine's own commands are in the history of every kind.
        self._commands = _decoder(decider.commands | Wake | Settled | Reconsider | Repair)
        self._replies = _decoder(decider.replies)

    @property
    def recorded_types(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the types that commands and events have in the history of this kind."""
        commands = {*self.command_classes, Wake, Settled, Reconsider, Repair, Checkpoint}
        return frozenset(map(_type_of, commands)), frozenset(map(_type_of, self.event_classes))

    def state(self, stream: StreamId, schema: int, text: str | None) -> Any:
        self._refuse_newer(stream, schema)
        return None if text is None else decode_text(self._states, text, "the state of", stream)

    def events(self, segment: Segment) -> tuple[Event, ...]:
        self._refuse_newer(segment.stream, segment.schema)
        events: tuple[Event, ...] = decode_text(self._events, segment.events, "the events of", segment)
        return events

    def check_command(self, command: Command) -> None:
        """Refuse a command of another kind."""
        if command.__class__ not in self.command_classes:
            names = ", ".join(sorted(known.__name__ for known in self.command_classes))
            raise Invalid(f"{command!r:.80} is not a command of {self.decider.kind!r}; those are {names}")

    def check_authority(self, command: Command, authority: tuple[str, ...], *, written_down: bool) -> None:
        """Refuse a command that those scopes may not send here or, written down as it is, that is not a target."""
        if written_down:
            self.check_target(command)
        scope = self.decider.scope
        if not allows(authority, scope):
            name = type(command).__name__
            raise MissingScope(f"{name} needs the scope {scope}, which the key that defined this lacks")

    def check_target(self, command: Command) -> None:
        """Refuse a command that a definition or a policy may not send to this kind of stream."""
        decider = self.decider
        if command.__class__ not in decider.targets:
            listed = ", ".join(sorted(target.__name__ for target in decider.targets)) or "none"
            raise Invalid(f"{type(command).__name__} is not a target; those of {decider.kind!r} are: {listed}")

    def command(self, text: str, of: Named) -> Command:
        command: Command = decode_text(self._commands, text, "the command of", of)
        return command

    def recorded(self, segment: Segment) -> Recorded:
        """Return the answer the segment gave when it was written."""
        verdict = decode_text(_verdicts, segment.verdict, "the verdict of", segment) if segment.verdict else None
        reply = decode_text(self._replies, segment.reply, "the reply of", segment) if segment.reply else None
        return Recorded(
            segment.stream, segment.version, segment.at, segment.policy, verdict=verdict, reply=reply, replayed=True
        )

    def _refuse_newer(self, stream: StreamId, schema: int) -> None:
        if schema > self.decider.schema:
            raise NewerVersion(
                f"{stream} was written with schema {schema} of {stream.kind!r}; this process knows "
                f"{self.decider.schema}. Upgrade it before it touches this stream"
            )


def _type_of(message: type) -> str:
    """Return the name by which a command or an event is stored."""
    return str(message.__struct_config__.tag)  # type: ignore[attr-defined]


def _classes(union: Any) -> frozenset[type]:
    return frozenset(get_args(union) or (union,))


class _KindsByName(dict[str, Kind]):
    def __missing__(self, name: str) -> Kind:
        known = ", ".join(sorted(self)) or "none"
        raise UnknownKind(f"no decider for the kind {name!r}; known: {known}")


class Kinds:
    """All deciders of a process."""

    def __init__(self, deciders: Iterable[Decider[Any]]) -> None:
        self.by_name = _KindsByName()
        """Raises `UnknownKind` for a name that is not there."""
        for decider in deciders:
            checked_stream("tenant", decider.kind, "id")
            if decider.kind in self.by_name:
                raise Invalid(f"two deciders claim the kind {decider.kind!r}; give one of them another name")
            # msgspec tells defaults by identity: the text of such a state would depend on how it was made, not on what
            # it says.
            if fields := spelt_by_identity(decider.state):  # type: ignore[arg-type]
                raise Invalid(
                    f"the state of {decider.kind!r} omits defaults that are not always the same object: "
                    f"{', '.join(fields)}. Default to an empty text or None, use a Literal, or do not omit defaults"
                )
            self.by_name[decider.kind] = Kind(decider)
        self.names = tuple(sorted(self.by_name))
        tables: list[RuleTable[Any]] = [table for kind in self.by_name.values() for table in kind.decider.tables]
        self.tables = {table.name: table for table in reversed(tables)}
        """The tables of rules by name; of two with one name, the first."""
        self._by_domain: dict[str, tuple[str, ...]] = {}
        for name in self.names:
            for domain in areas_of((self.scope(name),), "write"):
                self._by_domain[domain] = (*self._by_domain.get(domain, ()), name)

    def of_domains(self, domains: Iterable[str]) -> tuple[str, ...]:
        """Return the kinds whose streams these domains write."""
        return tuple(kind for domain in domains for kind in self._by_domain.get(domain, ()))

    @property
    def domains(self) -> tuple[str, ...]:
        return tuple(sorted(self._by_domain))

    def of(self, stream: StreamId) -> Kind:
        return self.by_name[stream.kind]

    def state_in(self, stream: StreamId, row: StoredState) -> Any:
        """Return the state in a stream's row, decoded; raise what cannot be read."""
        return self.by_name[stream.kind].state(stream, row.schema, row.state)

    def scope(self, kind: str) -> str:
        """Return the scope that writing to streams of a kind needs; for an unknown kind, the administrator's."""
        known = self.by_name.get(kind)
        return known.decider.scope if known else "admin"


def checkpoint_of(segment: Segment) -> Checkpoint | None:
    """Return the checkpoint a segment is, if it is one."""
    return decode_tagged(_checkpoints, segment, '{"type":"Checkpoint"', "the checkpoint")


def repair_of(segment: Segment) -> Repair | None:
    """Return the repair a segment is, if it is one."""
    return decode_tagged(_repairs, segment, '{"type":"Repair"', "the repair")


def decode_tagged(decoder: msgspec.json.Decoder[C], segment: Segment, start: str, name: str) -> C | None:
    """Return a segment's command if its text starts with this tag."""
    # The tag comes first in the text, so that nearly every segment is told apart without decoding its command.
    if segment.command is None or not segment.command.startswith(start):
        return None
    command: C = decode_text(decoder, segment.command, name, segment)
    return command


def raw_state(raw: msgspec.Raw) -> str | None:
    """Return the text of a state that a checkpoint or a repair carries; `None` of a stream that is deleted."""
    text = bytes(raw).decode()
    return None if text == "null" else text


_checkpoints = msgspec.json.Decoder(Checkpoint)
_repairs = msgspec.json.Decoder(Repair)


def decode_text(decoder: msgspec.json.Decoder[Any], text: str, what: str, of: Named) -> Any:
    """The value a text stands for."""
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError) as error:
        name = f"{what} {of if isinstance(of, StreamId | str) else of.handle}"
        raise MalformedRow(f"{name} cannot be read: {error}. Run `betimes doctor` to see what can be done") from error


# -- structs whose text depends on their value alone

# msgspec leaves a field out when its value *is* the default, not when it equals it. A text read back from the ledger is
# equal to a default and another object, so the state folded live and the same state folded again would be spelt
# differently, and `verify` would call a sound ledger unsound. Such a state is refused before anything is written.
_UNIONS = (Union, types.UnionType)


@cache
def spelt_by_identity(kind: Any) -> tuple[str, ...]:
    """The fields, as `Struct.field`, whose being left out depends on which object their value is."""
    return tuple(
        f"{struct.__name__}.{field.name}"
        for struct in structs_in(kind, set())
        if struct.__struct_config__.omit_defaults
        for field in msgspec.structs.fields(struct)
        if isinstance(field.default, str | int | float) and not _is_one_object(field.default, field.type)
    )


def structs_in(kind: Any, seen: set[Any]) -> Iterator[type[msgspec.Struct]]:
    """The structs a type is made of, each once."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind not in seen:
            seen.add(kind)
            yield kind
            for field in msgspec.structs.fields(kind):
                yield from structs_in(field.type, seen)
    elif get_origin(kind) in (*_UNIONS, dict, list, tuple):
        for part in get_args(kind):
            yield from structs_in(part, seen)


def _is_one_object(value: Any, kind: Any) -> bool:
    """Return whether every equal value that can be read is the same object: empty texts, small numbers, literals."""
    # Of these numbers CPython keeps one object each.
    if value == "" or isinstance(value, bool) or (isinstance(value, int) and -5 <= value <= 256):
        return True
    members = get_args(kind) if get_origin(kind) in _UNIONS else (kind,)
    return any(get_origin(member) is Literal for member in members)


# -- a cache of decoded states


class Cached(msgspec.Struct, frozen=True, gc=False):
    """A stream as its last segment left it, decoded."""

    version: int
    state: Any
    at: Instant
    alarm_at: Instant | None
    digest: str
    chars: int

    @classmethod
    def of_row(cls, kind: Kind, stream: StreamId, row: Row | StreamRow) -> Cached:
        """Decode a row; raise what cannot be read."""
        state = kind.state(stream, row.schema, row.state)
        return cls(row.version, state, row.at, row.alarm_at, row.digest, ENTRY_CHARS + len(row.state or ""))


NO_ENTRY = Cached(NOT_CACHED, None, 0, None, "", 0)
"""Stands for a stream that is not cached, in the version that a store is asked with."""


class StateCache(OrderedDict[StreamId, Cached]):
    """Least recently used states leave first when the bound is passed."""

    def __init__(self, chars_max: int) -> None:
        super().__init__()
        self._chars_max = chars_max
        self._chars = 0

    def put(self, stream: StreamId, entry: Cached) -> None:
        """Keep a stream as it is now, as the one that was used last."""
        # Taken out first: an ordered mapping keeps the place of a key that is set again, and this one was used last.
        before = self.pop(stream, None)
        self._chars += entry.chars - (before.chars if before else 0)
        self[stream] = entry
        while self._chars > self._chars_max:
            self._chars -= self.popitem(last=False)[1].chars

    def drop(self, stream: StreamId) -> None:
        """Forget a stream."""
        gone = self.pop(stream, None)
        if gone:
            self._chars -= gone.chars
