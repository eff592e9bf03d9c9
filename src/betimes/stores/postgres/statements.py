"""The SQL of `queries.sql` and the files beside it as statements with numbered parameters.

The files are written for the schema `betimes`; another schema's name is put in its place, and the suffix of their set
after the names of functions and types (see `functions.py`). A line that ends in `--?` narrows a listing and is left out
when its parameter, or the value named after it, is not given. `@name` stands for the text of another statement: the
columns or conditions that several share.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from betimes.core.errors import Invalid
from betimes.stores.postgres.functions import FOLDER, qualify_names

FILES = ("queries.sql", "lists.sql", "shares.sql", "audit.sql", "read_model.sql")

Prepared: TypeAlias = tuple[str, list[Any]]
_HEAD = re.compile(r"^-- (\w+): .+\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_SHARED = re.compile(r"@(\w+)")
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}", re.ASCII)
_OPTIONAL = re.compile(r"--\?(?: (\w+))?$")
_QUOTES = re.compile(r"\$(q+)(?=\$)")
_NOTHING: frozenset[str] = frozenset()


def checked_schema(name: str) -> str:
    """The name of a schema, which goes into the SQL as it is."""
    if not _SCHEMA_NAME.fullmatch(name):
        raise Invalid(
            f"{name[:60]!r} is not a schema name betimes can use: 1–40 of a-z 0-9 _, not starting with a digit"
        )
    return name


@cache
def statements() -> Mapping[str, str]:
    """Every statement of the files by its name."""
    found: dict[str, str] = {}
    for file in FILES:
        _, *parts = _HEAD.split((FOLDER / file).read_text())
        found |= {name: body.strip().removesuffix(";") for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return {name: _SHARED.sub(lambda shared: found[shared[1]], body) for name, body in found.items()}


def prepare_statement(schema: str, name: str, values: Mapping[str, Any]) -> Prepared:
    """A statement and its arguments in order; lines for values that are `None` are left out where they may be."""
    absent = frozenset(key for key, value in values.items() if value is None) if _narrows(name) else _NOTHING
    sql, names = _number_values(schema, name, absent)
    return sql, [values[key] for key in names]


@cache
def _narrows(name: str) -> bool:
    """Return whether a statement has lines that may be left out."""
    return "--?" in statements()[name]


def script(schema: str, name: str, values: Mapping[str, Any]) -> str | None:
    """A statement with its arguments written out, which mean the same on every server; none for one with a NUL."""
    form, names = _form(schema, name)
    found = [values[name] for name in names]
    sql = form % tuple([f"'{v}'" if v.__class__ is str and _is_plain(v) else _literal(v) for v in found])
    return None if "\0" in sql else sql


@cache
def _form(schema: str, name: str) -> tuple[str, tuple[str, ...]]:
    """A statement with a place for each of its parameters, and their names."""
    # The text becomes a format, in which a percent sign of its own is doubled.
    first, *rest = _PARAMETER.split(qualify_names(schema, statements()[name]).replace("%", "%%"))
    return first + "".join(f"%s{text}" for text in rest[1::2]), tuple(rest[::2])


def _is_plain(text: str) -> bool:
    return "'" not in text and "\\" not in text


def _literal(value: Any) -> str:
    """A value as SQL. A backslash is escaped: whether it stands for itself is a setting that a server may change."""
    if isinstance(value, str):
        doubled = value.replace("\\", "\\\\").replace("'", "''")
        return f" E'{doubled}'" if "\\" in value else f"'{doubled}'"
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    return _array(value) if value else "'{}'"


def _array(rows: Sequence[tuple[Any, ...]]) -> str:
    """Composite values as one text that their type reads: to the parser a single word, whatever is in it."""
    text = ",".join([f'"({",".join(map(_field, row))})"' for row in rows])
    quote = _quote_for(text)
    return f"{quote}{{{text}}}{quote}"


def _quote_for(text: str) -> str:
    """A dollar quote that is not in the text: longer than the longest in it, which one look finds.

    Trying one after the other would cost a search for every quote that a payload contains.
    """
    longest = max(map(len, _QUOTES.findall(text)), default=0) if "$q" in text else 0
    return f"${'q' * (longest + 1)}$"


def _field(value: Any) -> str:
    """A value of a composite value in an array: escaped for the one and then for the other."""
    if value is None:
        return ""
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\\\\\").replace('"', '\\"\\"')
        return f'\\"{escaped}\\"'
    return str(value)


@cache
def _number_values(schema: str, name: str, absent: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"${numbers.setdefault(match[1], len(numbers) + 1)}"

    lines = [line for line in statements()[name].splitlines() if not _left_out(line, absent)]
    return _PARAMETER.sub(number, qualify_names(schema, "\n".join(lines))), tuple(numbers)


def _left_out(line: str, absent: frozenset[str]) -> bool:
    optional = _OPTIONAL.search(line)
    if not optional:
        return False
    return not absent.isdisjoint([optional[1]] if optional[1] else _PARAMETER.findall(line))
