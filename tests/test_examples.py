"""Every example runs, and the README shows what it really prints."""

from __future__ import annotations

import ast
import asyncio
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.patience import HANGS_S

ROOT = Path(__file__).parent.parent


def printed_by(example: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / example)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANGS_S).stdout


def shown_lines(page: str, before: str) -> list[str]:
    """Return the lines of the block that follows these words on a page."""
    block = (ROOT / page).read_text().split(f"{before}\n\n")[1].split("\n\n")[0]
    return [line.removeprefix("    ") for line in block.splitlines()]


def test_the_kernel_example_prints_what_the_readme_shows() -> None:
    printed = printed_by("kernel.py")
    for line in shown_lines("README.md", "once in two hours:"):
        assert line in printed, line
    assert "demo/person/ann at version 3: its digest does not match its content" in printed


PAGES = {
    example: f"[`examples/{example}.py`](../examples/{example}.py) prints:"
    for example in ("runs", "intents", "automation", "scores", "channels")
} | {"notifications": "It prints:"}


@pytest.mark.parametrize("example", PAGES)
def test_a_page_shows_what_its_example_prints(example: str) -> None:
    page = "effects" if example == "channels" else example
    assert printed_by(f"{example}.py").splitlines() == shown_lines(f"docs/{page}.md", PAGES[example])


def test_every_example_is_shown_on_a_page() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == PAGES.keys() | {"kernel"}


def python_in(page: str, containing: str) -> str:
    """The one block of Python on the page that contains the text."""
    blocks = [part.split("```")[0] for part in (ROOT / page).read_text().split("```python\n")[1:]]
    [block] = [block for block in blocks if containing in block]
    return block


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the example defines and imports."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    return dict(vars(importlib.import_module("kernel")))


def test_the_readmes_program_runs_on_the_examples_rule(
    kernel: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = kernel | {"uuid4": uuid4}
    exec(python_in("README.md", "async def main"), names)
    asyncio.run(names["main"]())
    assert "Verdict(answer='NOW', reasons=('CLEAR',)" in capsys.readouterr().out


def test_the_scenario_in_the_docs_passes(kernel: dict[str, Any]) -> None:
    exec(python_in("docs/deciders.md", "given("), kernel)


def test_one_of_two_equal_nudges_stays_when_the_other_is_sent(kernel: dict[str, Any]) -> None:
    waiting = ((1, "stretch"), (2, "drink"), (3, "stretch"))
    sent = kernel["fold"](kernel["Person"](waiting=waiting), kernel["Sent"]("stretch", 1))
    assert sent.waiting == ((2, "drink"), (3, "stretch"))


@pytest.mark.parametrize("example", sorted(path.name for path in (ROOT / "examples").glob("*.py")))
def test_an_example_imports_only_what_is_public(example: str) -> None:
    for node in ast.walk(ast.parse((ROOT / "examples" / example).read_text())):
        if isinstance(node, ast.ImportFrom) and (module := node.module or "").startswith("betimes"):
            assert module == "betimes" or module.startswith(("betimes.stores.", "betimes.testing.")), module
