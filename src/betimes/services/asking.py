"""Requests from Python: as the types of a service, or as the mappings that would come over a wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from betimes.core.checking import checked

T = TypeVar("T")


def asked(request: T | Mapping[str, Any], kind: type[T]) -> T:
    """The request as its type; what is wrong with a mapping is `Invalid`, with every field."""
    return checked(dict(request), kind) if isinstance(request, Mapping) else request
