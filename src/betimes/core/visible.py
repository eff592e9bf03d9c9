"""Text from anywhere, made safe to show on a terminal or in a log.

Control characters can move a cursor, change colours or forge a line; marks of direction can show a text in another
order than it has. Neither is sent on: each is shown by its number, as in Python and JSON. Letters, accents, joiners and
emoji stay as they are.
"""

from __future__ import annotations

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_LINE_ENDS = (0x2028, 0x2029)
_HALVES = range(0xD800, 0xE000)
"""Halves of characters, which no stream of UTF-8 takes."""
_SHORT = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
_SHOWN = {
    code: _SHORT.get(code) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
    for code in (*_CONTROLS, *_DIRECTIONS, *_LINE_ENDS, *_HALVES)
}
# Below a space there is only the layout: inside strings JSON has escaped those already.
_SHOWN_IN_JSON = {code: f"\\u{code:04x}" for code in _SHOWN if code >= 0x20}


def visible(data: str) -> str:
    """Return one line in which everything that is no plain text is shown by its number."""
    return data.translate(_SHOWN)


def visible_json(document: str) -> str:
    """Return the same JSON, with the same inside the strings written as escapes; its layout stays."""
    return document.translate(_SHOWN_IN_JSON)
