"""Structs filled from other structs by the names of their fields: answers from states, definitions from requests.

`derive(View, state, id="x")` looks for each field of `View` among what is given, then in each source in turn; what
nobody has keeps its default. A value is converted when the types of the two fields differ in one of these ways:

| from | to | becomes |
|---|---|---|
| `Instant` | `datetime` | the moment, and the other way round |
| `Instant` | `str` | what the function `instant` makes of it, and the other way round |
| text that may be empty | text or `None` | `None` if it is empty |
| anything | something or `UNSET` | `UNSET` if it is empty, so that it is left out where it is stored |
| something or `UNSET` | something else | `None` or `()` if it is unset |
| a struct | another struct | derived likewise, also within lists |

A field whose annotation names another is taken from that (`Annotated[Decimal, From("amount", points)]`), and an answer
may leave out the ending of an instant (`next_check` is taken from `next_check_at`).

What is to be done for a kind of struct and the kinds of its sources is worked out once and kept: answers are made for
every verdict, and for lists by the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from betimes.core.datetimes import instant as read_moment
from betimes.core.datetimes import moment
from betimes.domain.struct_forms import From, marks_of, options_of, struct_options

Kind = TypeVar("Kind", bound=msgspec.Struct)
OnInstant = Callable[[Any], Any]
Convert = Callable[[Any, Any], Any]
"""Of a value and the function for instants that are text."""
_EMPTY: tuple[Any, ...] = (None, UNSET, "", (), [], {})
"""Values that are left out; 0 and `False` carry information."""
Options = tuple[Any, ...]
"""The types that a value may have."""


def derive(kind: type[Kind], /, *sources: object, instant: OnInstant | None = None, **given: Any) -> Kind:
    """Return a struct whose fields are those given, else those of the first source that has them, else defaults.

    Raise `TypeError` with the names of all required fields that are missing.
    """
    fill = _compile(kind, tuple(map(type, sources)), tuple(given))
    return fill(*sources, _instant=instant, **given)  # type: ignore[no-any-return]


def deriver(kind: type[Kind], *sources: type, given: Sequence[str] = ()) -> Callable[..., Kind]:
    """Return `derive` for these types, made beforehand: for answers that every command gets.

    It takes the sources, and by name the fields in `given`. It costs what the same copies cost written out by hand.
    """
    return _compile(kind, sources, tuple(given))


@cache
def _compile(kind: type[msgspec.Struct], sources: tuple[type, ...], given: tuple[str, ...]) -> Callable[..., Any]:
    """Return a function of the sources and, by name, what is given.

    As with data classes, Python text is compiled: walking a plan for each struct takes twice as long. The text is made
    of the names of fields; all other names in it begin with an underscore, which no field does.
    """
    known: dict[str, Any] = {"_kind": kind, "_moment": moment}
    arguments: list[str] = []
    missing = []
    for field in msgspec.structs.fields(kind):
        if field.name in given:
            value, convert = field.name, _given_conversion(field.type)
        elif found := _find_source(sources, field):
            place, spelt, source_type = found
            value, convert = f"_source{place}.{spelt}", _conversion(source_type, field.type)
        else:
            missing += [field.name] if field.required else []
            continue
        known[f"_convert_{field.name}"] = convert
        # Arguments by place take half the time of those by name; they can be as long as no field was passed over.
        is_next = kind.__match_args__[len(arguments) : len(arguments) + 1] == (field.name,)
        arguments.append(f"{'' if is_next else f'{field.name}='}({_expression(field, value, convert)})")
    if missing:
        names = ", ".join(source.__name__ for source in sources)
        raise TypeError(f"{kind.__name__} cannot be filled from {names}: nothing has {', '.join(missing)}")
    parameters = [*(f"_source{place}" for place in range(len(sources))), "*", "_instant=None", *given]
    return eval(f"lambda {', '.join(parameters)}: _kind({', '.join(arguments)})", known)  # type: ignore[no-any-return]


def _expression(field: msgspec.structs.FieldInfo, value: str, convert: Convert | None) -> str:
    if convert is None:
        return value
    if UnsetType in options_of(field.type):
        return f"_convert_{field.name}({value}, _instant)"
    # Everywhere else nothing stays nothing, and most often that is what there is.
    if convert is _show_instant:  # most conversions are this one, and a call less is a third of its time
        return f"None if (_some := {value}) is None else _moment(_some)"
    return f"None if (_some := {value}) is None else _convert_{field.name}(_some, _instant)"


def _find_source(sources: Sequence[type], field: msgspec.structs.FieldInfo) -> tuple[int, str, Any] | None:
    """Return the place of the first source that has a field, its name there and its type."""
    origin = next(marks_of(field.type, From), None)
    # An answer may be made from another answer too, which has the field under its own name already.
    spellings = ((origin.name,), (field.name,)) if origin else (_own_spellings(field),)
    for names in spellings:
        for place, source in enumerate(sources):
            for spelt in names:
                if (found := _type_in(source, spelt)) is not None:
                    return place, spelt, found
    return None


def _own_spellings(field: msgspec.structs.FieldInfo) -> tuple[str, ...]:
    return (field.name, f"{field.name}_at") if datetime in options_of(field.type) else (field.name,)


def _type_in(source: type, name: str) -> Any:
    """Return the type of a field or property, `None` if there is none."""
    for field in msgspec.structs.fields(source) if issubclass(source, msgspec.Struct) else ():
        if field.name == name:
            return field.type
    if name in getattr(source, "_fields", ()):  # a row of a store is a named tuple
        return get_type_hints(source)[name]
    found = getattr(source, name, None)
    return get_type_hints(found.fget).get("return", Any) if isinstance(found, property) else None


# -- conversions


def _conversion(source: Any, wanted: Any) -> Convert | None:
    """Return how a value of one type becomes one of another, or `None` if it stays as it is."""
    have, want = options_of(source), options_of(wanted)
    if Any in want or have == want:
        return None
    if render := next((mark.render for mark in marks_of(wanted, From) if mark.render), None):
        return lambda value, _: None if value is None else render(value)
    return _chain(*(step(have, want) for step in _STEPS))


def _given_conversion(wanted: Any) -> Convert | None:
    """Return the conversion of a value whose type is not known: of instants and structs only."""
    want = options_of(wanted)
    return _chain(_time((int, datetime), want) if datetime in want else None, _struct((), want))


def _chain(*steps: Convert | None) -> Convert | None:
    taken = [step for step in steps if step]
    if len(taken) < 2:
        return taken[0] if taken else None

    def convert(value: Any, instant: Any) -> Any:
        for step in taken:
            value = step(value, instant)
        return value

    return convert


def _leave_out(have: Options, want: Options) -> Convert | None:
    return (lambda value, _: UNSET if value in _EMPTY else value) if UnsetType in want else None


def _fill_in(have: Options, want: Options) -> Convert | None:
    if UnsetType in want or UnsetType not in have:
        return None
    nothing: Any = None if NoneType in want else ()
    return lambda value, _: nothing if value is UNSET else value


def _blank(have: Options, want: Options) -> Convert | None:
    # Where the source can be `None` itself, empty text is what somebody wrote and stays.
    is_text = any(option is str or _origin(option) is Literal for option in have)
    if not is_text or NoneType in have or NoneType not in want:
        return None
    return lambda value, _: None if value == "" else value


def _time(have: Options, want: Options) -> Convert | None:
    if datetime in want and int in have:
        return _show_any if datetime in have else _show_instant
    if int in want and datetime in have:
        return lambda value, _: read_moment(value) if isinstance(value, datetime) else value
    pairs = ((int, str), (str, int))
    if any(one in have and other in want and one not in want and other not in have for one, other in pairs):
        return lambda value, instant: None if value is None else instant(value)
    return None


def _show_instant(at: Any, _: Any) -> Any:
    return moment(at)


def _show_any(at: Any, _: Any) -> Any:
    return moment(at) if type(at) is int else at


def _struct(have: Options, want: Options) -> Convert | None:
    kinds = struct_options(want)
    if not kinds or (have and all(issubclass(one, kinds) for one in struct_options(have))):
        return None
    kind, others = kinds[0], struct_options(have)

    def convert(value: Any, instant: Any) -> Any:
        # The exact types come first: `isinstance` of a struct takes as long as all the rest of a small answer.
        if value is None or type(value) in kinds:
            return value
        is_other = type(value) in others or (isinstance(value, msgspec.Struct) and not isinstance(value, kinds))
        return derive(kind, value, instant=instant) if is_other else value

    return convert


def _collection(have: Options, want: Options) -> Convert | None:
    wanted = next((option for option in want if _origin(option) in (list, tuple)), None)
    if wanted is None:
        return None
    found = next((option for option in have if _origin(option) in (list, tuple, Sequence)), None)
    make, convert = get_origin(wanted), _struct(_items_of(found), _items_of(wanted))
    if convert is None:
        return None if get_origin(found) is make else lambda value, _: None if value is None else make(value)
    return lambda value, instant: None if value is None else make([convert(one, instant) for one in value])


def _origin(option: Any) -> Any:
    # Type checkers believe that `get_origin` of anything is a `ParamSpec`.
    return get_origin(option)


def _items_of(collection: Any) -> Options:
    return options_of(get_args(collection)[0]) if collection else ()


# In this order: what is left out or empty is dealt with before its type is changed.
_STEPS = (_leave_out, _fill_in, _blank, _time, _struct, _collection)
