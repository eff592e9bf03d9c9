"""Documentation of struct fields, read from the docstrings that stand below them in the source."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache

import msgspec


def fields_of(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstring below each field of a struct and its bases; nothing where there is no source."""
    said: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        base = vars(base).get("fields_from", base)
        said |= _document_fields(base.__module__).get(base.__qualname__, {})
    return said


@cache
def _document_fields(module: str) -> dict[str, dict[str, str]]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, KeyError, TypeError):
        return {}
    return {node.name: dict(_docstrings_of(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docstrings_of(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            yield field.target.id, inspect.cleandoc(below.value.value)
