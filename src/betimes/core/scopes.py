"""Scopes: what a key may do. Every route names one; `admin` implies all, since it can grant all."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias, get_args

Scope: TypeAlias = Literal[
    "runs:read", "runs:write", "notifications:read", "notifications:write", "intents:read", "intents:write",
    "automation:read", "automation:write", "scores:read", "scores:write", "sweep", "tick", "metrics", "admin",
]  # fmt: skip
SCOPES: tuple[Scope, ...] = get_args(Scope)
DOMAINS = ("runs", "notifications", "intents", "automation", "scores")


def allows(scopes: Collection[str], wanted: str) -> bool:
    """Whether these scopes cover one; `any:read` and `any:write` are that of at least one domain."""
    if "admin" in scopes or wanted in scopes:
        return True
    domain, _, right = wanted.partition(":")
    return domain == "any" and any(f"{name}:{right}" in scopes for name in DOMAINS)


def domains_of(scopes: Collection[str], right: Literal["read", "write"]) -> frozenset[str]:
    """The domains these scopes reach; an administrator also reaches `tenant`: keys and policy."""
    if "admin" in scopes:
        return frozenset({*DOMAINS, "tenant"})
    return frozenset(name for name in DOMAINS if f"{name}:{right}" in scopes)
