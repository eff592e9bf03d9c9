"""Requests from Python: as the types of a service, or as the mappings that would come over a wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from betimes.core.checking import Examined, Rule, examine
from betimes.core.errors import Invalid

T = TypeVar("T")


def asked(request: T | Mapping[str, Any] | Examined[T], kind: type[T], rules: Sequence[Rule[T]] = ()) -> T:
    """Return the request as its type, whatever it came as; raise `Invalid` with everything that is wrong with it.

    The rules judge what is sound of a request whose shape is wrong, so that all of it is said at once.
    """
    return examined(request, kind).whole(rules)


def examined(request: T | Mapping[str, Any] | Examined[T], kind: type[T]) -> Examined[T]:
    """Return the request as far as it is sound, and what is wrong with its shape."""
    if isinstance(request, Examined):
        return request
    return examine(dict(request) if isinstance(request, Mapping) else json_of(request), kind)


def require_list(items: Any, name: str) -> Sequence[Any]:
    """Return the items of a request for many; raise `Invalid` if they are one thing instead of a list."""
    if isinstance(items, Sequence) and not isinstance(items, str | bytes):
        return items
    told = f"a list is expected, not {type(items).__name__}; put one in brackets: [...]"
    raise Invalid(f"{name}: {told}", ((name, told),))


def json_of(request: Any) -> Any:
    """Return a struct as it would come over a wire: Python does not hold anybody to its types."""
    try:
        return msgspec.to_builtins(request)
    except (TypeError, ValueError) as error:
        raise Invalid(f"the request is not JSON: {error}", (("", f"not JSON: {error}"),)) from None
