"""Every acceptance criterion of the description of decay has a test whose docstring names it."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.crash.fleet import ROOT

STORIES = {1: 3, 2: 1, 3: 2, 4: 3, 5: 1, 6: 3, 7: 1, 8: 1, 9: 3}
TASKS = {1: 3, 2: 5, 3: 4, 4: 4, 5: 5, 6: 4, 7: 4, 8: 5, 9: 6}
CRITERIA = [
    *(f"AC-FR{story:03}-{number:03}" for story, count in STORIES.items() for number in range(1, count + 1)),
    *(f"AC-T{task}.{number}" for task, count in TASKS.items() for number in range(1, count + 1)),
]


def test_every_criterion_has_a_test_that_names_it() -> None:
    named: dict[str, list[str]] = defaultdict(list)
    for path in [*(ROOT / "tests" / "scores").glob("test_*.py"), ROOT / "tests" / "http" / "test_scores.py"]:
        for test, docstring in _tests(path):
            for word in docstring.replace(",", " ").replace(":", " ").split():
                named[word].append(test)
    for criterion in CRITERIA:
        print(criterion, *named[criterion])
    assert [criterion for criterion in CRITERIA if not named[criterion]] == []


def _tests(path: Path) -> list[tuple[str, str]]:
    """The tests of a file and their docstrings."""
    found = [
        node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [(node.name, ast.get_docstring(node) or "") for node in found if node.name.startswith("test_")]
