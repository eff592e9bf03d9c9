"""Pages of lists, and the cursors that lead from one to the next."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Generic, TypeVar

import msgspec

from betimes.core.errors import Invalid
from betimes.services.json_view import JsonView

Item = TypeVar("Item")
LIMIT_MAX = 200


class Page(JsonView, Generic[Item], frozen=True):
    items: list[Item]
    next_cursor: str | None = None


def cursor_of(filters: Any, place: Any) -> str:
    """An opaque text that says where the next page starts, and under which filters."""
    return urlsafe_b64encode(msgspec.json.encode([filters, place])).decode().rstrip("=")


def place_of(cursor: str | None, filters: Any) -> Any:
    """Where a page starts; `None` at the beginning. A cursor belongs to its filters."""
    if cursor is None:
        return None
    try:
        under, place = msgspec.json.decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, msgspec.MsgspecError):
        raise Invalid("the cursor is not one of ours; start without", (("query.cursor", "malformed"),)) from None
    if under != msgspec.json.decode(msgspec.json.encode(filters)):
        message = "the cursor belongs to a list with other filters; start without"
        raise Invalid(message, (("query.cursor", message),))
    return place


def checked_limit(limit: int) -> int:
    if not 1 <= limit <= LIMIT_MAX:
        raise Invalid(f"a page has 1 to {LIMIT_MAX} items", (("query.limit", f"1 to {LIMIT_MAX}"),))
    return limit
