"""Checking what comes from outside against a type, and naming everything that is wrong with it.

msgspec stops at the first problem; people who fix a request or a policy want them all. `checked` converts, and only
when that fails looks again, field by field, item by item. Paths are dotted: `items[3].title`.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from betimes.core.errors import Invalid

T = TypeVar("T")
Problem = tuple[str, str]
DEPTH_MAX = 32
"""How deep JSON from outside may be nested."""


def checked(value: Any, kind: type[T], path: str = "") -> T:
    """The value as that type, or `Invalid` with every problem found in it."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, ValueError, Invalid):
        raise refusal("field", problems(path, value, kind)) from None


def refusal(what: str, found: Sequence[Problem]) -> Invalid:
    """`Invalid` that says how many of them are wrong, and what is wrong with each."""
    count = f"{len(found)} {what}s are" if len(found) > 1 else f"1 {what} is"
    listed = "; ".join(f"{name or 'the body'}: {message}" for name, message in found)
    return Invalid(f"{count} wrong: {listed}", tuple(found))


def within_depth(value: Any, levels: int) -> bool:
    """Whether JSON values are nested at most so deep: what is deeper may be read and not be written again."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            part for whole in layer if isinstance(whole, dict | list)
            for part in (whole.values() if isinstance(whole, dict) else whole)
        ]  # fmt: skip
        if not layer:
            return True
    return False


def problems(path: str, value: Any, kind: Any) -> list[Problem]:
    """Every problem at or below the path; those of parts come instead of the whole's."""
    below = [
        problem for place, part, part_kind in _parts(path, value, kind) for problem in problems(place, part, part_kind)
    ]
    below += _misfits(path, value, kind)
    if below:
        return below
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, ValueError, Invalid) as error:
        return [_located(path, str(error), _plain(kind, value))]
    return []


def _parts(path: str, value: Any, kind: Any) -> Iterator[tuple[str, Any, Any]]:
    """The value's parts that have types of their own, each with its path."""
    kind = _plain(kind, value)
    if isinstance(value, Mapping):
        if _is_struct(kind):
            fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
            yield from ((_dotted(path, name), value[name], fields[name]) for name in fields if name in value)
        elif get_origin(kind) is dict:
            yield from ((_dotted(path, str(name)), item, get_args(kind)[1]) for name, item in value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str) and get_origin(kind) in (list, tuple):
        yield from ((f"{path}[{place}]", item, get_args(kind)[0]) for place, item in enumerate(value))


def _misfits(path: str, value: Any, kind: Any) -> list[Problem]:
    """Fields that are not there and should be, or are and should not."""
    kind = _plain(kind, value)
    if not isinstance(value, Mapping) or not _is_struct(kind):
        return []
    fields = msgspec.structs.fields(kind)
    missing = [(_dotted(path, field.encode_name), "is required") for field in fields
               if field.required and field.encode_name not in value]  # fmt: skip
    if not kind.__struct_config__.forbid_unknown_fields:
        return missing
    known = {field.encode_name for field in fields} | {kind.__struct_config__.tag_field}
    return missing + [(_dotted(path, str(name)), "no such setting") for name in sorted(map(str, value.keys() - known))]


def _plain(kind: Any, value: Any) -> Any:
    """The type without its annotations; of a union, the one member that the value can only be meant as."""
    kind = _unannotated(kind)
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    members = [_plain(member, value) for member in get_args(kind) if member is not type(None)]
    if len(members) == 1:
        return members[0]
    meant = [member for member in members if _is_struct(member) and _tagged(member, value)]
    return meant[0] if len(meant) == 1 else kind


def _unannotated(kind: Any) -> Any:
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return kind


def _tagged(kind: Any, value: Any) -> bool:
    config = kind.__struct_config__
    return config.tag is not None and isinstance(value, Mapping) and value.get(config.tag_field) == config.tag


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _dotted(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _located(path: str, message: str, kind: Any) -> Problem:
    """msgspec puts the path at the end (` - at `$.caps.hour``); it belongs in front.

    A struct that refuses one of its own fields says so by beginning with its name: `payload: at most 64 KiB`.
    """
    text, _, below = message.partition(" - at `$")
    below = below.rstrip("`")
    name, colon, rest = text.partition(": ")
    if colon and not below and _is_struct(kind) and name in kind.__struct_fields__:
        return _dotted(path, name), rest
    return (path + below if path else below.removeprefix(".")), with_choices(text, kind)


def with_choices(message: str, kind: Any) -> str:
    """What msgspec says, and what may be chosen from if it says that something else was."""
    plain = _plain(kind, None)
    if message.startswith("Invalid enum value") and get_origin(plain) is Literal:
        return f"{message}; one of {', '.join(map(str, get_args(plain)))}"
    if message.startswith("Invalid value") and get_origin(plain) in (Union, types.UnionType):
        tags = [member.__struct_config__.tag for member in map(_unannotated, get_args(plain)) if _is_struct(member)]
        return f"{message}; one of {', '.join(map(str, tags))}"
    return message
