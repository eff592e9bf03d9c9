"""Names that people choose, as every domain accepts them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from betimes.core.streams import ID_CHARS_MAX

# Patterns end in `\Z`, because `$` also matches before a line end; and without `*`, which is the deployment's own
# name.
Id = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=ID_CHARS_MAX,
        pattern=r"^[A-Za-z0-9_+][A-Za-z0-9._~:@+|=-]*\Z",
        description="of letters, digits and the characters . _ ~ : @ + | = -, beginning with a letter, a digit, _ or +",
    ),
]
HandlerName = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\Z",
        description="of letters, digits and the characters . _ -, beginning with none of . and -",
    ),
]
Url = Annotated[
    str,
    msgspec.Meta(
        min_length=8,
        max_length=2_000,
        pattern=r"^https?://",
        description="an address that begins with http:// or https://",
    ),
]


def spell_name(named: Any) -> str:
    """Return a text or number as it is, and of anything else where it is defined: a repr may have a memory address."""
    if named is None or isinstance(named, str | int | float):
        return str(named)
    definition = named if hasattr(named, "__qualname__") else type(named)
    return f"{definition.__module__}.{definition.__qualname__}"


def find_near_names(name: str, known: Iterable[str], *, count: int = 1, likeness: float = 0.6) -> list[str]:
    """Return the known names that are most like one, the nearest first; none if all are too different."""
    from difflib import get_close_matches  # loaded with the first wrong name: an idle server needs none of it

    return get_close_matches(name, list(known), n=count, cutoff=likeness)
