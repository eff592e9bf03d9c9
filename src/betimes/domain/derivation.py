"""Structs derived from other structs by the names of their fields: views from models, definitions from requests.

A field is said once in each struct and copied nowhere: its value comes from the first source that has the name, and is
rendered as the type of the field asks. So a new field of a definition reaches its view by being declared there.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from betimes.core.datetimes import instant, moment

Derived = TypeVar("Derived", bound=msgspec.Struct)
Render = Callable[[Any], Any]


def derive(kind: type[Derived], *sources: object, **given: Any) -> Derived:
    """Return a struct whose fields are those given, else those of the first source that has them, else defaults.

    - An instant is rendered as a datetime where the type is one, and a datetime as an instant.
    - A struct is derived as the struct that the type names.
    - Nothing said is `UNSET` where the type allows that. Unset or empty text is `None` where the type allows that, and
      an unset tuple is empty.
    """
    fields: dict[str, Any] = {}
    for name, render in _renderers(kind).items():
        if name in given:
            fields[name] = render(given[name])
            continue
        for source in sources:
            if hasattr(source, name):
                fields[name] = render(getattr(source, name))
                break
    return kind(**fields)


@cache
def _renderers(kind: type[msgspec.Struct]) -> dict[str, Render]:
    hints = get_type_hints(kind)
    return {name: _renderer(hints[name]) for name in kind.__struct_fields__}


def _renderer(hint: Any) -> Render:
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    structs = tuple(option for option in options if isinstance(option, type) and issubclass(option, msgspec.Struct))

    def render(value: Any) -> Any:
        if UnsetType in options and not value:
            return UNSET
        if type(None) in options and (value is UNSET or value == ""):
            return None
        if value is UNSET:
            return ()
        if datetime in options and isinstance(value, int):
            return moment(value)
        if int in options and isinstance(value, datetime):
            return instant(value)
        if structs and isinstance(value, msgspec.Struct) and not isinstance(value, structs):
            return derive(structs[0], value)
        return value

    return render
