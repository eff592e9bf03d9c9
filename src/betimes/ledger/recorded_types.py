"""The types of recorded commands and events, found in their texts."""

from __future__ import annotations

import msgspec


class _Tag(msgspec.Struct):
    type: str


_tags = msgspec.json.Decoder(_Tag | list[_Tag])


def has_type(text: str | None, wanted: str | None) -> bool:
    """Return whether a command or one of some events has this type, if one is wanted; what cannot be read has none.

    The text is searched first, so that few have to be decoded.
    """
    if wanted is None:
        return True
    if text is None or wanted not in text:
        return False
    try:
        found = _tags.decode(text)
    except msgspec.MsgspecError:
        return False
    return wanted in {tag.type for tag in (found if isinstance(found, list) else [found])}
