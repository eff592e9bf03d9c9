"""Structs whose text depends on their value alone.

msgspec leaves a field out when its value *is* the default, not when it equals it. A text read back from the ledger is
equal to a default and another object, so the state folded live and the same state folded again would be spelt
differently, and `verify` would call a sound ledger unsound. Such a state is refused before anything is written.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

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
