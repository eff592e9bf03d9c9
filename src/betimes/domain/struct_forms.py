"""The forms of a struct whose fields are defined once: as it is sent, kept and answered.

A domain writes each field once, in a struct that says its type, bounds and default. Of that struct it derives

- with `@stored()` the one that is kept: without bounds, since what was accepted once is always read again;
- with `@shown()` the one that is answered: without bounds and defaults, so that an answer has all its fields, always.

Both are declared as subclasses of the struct with the fields, so a type checker knows every field of them, and
`derivation.derive` fills one from another by name. A field of either is therefore added in one place:

    class Fields(msgspec.Struct, Generic[At, Absent], kw_only=True, frozen=True):
        title: Annotated[str, msgspec.Meta(max_length=80)] = "untitled"
        ends_at: At | None = None
        owner: Owner | Absent = LEFT_OUT

    class Request(Fields[datetime, None], forbid_unknown_fields=True): ...

    @stored()
    class Kept(Fields[Instant, UnsetType]): ...

    @shown()
    class Answer(Fields[datetime, None], JsonView): ...

    kept = derive(Kept, request)
    answer = derive(Answer, kept)

A struct that is kept without `omit_defaults` takes new fields as `owner` here: `UNSET` is not encoded, so a state from
before the field was there is replayed to the byte. A field that `core.secret_fields` names is never shown. Whatever
else an answer has is read-only: see `read_only_fields`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import get_annotations
from types import FunctionType, UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from betimes.core.secret_fields import SECRET_FIELDS

Kind = TypeVar("Kind", bound=msgspec.Struct)
Mark = TypeVar("Mark")
Field = tuple[str, Any, Any]
"""A name, a type and the default, as `msgspec.defstruct` takes them."""
LEFT_OUT: Any = None
"""The default of a field that may be absent: `None` where it is sent, `UNSET` where it is kept."""
_CONFIG = ("frozen", "eq", "order", "array_like", "gc", "omit_defaults", "forbid_unknown_fields", "tag", "tag_field")
_METHODS = (FunctionType, property, classmethod, staticmethod)


class From(NamedTuple):
    """An annotation: the field is taken from one of another name, and rendered by a function if there is one."""

    name: str
    render: Callable[[Any], Any] | None = None


def stored(**after: str | None) -> Callable[[type[Kind]], type[Kind]]:
    """Derive the struct that is kept: the same fields and defaults, without bounds; placed as with `placed`.

    What is stored keeps its order for ever, because replays are compared to the byte.
    """

    def derive(kind: type[Kind]) -> type[Kind]:
        fields = [(name, _without_bounds(type_, tuple), default) for name, type_, default in _fields(kind)]
        kept = [(name, type_, _absent(type_, default)) for name, type_, default in fields]
        # Without the bounds of today: what was accepted under wider ones must still be read.
        return _rebuild(kind, _place(kept, after))

    return derive


def _absent(type_: Any, default: Any) -> Any:
    return UNSET if default is LEFT_OUT and UnsetType in options_of(type_) else default


def shown(**after: str | None) -> Callable[[type[Kind]], type[Kind]]:
    """Derive the struct that is answered: no bounds, every field required, no secrets; placed as with `placed`.

    This is about the fields of its bases; one that it declares itself stays as it says.
    """

    def derive(kind: type[Kind]) -> type[Kind]:
        own = get_annotations(kind)
        fields = [
            (name, type_, default) if name in own else (name, _without_bounds(type_, list), msgspec.NODEFAULT)
            for name, type_, default in _fields(kind)
            if name in own or name not in SECRET_FIELDS
        ]
        return _rebuild(kind, _place(fields, after), omit_defaults=False, forbid_unknown_fields=False)

    return derive


def placed(**after: str | None) -> Callable[[type[Kind]], type[Kind]]:
    """Move fields of a struct: each behind the one that is named, or with `None` to the front.

    Fields of a base come first otherwise, and the order of fields is the order in which people read them.
    """
    return lambda kind: _rebuild(kind, _place(_fields(kind), after), *_stand_ins(kind))


def read_only_fields(answer: type[msgspec.Struct], request: type[msgspec.Struct]) -> frozenset[str]:
    """Return the fields of answers that a request cannot set."""
    return frozenset(answer.__struct_fields__) - frozenset(request.__struct_fields__)


def nested_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields that hold a struct."""
    return tuple(name for name, type_, _ in _fields(kind) if struct_options(options_of(type_)))


