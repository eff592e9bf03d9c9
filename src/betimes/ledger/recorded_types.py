"""The types of recorded commands and events, found in their texts."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from betimes.core.checks import Findings
from betimes.engine.codecs import Kinds
from betimes.ledger.known_names import spell_unknown


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


def check_types(
    kinds: Kinds, among: Collection[str], *, command_type: str | None = None, event_type: str | None = None
) -> None:
    """Raise `Invalid` that names every type which nothing recorded of these kinds of streams can have."""
    found, known = Findings(), [kinds.by_name[kind].recorded_types for kind in among]
    for place, (name, wanted) in enumerate((("command_type", command_type), ("event_type", event_type))):
        types = sorted({one for types in known for one in types[place]})
        if wanted is not None and wanted not in types:
            found.add(f"query.{name}", spell_unknown(name.replace("_", " "), wanted, tuple(types)))
    if found.total:
        raise found.refusal("parameter")
