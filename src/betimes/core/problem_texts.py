"""Texts of problems in the terms of JSON: msgspec's messages name types of Python and its own terms.

msgspec gives its errors no codes, so they are told apart by their messages. One that is not known here is
passed on unchanged.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from betimes.core.bounds import NAME_CHARS_MAX, join_path
from betimes.core.type_hints import is_struct, plain_type, strip_annotations

_NAMES = {
    "array": "an array",
    "bool": "true or false",
    "bytes": "a string in base 64",
    "date": "a date, such as 2026-01-05",
    "datetime": "an instant, such as 2026-01-05T09:00:00Z",
    "decimal": "a decimal number",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "an object",
    "str": "a string",
}
_SENT = _NAMES | {"bool": "a boolean", "datetime": "an instant", "date": "a date", "float": "a number with a fraction"}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_UNITS = {"str": "character", "array": "item", "object": "entry", "bytes": "byte"}
_PLACED = re.compile(r"(?P<text>.*?)(?: - at (?P<of_key>`key` in )?`\$\.?(?P<below>[^`]*)`)?", re.DOTALL)
_NO_FIELD = re.compile(r"Object missing required field `(?P<name>[^`]+)`")


def describe_problem(message: str, kind: Any) -> tuple[str, str]:
    """Return what msgspec says of a value that should be of this type: the path below the value, and the problem."""
    placed = _PLACED.fullmatch(message)
    assert placed is not None  # it matches any text
    text, below = placed["text"], placed["below"] or ""
    if missing := _NO_FIELD.fullmatch(text):
        choices = "" if below else join_choices(_choices(kind))
        return join_path(below, missing["name"]), f"is required: {choices}" if choices else "is required"
    said = next((say(found, kind) for pattern, say in _DESCRIPTIONS if (found := re.fullmatch(pattern, text))), text)
    return below, f"a key in it {said}" if placed["of_key"] else said


def _wrong_type(found: re.Match[str], _: Any) -> str:
    wanted = [_NAMES.get(name, name) for name in found["wanted"].split(" | ")]
    return f"must be {join_choices(wanted)}, not {_SENT.get(found['sent'], found['sent'])}"


def _out_of_bounds(found: re.Match[str], _: Any) -> str:
    return f"must be {_BOUNDS[found['sign']]} {found['bound'].removesuffix('.0')}"


def _wrong_length(found: re.Match[str], _: Any) -> str:
    sign, count = found["sign"], int(found["count"])
    if sign == ">=" and count == 1:
        return "must not be empty"
    unit = _UNITS.get(found["type"], "item")
    many = unit if count == 1 else "entries" if unit == "entry" else f"{unit}s"
    return f"must have {_BOUNDS.get(sign, 'exactly')} {count:,} {many}"


def _wrong_pattern(found: re.Match[str], kind: Any) -> str:
    words = next(_pattern_words(kind, found["pattern"]), "")
    return f"must be {words}" if words else f"must match {found['pattern']}"


def _pattern_words(kind: Any, pattern: str) -> Iterator[str]:
    """Yield how a pattern is described in words, wherever in the type it stands."""
    for meta in getattr(kind, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.pattern and meta.description and repr(meta.pattern) == pattern:
            yield meta.description
    for part in get_args(kind):
        yield from _pattern_words(part, pattern)


def _no_choice(found: re.Match[str], kind: Any) -> str:
    """Name the choices of a literal or the tags of a union, and the one that is meant if only its case is wrong."""
    choices, sent = _choices(kind), found["sent"]
    if not choices:
        return found[0]
    # Whoever sends a megabyte means none of them, and folding it costs as much as all the rest of the request.
    folded = sent.casefold() if len(sent) <= NAME_CHARS_MAX else None
    meant = next((one for one in choices if f"'{one}'".casefold() == folded), None)
    hint = f"did you mean {meant}? It " if meant else ""
    return f"{hint}must be {join_choices(choices)}, not {sent}"


def _choices(kind: Any) -> list[str]:
    plain = plain_type(kind, None)
    if get_origin(plain) is Literal:
        return [str(choice) for choice in get_args(plain)]
    members = get_args(plain) if get_origin(plain) in (Union, types.UnionType) else (plain,)
    structs = [member for member in map(strip_annotations, members) if is_struct(member)]
    return [str(member.__struct_config__.tag) for member in structs if member.__struct_config__.tag is not None]


def join_choices(words: Sequence[str]) -> str:
    """Return `a, b or c`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _say(text: str) -> Callable[[re.Match[str], Any], str]:
    return lambda found, kind: text


# Compiled when the first problem is described: most processes never meet one.
_DESCRIPTIONS: tuple[tuple[str, Callable[[re.Match[str], Any], str]], ...] = (
    (r"Expected `datetime` with a timezone component", _say(f"has no offset; send {_NAMES['datetime']}")),
    (r"Expected `(?P<wanted>[^`]+)`, got `(?P<sent>[^`]+)`", _wrong_type),
    (r"Expected `\w+` (?P<sign>[<>]=?) (?P<bound>\S+)", _out_of_bounds),
    (r"Expected `(?P<type>\w+)` of length (?P<sign>[<>]=|) ?(?P<count>\d+)(, got \d+)?", _wrong_length),
    (r"Expected `\w+` that's (?P<what>a multiple of \S+)", lambda found, _: f"must be {found['what']}"),
    (r"(?s)Expected `str` matching regex (?P<pattern>.+)", _wrong_pattern),
    (r"(?s)Invalid (enum )?value (?P<sent>.+)", _no_choice),
    (
        r"(?s)Object contains unknown field `(?P<name>.*)`",
        lambda found, _: f"no such field: {found['name']}",
    ),
    (r"Invalid RFC3339 encoded datetime", _say(f"must be {_NAMES['datetime']}")),
    (r"Invalid RFC3339 encoded date", _say(f"must be {_NAMES['date']}")),
    (r"Invalid decimal string", _say("must be a decimal number, such as 0.65")),
    (r"Invalid base64 encoded string", _say(f"must be {_NAMES['bytes']}")),
)
