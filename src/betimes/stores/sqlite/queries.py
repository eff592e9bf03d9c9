"""The SQL of this adapter by name, read once from the `.sql` files in `queries/`.

A query opens with `-- name: what it does`. Three marks, all of them plain SQL to any other reader:

- A line that ends in `--? name` belongs to the query only when a parameter of that name is given.
- `/* rows */ (?, ?)` stands for as many such rows as there are to bind; `?1` and so on are bound once, before them.
- `@name` stands for the text of another query.

Lists of rows are bound whole and come back as one JSON array, because the connection gives up Python's interpreter
lock at every step: with the event loop busy, each row of its own would cost the loop's turn of 5 ms. Statements that
write many rows say `OR ROLLBACK` or `OR IGNORE`: any failure ends the whole transaction, and SQLite need not keep a
copy of every page to undo one statement. New streams are kept a copy of all the same, because a function in a generated
column may fail; the writer keeps it in memory, where it costs no system calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

ROWS_MAX = 256
"""Rows bound at once: the largest statement that is kept prepared."""
ALIKE_ROWS_MAX = 512
"""The same for rows of few columns, the others being shared."""

_FOLDER = Path(__file__).with_name("queries")
_OPENING = re.compile(r"^-- (\w+): .+\n", re.MULTILINE)
_OPTIONAL = re.compile(r"^(.*) --\? (\w+)$", re.MULTILINE)
_ROWS = re.compile(r"/\* rows \*/ (\([?, ]+\))")


def _read(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("*.sql")):
        _, *parts = _OPENING.split(path.read_text("utf-8"))
        yield from zip(parts[::2], (body.strip().removesuffix(";") for body in parts[1::2]), strict=True)


_TEXTS = dict(_read(_FOLDER))


@cache
def query(name: str, given: frozenset[str] = frozenset()) -> str:
    """The text of a query, with the optional lines of the parameters that are given."""
    text = re.sub(r"@(\w+)", lambda found: _TEXTS[found[1]], _TEXTS[name])
    return _OPTIONAL.sub(lambda line: line[1] if line[2] in given else "", text)


@cache
def query_for(name: str, count: int) -> str:
    """The text of a query that binds so many rows, kept short: apsw forgets statements of more than 16 KiB."""
    return _ROWS.sub(lambda found: ",".join([found[1].replace(" ", "")] * count), query(name))


@lru_cache(maxsize=1_024)
def chunks(count: int, rows_max: int = ROWS_MAX) -> tuple[tuple[int, int], ...]:
    """Cut rows into powers of two, largest first, so that few statements serve every batch: (start, size)."""
    found, start, size = list[tuple[int, int]](), 0, rows_max
    while start < count:
        while size > count - start:
            size //= 2
        found.append((start, size))
        start += size
    return tuple(found)
