"""What the fields of structs are for, read from the docstrings that stand below them in the source."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec


def structs_in(kinds: Iterable[Any]) -> dict[str, type[msgspec.Struct]]:
    """Every struct that these types are made of, by name."""
    found: dict[str, type[msgspec.Struct]] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        origin = get_origin(kind)
        if origin is not None or isinstance(kind, types.UnionType):
            waiting += [part for part in get_args(kind) if part is not kind]
        if origin not in (None, Annotated, Union):
            waiting.append(origin)
        if _is_struct(kind) and kind.__name__ not in found:
            found[kind.__name__] = kind
            waiting += [field.type for field in msgspec.structs.fields(kind)]
    return found


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def fields_of(kind: type[msgspec.Struct]) -> dict[str, str]:
    """What is said below each field, the struct's own bases included; nothing where there is no source."""
    said: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        said |= _documented(base.__module__).get(base.__qualname__, {})
    return said


@cache
def _documented(module: str) -> dict[str, dict[str, str]]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, KeyError, TypeError):
        return {}
    return {node.name: dict(_said(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _said(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            yield field.target.id, inspect.cleandoc(below.value.value)
