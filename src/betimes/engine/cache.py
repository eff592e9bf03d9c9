"""Decoded states, bounded by the size of their text. An entry is trusted only at the version the store locked."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.engine.store import NOT_CACHED


class Cached(msgspec.Struct, frozen=True, gc=False):
    """A stream as its last segment left it, decoded."""

    version: int
    state: Any
    at: Instant
    alarm_at: Instant | None
    digest: str
    chars: int


class StateCache:
    """Least recently used states leave first when the bound is passed."""

    def __init__(self, chars_max: int) -> None:
        self._chars_max = chars_max
        self._chars = 0
        self._entries: OrderedDict[StreamId, Cached] = OrderedDict()

    def version(self, stream: StreamId) -> int:
        entry = self._entries.get(stream)
        return NOT_CACHED if entry is None else entry.version

    def get(self, stream: StreamId) -> Cached | None:
        return self._entries.get(stream)

    def put(self, stream: StreamId, entry: Cached) -> None:
        before = self._entries.pop(stream, None)
        self._chars += entry.chars - (before.chars if before else 0)
        self._entries[stream] = entry
        while self._chars > self._chars_max:
            _, left = self._entries.popitem(last=False)
            self._chars -= left.chars

    def drop(self, stream: StreamId) -> None:
        gone = self._entries.pop(stream, None)
        if gone:
            self._chars -= gone.chars
