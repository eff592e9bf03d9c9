"""Settings that note which of their fields are read, through properties, methods and tables too."""

from __future__ import annotations

from functools import cached_property
from types import FunctionType
from typing import Any

import msgspec


class WatchedSettings:
    """Stands for a section of the policy, or a part of one; `seen` collects the paths that were read."""

    def __init__(self, settings: Any, seen: set[str], path: str = "") -> None:
        self._settings, self._seen, self._path = settings, seen, path

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}" if self._path else name
        if name in self._settings.__struct_fields__:
            return _watch(getattr(self._settings, name), self._seen, path)
        member = getattr(type(self._settings), name)
        match member:
            case cached_property():
                return member.func(self)
            case property():
                assert member.fget
                return member.fget(self)
            case FunctionType():
                return member.__get__(self)
            case _:
                return member


class _WatchedTable:
    """A table of settings by name."""

    def __init__(self, table: dict[str, Any], seen: set[str], path: str) -> None:
        self._table, self._seen, self._path = table, seen, path

    def get(self, name: str) -> Any:
        return self[name] if name in self._table else None

    def __getitem__(self, name: str) -> Any:
        return _watch(self._table[name], self._seen, f"{self._path}.{name}")

    def __contains__(self, name: str) -> bool:
        return name in self._table


def _watch(value: Any, seen: set[str], path: str) -> Any:
    if isinstance(value, msgspec.Struct):
        return WatchedSettings(value, seen, path)
    if isinstance(value, dict):
        return _WatchedTable(value, seen, path)
    seen.add(path)
    return value
