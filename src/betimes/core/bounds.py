"""Bounds of every text, number and instant that comes from outside, so that whatever is kept can be shown again.

Typed fields hold texts without NUL, whole numbers of 64 bits, decimals of a sane size, and instants within the calendar
once they are in UTC. Free JSON (`Any`) may hold NUL, which its encoding escapes, but nothing that JSON cannot spell.
The scan goes by what the values are, visits each of them once, and builds paths only for what is wrong.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from math import isfinite
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from betimes.core.errors import PROBLEMS_MAX, Invalid
from betimes.core.instants import FIRST_TEXT, LAST_TEXT
from betimes.core.type_hints import is_struct, present_type, strip_annotations

Problem = tuple[str, str]
DEPTH_MAX = 32
"""How deep JSON from outside may be nested."""
INTEGER_MAX = 2**63 - 1
"""Of a field that holds whole numbers; its negative is the least."""
NUMBER_MAX = 10**300
"""Of whole numbers in free JSON: every reader can still take them for floats."""
DECIMAL_MAX = Decimal(10) ** 15
DECIMALS_MAX = 100
"""Digits after the point that a decimal may have; what a field keeps of them is its own matter."""
VALUES_MAX = 40_000
"""Values in JSON from outside, objects and lists included: decoding it blocks the event loop."""
BATCH_VALUES_MAX = 250_000
"""In a batch, whose items are looked at one by one."""
_SIGNS = (b",", b"[", b"{")
_SLICE_BYTES = 64 * 1024
SCANNED_ONE_BY_ONE_MAX = 16
_LONG_NUMBER = b"0" * 301
_DIGITS_ALIKE = bytes.maketrans(b"123456789", b"0" * 9)
SCANNED_WRONG_MAX = 1_000
"""Wrong values after which a container is not looked through any further."""

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


def scan(value: Any, kind: Any) -> list[Problem]:
    """Return what is out of bounds in a converted value of this type, with paths relative to it."""
    if isinstance(value, msgspec.Struct):
        return [] if is_within_bounds(value) else _scan_parts(value, False, 0)
    return _scan(value, _mode(kind) == "free", 0)


def is_within_bounds(value: msgspec.Struct, depth: int = 0) -> bool:
    """Return whether nothing in a struct is out of bounds, by one look; `False` is a maybe, for `scan` to look into.

    Nearly every request is sound, so this is what requests pay for; its texts are looked at as one.
    """
    fields = _fields_by_look(value.__class__)
    said = [text for name in fields.texts if (text := getattr(value, name))]
    for name in fields.lists_of_texts:
        said += getattr(value, name) or ()
    try:
        texts = "".join(said)
    except TypeError:  # a struct that Python made, which holds nobody to its types
        return False
    if "\0" in texts or (not texts.isascii() and text_problem(texts)) or depth >= DEPTH_MAX - 1:
        return False
    for name, is_free in fields.others:
        if (part := getattr(value, name)) not in _NOTHING and _scan(part, is_free, depth + 1):
            return False
    return True


def check_cost(raw: bytes, values_max: int) -> None:
    """Raise `Invalid` if JSON holds more values, or longer numbers, than may be looked at; texts may hold any.

    The cost per byte is constant, because the search blocks the event loop.
    """
    if not has_long_number(raw) and sum(map(raw.count, _SIGNS)) <= values_max:
        return
    bare = _without_texts(raw)
    if sum(map(bare.count, _SIGNS)) > values_max:
        raise Invalid(f"it holds more than {values_max:,} values", (("", f"at most {values_max:,} values"),))
    if has_long_number(bare):
        raise Invalid("it holds a number of more than 300 digits", (("", "at most 300 digits in a number"),))


def _without_texts(raw: bytes) -> bytes:
    """Return JSON without its texts; as far as it is JSON at all, which the decoder reads no further either."""
    # Escaped backslashes first: only then is a backslash before a quote one that escapes it.
    unescaped = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    kept, is_within = [], False
    # In slices: a body of nothing but quotes would be split into millions of pieces at once.
    for start in range(0, len(unescaped), _SLICE_BYTES):
        parts = unescaped[start : start + _SLICE_BYTES].split(b'"')
        kept.append(b"".join(parts[is_within::2]))
        # An even number of parts is an odd number of quotes: where the slice ends is not where it began, in or out of a
        # text.
        is_within ^= len(parts) % 2 == 0
    return b"".join(kept)


def read_json(raw: bytes, values_max: int = VALUES_MAX) -> Any:
    """Return what others answered or sent as JSON; raise `Invalid` if it is none, too deep or out of bounds."""
    check_cost(raw, values_max)
    try:
        value = decode_json(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Invalid(f"it is not JSON in UTF-8: {error}", (("", "not JSON"),)) from None
    return check_json(value)


def decode_json(raw: bytes) -> Any:
    """Return the values of JSON from outside, by a decoder that lets others run while it reads numbers.

    The decoder's own way with numbers near the least a float can hold is a hundred times slower than `float`.
    """
    return _decoder.decode(raw)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError("Number out of range")
    return number


_decoder = msgspec.json.Decoder(float_hook=_finite)


@cache
def direct_decoder(kind: Any) -> msgspec.json.Decoder[Any] | None:
    """Return a decoder straight into a closed struct; `None` for other types."""
    if not is_struct(kind) or not kind.__struct_config__.forbid_unknown_fields:
        return None
    return msgspec.json.Decoder(kind, float_hook=_finite)


@cache
def fields_of_fractions(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields of a struct that can hold fractions."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if _holds_fractions(field.type))


def _holds_fractions(kind: Any) -> bool:
    if is_struct(kind):
        return any(_holds_fractions(field.type) for field in msgspec.structs.fields(kind))
    return kind in (Decimal, float) or (get_origin(kind) is not Literal and any(map(_holds_fractions, get_args(kind))))


def has_long_number(raw: bytes) -> bool:
    """Return whether anything in JSON looks like a number of more than 300 digits."""
    return _LONG_NUMBER in raw.translate(_DIGITS_ALIKE)


def check_json(value: Any) -> Any:
    """Return a value from a user's function; raise `Invalid` if it cannot be stored and shown as JSON."""
    if found := scan(value, Any):
        path, message = found[0]
        raise Invalid(f"{path or 'it'} {message}", tuple(found[:PROBLEMS_MAX]), len(found))
    return value


