"""Structs that are derived from one definition of their fields, and the copies between them.

A domain writes each field once, in a struct that says its type, bounds and default. Of that struct it derives

- with `@stored` the one that is kept: without bounds, since what was accepted once is always read again;
- with `@shown()` the one that is answered: without bounds and defaults, so that an answer has all its fields, always.

Both are declared as subclasses of the struct with the fields, so a type checker knows every field of them, and
`copy_fields` fills one from another by name. A field of either is therefore added in one place:

    class Fields(msgspec.Struct, Generic[At], kw_only=True, frozen=True):
        title: Annotated[str, msgspec.Meta(max_length=80)] = "untitled"
        ends_at: At | None = None

    class Request(Fields[str], forbid_unknown_fields=True): ...

    @stored
    class Kept(Fields[Instant]): ...

    @shown()
    class Answer(Fields[datetime], JsonView): ...

    kept = copy_fields(Kept, request, instant=parse)
    answer = copy_fields(Answer, kept, instant=moment)

Two conventions hold. A field whose name ends in `_at` is an instant, and goes through `instant` when it is copied; an
answer may leave that ending out (`next_check` is copied from `next_check_at`). A field that `core.secret_fields` names
is never shown. Whatever else an answer has is read-only: see `read_only_fields`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from betimes.core.errors import Invalid
from betimes.core.secret_fields import SECRET_FIELDS

Kind = TypeVar("Kind", bound=msgspec.Struct)
Field = tuple[str, Any, Any]
"""A name, a type and the default, as `msgspec.defstruct` takes them."""
Convert = Callable[[Any, Callable[[Any], Any]], Any]
"""Of a value and the function for instants."""
_CONFIG = ("frozen", "eq", "order", "array_like", "gc", "omit_defaults", "forbid_unknown_fields", "tag", "tag_field")
_METHODS = (FunctionType, property, classmethod, staticmethod)


def stored(kind: type[Kind]) -> type[Kind]:
    """Derive the struct that is kept: the same fields, order and defaults, without bounds."""
    return _rebuild(kind, [(name, _without_bounds(type_, tuple), default) for name, type_, default in _fields(kind)])


def shown(**after: str | None) -> Callable[[type[Kind]], type[Kind]]:
    """Derive the struct that is answered: no bounds, every field required, no secrets; placed as with `placed`."""

    def derive(kind: type[Kind]) -> type[Kind]:
        fields = [(name, _without_bounds(type_, list), msgspec.NODEFAULT) for name, type_, _ in _fields(kind)]
        public = [field for field in fields if field[0] not in SECRET_FIELDS]
        return _rebuild(kind, _place(public, after), omit_defaults=False, forbid_unknown_fields=False)

    return derive


def placed(**after: str | None) -> Callable[[type[Kind]], type[Kind]]:
    """Move fields of a struct: each behind the one that is named, or with `None` to the front.

    Fields of a base come first otherwise, and the order of fields is the order in which people read them.
    """
    return lambda kind: _rebuild(kind, _place(_fields(kind), after), *_stand_ins(kind))


def read_only_fields(answer: type[msgspec.Struct], request: type[msgspec.Struct]) -> frozenset[str]:
    """Return the fields that are answered but cannot be asked for."""
    return frozenset(answer.__struct_fields__) - frozenset(request.__struct_fields__)


def nested_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields that hold a struct."""
    return tuple(name for name, type_, _ in _fields(kind) if _option(type_, _is_struct))


def copy_fields(kind: type[Kind], *sources: msgspec.Struct, instant: Callable[[Any], Any], **given: Any) -> Kind:
    """Return a struct of a kind: every field as given, or else from the first source that has it.

    Instants go through `instant`, structs inside become the kind of struct that the field asks for. A field that no
    source has keeps its default; raise `Invalid` if it has none.
    """
    values = given
    for name, place, spelt, convert in _plan(kind, tuple(map(type, sources)), frozenset(given)):
        value = getattr(sources[place], spelt)
        values[name] = value if value is None or convert is None else convert(value, instant)
    try:
        return kind(**values)
    except TypeError as error:
        names = ", ".join(type(source).__name__ for source in sources)
        raise Invalid(f"{kind.__name__} cannot be filled from {names}: {error}") from None


@cache
def _plan(
    kind: type[msgspec.Struct], sources: tuple[type[msgspec.Struct], ...], given: frozenset[str]
) -> tuple[tuple[str, int, str, Convert | None], ...]:
    """Return each field that is copied: the place of its source, its name there, and how its value is converted.

    Lists of answers are made by the page, so this is worked out once.
    """
    steps = []
    for name, type_, _ in _fields(kind):
        places = ((place, _spelling(source, name)) for place, source in enumerate(sources))
        place, spelt = next(((place, spelt) for place, spelt in places if spelt), (0, ""))
        if spelt and name not in given:
            steps.append((name, place, spelt, _conversion(spelt, type_)))
    return tuple(steps)


def _spelling(source: type[msgspec.Struct], name: str) -> str:
    return next((spelt for spelt in (name, f"{name}_at") if spelt in source.__struct_fields__), "")


def _conversion(spelt: str, type_: Any) -> Convert | None:
    if spelt.endswith("_at"):
        return lambda value, instant: instant(value)
    inner, collection = _option(type_, _is_struct), _collection(type_)
    if inner is not None:
        return lambda value, instant: value if type(value) is inner else copy_fields(inner, value, instant=instant)
    return collection and (lambda value, instant: collection(value))


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
        kw_only=True,
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
    """Return a type without what `msgspec.Meta` says of it; sequences become that collection."""
    origin, inner = get_origin(type_), get_args(type_)
    if origin is Annotated:
        return _without_bounds(inner[0], collection)
    if origin in (Union, UnionType):
        return Union[tuple(_without_bounds(option, collection) for option in inner)]  # noqa: UP007
    if origin in (Sequence, tuple) and (origin is Sequence or inner[-1] is Ellipsis):
        item = _without_bounds(inner[0], collection)
        return tuple[item, ...] if collection is tuple else list[item]  # type: ignore[valid-type]
    return type_


def _option(type_: Any, is_wanted: Callable[[Any], bool]) -> Any:
    """Return the first of a type's options that is wanted, if there is one."""
    if get_origin(type_) is Annotated:
        return _option(get_args(type_)[0], is_wanted)
    options = get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)
    return next((option for option in options if is_wanted(option)), None)


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _collection(type_: Any) -> Any:
    found = _option(type_, lambda option: get_origin(option) in (list, tuple))
    return get_origin(found) if found is not None else None
