"""Answers that need no command: `betimes --version` and `betimes --help`, without loading what commands need.

`help.txt` is what `betimes.cli.main` prints for a terminal of 80 columns. `make reference` writes it, and a test holds
the two together.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

HELP = os.path.join(os.path.dirname(__file__), "help.txt")  # pathlib takes long to load
COLUMNS = 80


def answer_at_once(words: Sequence[str]) -> str | None:
    """Return the answer to a command line that no command is needed for; raise `ImportError` if none could be run."""
    if find_spec("cyclopts") is None:
        raise ModuleNotFoundError("the command line needs cyclopts", name="cyclopts")
    if list(words) == ["--version"]:
        from importlib.metadata import version

        return version("betimes") + "\n"
    if list(words) in ([], ["--help"], ["-h"]) and _can_show_help():
        with open(HELP, encoding="utf-8") as file:
            return file.read()
    return None


def _can_show_help() -> bool:
    """Return whether the stored text fits: its lines are drawn, and as wide as they are."""
    try:
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns or COLUMNS)
    except (OSError, ValueError):
        columns = COLUMNS
    return columns >= COLUMNS and sys.stdout.encoding.lower() in ("utf-8", "utf8")
