"""Every example runs, and the README shows what it really prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def printed_by(example: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / example)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_kernel_example_prints_what_the_readme_shows() -> None:
    printed = printed_by("kernel.py")
    readme = (ROOT / "README.md").read_text()
    block = readme.split("once in two hours:\n\n")[1].split("\n\nThe rule is")[0]
    for line in block.splitlines():
        assert line.removeprefix("    ") in printed, line
    assert "demo/person/ann at version 3: its digest does not fit its content" in printed


def test_every_example_is_tested() -> None:
    assert [path.name for path in (ROOT / "examples").glob("*.py")] == ["kernel.py"]
