"""Writes `docs/reference.md` from the code: `python docs/build_reference.py`. A test holds the page to it."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from betimes import engine
from betimes.core import errors
from betimes.core.errors import STATUS, BetimesError
from betimes.engine.pruning import Retention
from betimes.engine.settings import EngineSettings

sys.path.insert(0, str(Path(__file__).parent.parent))
from docs.reference_domains import domains, field_notes, routes

PAGE = Path(__file__).with_name("reference.md")
ENGINE = Path(inspect.getfile(engine)).parent


def reference() -> str:
    """The whole page."""
    return "\n".join(
        [
            "# Reference",
            "",
            "Generated from the code by `python docs/build_reference.py`.",
            "",
            "## Engine settings",
            "",
            "`Engine(…, settings=EngineSettings(batch_max=512))`. Every bound has a name; its unit comes last.",
            "",
            *settings_table(EngineSettings),
            "",
            "## Retention",
            "",
            *settings_table(Retention),
            "",
            "## Errors",
            "",
            "Every error is a `BetimesError` with a stable code.",
            "",
            *error_table(),
            "",
            "## Reports",
            "",
            "Errors in the background are reported to `Engine(…, report=…)`, by default as log lines.",
            "",
            *(f"- `{word}`" for word in sorted(report_words())),
            *domains(),
            *routes(),
            "",
        ]
    )


def settings_table(kind: type[Any]) -> Iterator[str]:
    yield "| setting | default | |"
    yield "|---|---|---|"
    notes = field_notes(kind)
    defaults = dict(
        zip(kind.__struct_fields__[-len(kind.__struct_defaults__) :], kind.__struct_defaults__, strict=True)
    )
    for field in kind.__struct_fields__:
        yield f"| `{field}` | {defaults[field]!r} | {notes.get(field, '')} |"


def error_table() -> Iterator[str]:
    yield "| code | class | HTTP | exit | |"
    yield "|---|---|---|---|---|"
    for name, kind in sorted(vars(errors).items()):
        if isinstance(kind, type) and issubclass(kind, BetimesError) and kind not in (BetimesError, errors.StoreError):
            status, exit_code = STATUS[kind.code]
            yield f"| `{kind.code}` | `{name}` | {status} | {exit_code} | {inspect.getdoc(kind)} |"


def report_words() -> set[str]:
    """The first argument of every `Report(…)` in the engine."""
    trees = (ast.parse(path.read_text()) for path in ENGINE.glob("*.py"))
    return {word for tree in trees for word in words_below(tree, {})}


def words_below(node: ast.AST, known: dict[str, list[str]]) -> Iterator[str]:
    """The words at or below a node; `known` is what each name may be there, by the `if name in (…)` around it."""
    if isinstance(node, ast.If):
        known = known | membership(node.test)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Report":
        yield from spelt(node.args[0], known)
    for below in ast.iter_child_nodes(node):
        yield from words_below(below, known)


def membership(test: ast.expr) -> dict[str, list[str]]:
    match test:
        case ast.Compare(left=ast.Name(name), ops=[ast.In()], comparators=[ast.Tuple(values)]):
            return {name: [str(ast.literal_eval(value)) for value in values]}
        case _:
            return {}


def spelt(word: ast.expr, known: dict[str, list[str]]) -> list[str]:
    """Everything the expression may be; one that cannot be told is shown as it is written."""
    match word:
        case ast.Constant(value):
            return [str(value)]
        case ast.FormattedValue(ast.Name(name)) if name in known:
            return known[name]
        case ast.JoinedStr(parts):
            return ["".join(spelling) for spelling in product(*(spelt(part, known) for part in parts))]
        case _:
            return [ast.unparse(word)]


if __name__ == "__main__":
    PAGE.write_text(reference())
