"""Pages of lists, and the cursors that lead from one to the next."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Coroutine
from functools import cache, wraps
from inspect import signature
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints

import msgspec

from betimes.core.checking import Findings, problems
from betimes.core.errors import Invalid
from betimes.services.json_view import JsonView

Item = TypeVar("Item")
P = ParamSpec("P")
T = TypeVar("T")
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


def check_filters(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Hold what a list is asked for by name against its types, as the HTTP API does; raise `Invalid` with all of it."""
    named = {name for name, one in signature(method).parameters.items() if one.kind is one.KEYWORD_ONLY}
    kinds = cache(lambda: get_type_hints(method, include_extras=True))

    @wraps(method)
    async def list_checked(*args: P.args, **kwargs: P.kwargs) -> T:
        found = Findings()
        for name in sorted(kwargs.keys() & named):
            found.extend(problems(f"query.{name}", kwargs[name], kinds()[name]))
        if found.total:
            raise found.refusal("parameter")
        return await method(*args, **kwargs)

    return list_checked
