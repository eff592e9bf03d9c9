"""Where in a TOML document each setting stands, so that an error is shown at its line.

Tables, arrays of tables and keys at the beginning of a line are found; of a setting inside an inline table or a list,
the line that it begins on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

_TABLE = re.compile(r"\[(?P<array>\[)?(?P<name>[^\]#]+)\]")
_NAME = r"(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')"
_KEY = re.compile(rf"^\s*(?P<name>{_NAME}(?:\s*\.\s*{_NAME})*)\s*=")
_PART = re.compile(r"\"([^\"]*)\"|'([^']*)'|([A-Za-z0-9_-]+)")


def line_numbers(text: str) -> dict[str, int]:
    """Return the line of every table and key by its path, as errors spell it; the first line is 1."""
    lines: dict[str, int] = {}
    counts: Counter[str] = Counter()
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _TABLE.match(line.lstrip()):
            table = _path(found["name"])
            if found["array"]:
                counts[table] += 1
            place = counts[table] - 1
            table = f"{table}[{place}]" if found["array"] else table
            lines.setdefault(table, number)
        elif found := _KEY.match(line):
            lines.setdefault(f"{table}.{_path(found['name'])}".strip("."), number)
    return lines


def _path(name: str) -> str:
    return ".".join(next(filter(None, parts), "") for parts in _PART.findall(name))


def line_at(lines: Mapping[str, int], path: str) -> int | None:
    """Return the line of a path, or of the nearest thing around it that has one."""
    while path:
        if path in lines:
            return lines[path]
        cut = max(path.rfind("."), path.rfind("["))
        path = path[:cut] if cut > 0 else ""
    return None
