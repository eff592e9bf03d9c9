"""Documentation of struct fields, from the docstrings below them in the source, and of parameters of functions."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec

_PARAMETERS = "Parameters\n----------\n"
_PARAMETER = re.compile(r"^(\w+)((?:\n {4}.*)+)", re.MULTILINE)


def fields_of(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstring below each field of a struct and its bases; nothing where there is no source."""
    said: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        said |= document_parameters(vars(base).get("parameters_of"))
        said |= fields_of(vars(base)["fields_from"]) if "fields_from" in vars(base) else {}
        said |= _document_fields(base.__module__).get(base.__qualname__, {})
    return said


def describe_function(function: Callable[..., Any]) -> str:
    """Return what the docstring of a function says after its first paragraph, on one line."""
    said, _, _ = (inspect.getdoc(function) or "").partition(_PARAMETERS)
    return " ".join(said.partition("\n\n")[2].split())


def document_parameters(function: Callable[..., Any] | None) -> dict[str, str]:
    """Return what the docstring of a function says of each parameter, below `Parameters`."""
    _, _, listed = (inspect.getdoc(function) or "").partition(_PARAMETERS)
    return {name: inspect.cleandoc(text) for name, text in _PARAMETER.findall(listed)}


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
