"""Settings of a policy by dotted path: the value one holds, what it may hold, and a body with another in its place.

An entry of a list is addressed by its `name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

SHARE_STEP = Decimal("0.01")
"""Between two values of a setting that is no whole number."""


class SettingRange(NamedTuple):
    """The values of a setting: a range of numbers, or a few choices."""

    low: Decimal | None = None
    high: Decimal | None = None
    choices: tuple[Any, ...] = ()
    is_whole: bool = True


def expand_path(path: str, names: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the paths that one with names in braces stands for in a case that gives the names; none without them."""
    for name, values in names.items():
        if f"{{{name}}}" in path:
            filled = (path.replace(f"{{{name}}}", value) for value in values)
            return [one for part in filled for one in expand_path(part, names)]
    return [] if "{" in path else [path]


def find_setting(body: Any, path: str) -> Any:
    """Return the value at a path; raise `KeyError` if there is none."""
    for name in path.split("."):
        body = _entry(body, name)
    return body


def _entry(body: Any, name: str) -> Any:
    if isinstance(body, list):
        return next((one for one in body if isinstance(one, dict) and str(one.get("name")) == name), None)
    if not isinstance(body, dict) or name not in body:
        raise KeyError(name)
    return body[name]


def with_settings(body: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a body with other values at these paths; a tuple is added to the list that is there."""
    # A deep copy in plain lists and objects, whatever structs and tuples the body is made of.
    changed: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(body))
    for path, value in changes.items():
        parent_path, _, name = path.rpartition(".")
        parent = find_setting(changed, parent_path)
        if not isinstance(parent, dict):
            raise KeyError(path)
        parent[name] = [*parent.get(name, ()), *value] if isinstance(value, tuple) else value
    return changed


def range_of(section: type[msgspec.Struct], path: str) -> SettingRange | None:
    """Return what may stand at a path within a section; `None` where no other value can be thought of."""
    found: Any = inspect.type_info(section)
    for name in path.split("."):
        found = _part(found, name)
        if found is None:
            return None
    match _given(found):
        case inspect.IntType(ge=ge, le=le):
            return SettingRange(Decimal(ge or 0), None if le is None else Decimal(le))
        case inspect.DecimalType() | inspect.FloatType():
            return SettingRange(Decimal(0), is_whole=False)
        case inspect.BoolType():
            return SettingRange(choices=(False, True))
        case inspect.LiteralType(values=values):
            return SettingRange(choices=tuple(values))
        case _:
            return None


def _part(info: Any, name: str) -> Any:
    match _given(info):
        case inspect.StructType(fields=fields):
            return next((field.type for field in fields if field.encode_name == name), None)
        case inspect.DictType(value_type=value):
            return value
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return item
        case _:
            return None


def _given(info: Any) -> Any:
    """Return the type of a value that is there, of one that may be left out."""
    match info:
        case inspect.Metadata(type=inner):
            return _given(inner)
        case inspect.UnionType(types=types):
            kept = [one for one in types if not isinstance(one, inspect.NoneType)]
            return _given(kept[0]) if len(kept) == 1 else info
        case _:
            return info
