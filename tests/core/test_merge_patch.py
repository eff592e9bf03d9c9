"""One merge patch for the whole package, as RFC 7396 has it."""

import ast
from pathlib import Path
from typing import Any

import pytest

import betimes
from betimes.core.merge_patch import apply_merge_patch

# the examples of RFC 7396, appendix A, whose patch is an object
EXAMPLES: tuple[tuple[Any, dict[str, Any], dict[str, Any]], ...] = (
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
)


@pytest.mark.parametrize(("target", "patch", "result"), EXAMPLES)
def test_the_examples_of_the_standard_hold(target: Any, patch: dict[str, Any], result: dict[str, Any]) -> None:
    assert apply_merge_patch(target, patch) == result


def test_what_is_patched_stays_as_it_is() -> None:
    target = {"a": {"b": 1}}
    assert apply_merge_patch(target, {"a": {"b": None}}) == {"a": {}}
    assert target == {"a": {"b": 1}}


def test_nothing_else_in_the_package_removes_what_a_patch_says_is_null() -> None:
    """A second implementation would call itself and pop a field."""
    found = [
        f"{path.name}:{function.name}"
        for path in Path(betimes.__file__).parent.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef) and _pops(function) and _calls(function, function.name)
    ]
    assert found == ["merge_patch.py:apply_merge_patch"]


def _pops(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "pop" for node in ast.walk(function))


def _calls(function: ast.FunctionDef, name: str) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
        for node in ast.walk(function)
    )