def join_path(path: str, name: str) -> str:
    """Return the path of a part; a part of a list begins with its bracket."""
    if not path or name.startswith("["):
        return path + name
    return f"{path}.{name}" if name else path


def text_problem(text: str, *, free: bool = False) -> str:
    """Return what is wrong with a text, if anything is."""
    if not free and "\0" in text:
        return "contains a NUL character, which is not allowed"
    if text.isascii():
        return ""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains half of a surrogate pair, which is not valid Unicode"
    return ""


def instant_problem(when: datetime) -> str:
    """Return what is wrong with an instant, if anything is; one without an offset is judged by its type."""
    if when.tzinfo is None or _FIRST <= when <= _LAST:
        return ""
    return f"must be from {FIRST_TEXT} to {LAST_TEXT} in UTC"


def within_depth(value: Any, levels: int) -> bool:
    """Return whether JSON values are nested at most so deep: what is deeper may be read and not be written again."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            part
            for whole in layer
            if (kind := whole.__class__) is dict or kind is list
            for part in (whole.values() if kind is dict else whole)
        ]
        if not layer:
            return True
    return False


def _is_flat(value: dict[Any, Any]) -> bool:
    """Return whether a short free mapping holds ASCII and whole numbers alone, as most do; `False` is a maybe."""
    if len(value) > SCANNED_ONE_BY_ONE_MAX:
        return False
    for name, part in value.items():
        if name.__class__ is not str or not name.isascii():
            return False
        kind = part.__class__
        if kind is str:
            if not part.isascii():
                return False
        elif kind is int:
            if not -INTEGER_MAX <= part <= INTEGER_MAX:
                return False
        elif kind is not bool and part is not None:
            return False
    return True


def _is_plain_json(value: Any, depth: int) -> bool:
    """Return whether a long free value is JSON as it would be read, at the speed of the decoder; `False` is a maybe."""
    if len(value) <= SCANNED_ONE_BY_ONE_MAX or not within_depth(value, DEPTH_MAX - depth - 1):
        return False
    try:
        text = msgspec.json.encode(value)
        return not has_long_number(text) and bool(decode_json(text) == value)
    except (TypeError, ValueError, RecursionError):
        return False


# Tuples, because a union is made anew for each value, which takes longer than to look at it.
_NUMBERS = (int, float, Decimal)
_CONTAINERS = (dict, list, tuple, set, frozenset, msgspec.Struct, Mapping)


def _scan(value: Any, free: bool, depth: int) -> list[Problem]:
    if value is None or value is True or value is False or value is msgspec.UNSET:
        return []
    if free and value.__class__ is dict and depth < DEPTH_MAX and _is_flat(value):
        return []
    if free and value.__class__ in (dict, list) and _is_plain_json(value, depth):
        return []
    if isinstance(value, str):
        problem = text_problem(value, free=free)
    elif isinstance(value, _NUMBERS):
        problem = _number_problem(value, free)
    elif isinstance(value, datetime):
        problem = instant_problem(value)
    # Only a struct that fails the one look is gone through part by part, to name the place.
    elif isinstance(value, msgspec.Struct) and is_within_bounds(value, depth):
        return []
    elif isinstance(value, _CONTAINERS):
        return _scan_parts(value, free, depth)
    else:
        problem = _json_problem(value)
    return [("", problem)] if problem else []


def _scan_parts(value: Any, free: bool, depth: int) -> list[Problem]:
    if depth >= DEPTH_MAX:
        return [("", f"is nested more than {DEPTH_MAX} levels deep")]
    found: list[Problem] = []
    for name, part, is_free in _parts(value, free):
        if below := _scan(part, is_free, depth + 1):
            shown = f"[{name}]" if isinstance(name, int) else name[:NAME_CHARS_MAX]
            found += [(join_path(shown, path), message) for path, message in below]
            if len(found) >= SCANNED_WRONG_MAX:
                break
    return found


NAME_CHARS_MAX = 100
"""Of a name that is shown in a path."""


def _parts(value: Any, free: bool) -> Iterator[tuple[str | int, Any, bool]]:
    """Yield the parts of a container, and the keys of a mapping as parts of their own."""
    if isinstance(value, msgspec.Struct):
        for name, shown, is_free in _doors(type(value)):
            if (part := getattr(value, name)) is not msgspec.UNSET:  # what is left out
                yield shown, part, is_free
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield str(name), part, free
            if not (isinstance(name, str) and name.isascii() and "\0" not in name):
                yield repr(name), name, free
    else:
        yield from ((place, part, free) for place, part in enumerate(value))


def _number_problem(value: float | Decimal, free: bool) -> str:
    if isinstance(value, int):
        most = NUMBER_MAX if free else INTEGER_MAX
        return "" if -most <= value <= most else f"must be a whole number of at most {'300 digits' if free else most}"
    if isinstance(value, float):
        return "" if isfinite(value) else "must be a finite number"
    if not value.is_finite() or abs(value) >= DECIMAL_MAX:
        return "must be a number below 10^15"
    return "" if int(value.as_tuple().exponent) >= -DECIMALS_MAX else f"must have at most {DECIMALS_MAX} decimals"


def _json_problem(value: Any) -> str:
    """Return why a value from Python is not JSON, if it is not."""
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        return f"is not JSON: {error}"
    return ""


_NOTHING: tuple[Any, ...] = (None, {}, (), [], msgspec.UNSET)


class _FieldsByLook(NamedTuple):
    """The fields of a struct by how they are looked at; those that can hold nothing wrong are left out."""

    texts: tuple[str, ...]
    lists_of_texts: tuple[str, ...]
    others: tuple[tuple[str, bool], ...]
    """Each with whether it holds free JSON."""


@cache
def _fields_by_look(kind: type[msgspec.Struct]) -> _FieldsByLook:
    texts, lists, others = [], [], []
    for field in msgspec.structs.fields(kind):
        bare, mode = present_type(field.type), _mode(field.type)
        if bare is str:
            texts.append(field.name)
        elif get_origin(bare) in (list, tuple) and {strip_annotations(part) for part in get_args(bare)} <= {str, ...}:
            lists.append(field.name)
        elif mode != "closed":
            others.append((field.name, mode == "free"))
    return _FieldsByLook(tuple(texts), tuple(lists), tuple(others))


@cache
def _doors(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, bool], ...]:
    """Return the fields to look at: name, name on the wire, and whether they hold free JSON."""
    modes = [(field, _mode(field.type)) for field in msgspec.structs.fields(kind)]
    return tuple((field.name, field.encode_name, mode == "free") for field, mode in modes if mode != "closed")


@cache
def _mode(kind: Any) -> Literal["closed", "free", "typed"]:
    """Return whether a type holds nothing to look at, free JSON, or texts, numbers and instants of its own."""
    kind, origin = strip_annotations(kind), get_origin(strip_annotations(kind))
    if kind in (bool, type(None)) or origin is Literal:
        return "closed"
    if kind in (Any, dict, list):
        return "free"
    if origin in (Union, types.UnionType):
        modes = {_mode(member) for member in get_args(kind)} - {"closed"}
        return "typed" if "typed" in modes else "free" if modes else "closed"
    if origin in (dict, list, tuple) and get_args(kind):
        return "free" if strip_annotations(get_args(kind)[0 if origin is not dict else 1]) is Any else "typed"
    return "typed"