def marks_of(type_: Any, kind: type[Mark]) -> Iterator[Mark]:
    """Yield the annotations of a type that are of a kind."""
    return (mark for mark in getattr(type_, "__metadata__", ()) if isinstance(mark, kind))


def options_of(type_: Any) -> tuple[Any, ...]:
    """Return the types that a value of a type may have, without annotations."""
    if get_origin(type_) is Annotated:
        return options_of(get_args(type_)[0])
    if get_origin(type_) in (Union, UnionType):
        return tuple(option for part in get_args(type_) for option in options_of(part))
    return (type_,)


def struct_options(options: tuple[Any, ...]) -> tuple[type[msgspec.Struct], ...]:
    """Return those of the types that are structs."""
    return tuple(option for option in options if isinstance(option, type) and issubclass(option, msgspec.Struct))


def _fields(kind: type[msgspec.Struct]) -> list[Field]:
    return [(field.name, field.type, _default(field)) for field in msgspec.structs.fields(kind)]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return field.default


def _place(fields: list[Field], after: dict[str, str | None]) -> list[Field]:
    moved = {field[0]: field for field in fields if field[0] in after}
    order = [field for field in fields if field[0] not in after]
    for name, before in after.items():
        place = 0 if before is None else 1 + [field[0] for field in order].index(before)
        order.insert(place, moved[name])
    return order


def _rebuild(kind: type[Kind], fields: list[Field], *bases: type[msgspec.Struct], **settings: Any) -> type[Kind]:
    """Return a struct of that name and those fields, with the methods and settings of `kind`.

    It cannot be a subclass of it: a struct has the fields of its base first, in their order.
    """
    family = _family(kind)
    methods: dict[str, Any] = {"__doc__": kind.__doc__}
    for base in reversed([base for base in family if base.__struct_fields__]):
        methods |= {name: value for name, value in vars(base).items() if isinstance(value, _METHODS)}
    made: Any = msgspec.defstruct(
        kind.__name__,
        [(name, type_) if default is msgspec.NODEFAULT else (name, type_, default) for name, type_, default in fields],
        bases=(*bases, *(base for base in family if not base.__struct_fields__)) or None,
        namespace=methods,
        module=kind.__module__,
        kw_only=any(default is not msgspec.NODEFAULT for _, _, default in fields),
        **{name: getattr(kind.__struct_config__, name) for name in _CONFIG} | settings,
    )
    return made  # type: ignore[no-any-return]


def _stand_ins(kind: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    """Return empty structs with the names of the bases that have fields: that is where fields are documented."""
    named = [base for base in _family(kind) if base.__struct_fields__ and base is not kind]
    return [msgspec.defstruct(base.__name__, [], module=base.__module__, frozen=True) for base in named]


def _family(kind: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    return [base for base in kind.__mro__ if issubclass(base, msgspec.Struct) and base is not msgspec.Struct]


def _without_bounds(type_: Any, collection: Any) -> Any:
    """Return a type without what `msgspec.Meta` says of it; any sequence becomes that collection."""
    origin, inner = get_origin(type_), get_args(type_)
    if origin is Annotated:
        marks = tuple(marks_of(type_, From))
        bare = _without_bounds(inner[0], collection)
        return Annotated[(bare, *marks)] if marks else bare
    if origin in (Union, UnionType):
        return Union[tuple(_without_bounds(option, collection) for option in inner)]  # noqa: UP007
    if origin is Sequence or (origin is tuple and inner[-1] is Ellipsis):
        item = _without_bounds(inner[0], collection)
        return tuple[item, ...] if tuple in (origin, collection) else list[item]  # type: ignore[valid-type]
    return type_
