"""Scopes: what a key may do. Every route names one; `admin` implies all, since it can grant all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

ADMIN = "admin"


def allows(scopes: Collection[str], wanted: str) -> bool:
    """Return whether these scopes cover one; `any:read` and `any:write` are that of at least one domain."""
    if ADMIN in scopes or wanted in scopes:
        return True
    area, _, right = wanted.partition(":")
    return area == "any" and any(scope.endswith(f":{right}") for scope in scopes)


def areas_of(scopes: Iterable[str], right: Literal["read", "write"]) -> frozenset[str]:
    """Return the areas that these scopes name; of an administrator's, who reaches all of them, none need be named."""
    return frozenset(scope.partition(":")[0] for scope in scopes if scope.endswith(f":{right}"))
