"""Decoded states, bounded by the size of their text. An entry is trusted only at the version the store locked."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.engine.codecs import Kind
from betimes.engine.store import NOT_CACHED, Row, StreamRow

ENTRY_CHARS = 256
"""What a cached state costs besides its text."""


class Cached(msgspec.Struct, frozen=True, gc=False):
    """A stream as its last segment left it, decoded."""

    version: int
    state: Any
    at: Instant
    alarm_at: Instant | None
    digest: str
    chars: int

    @classmethod
    def of_row(cls, kind: Kind, stream: StreamId, row: Row | StreamRow) -> Cached:
        """Decode a row; raise what cannot be read."""
        state = kind.state(stream, row.schema, row.state)
        return cls(row.version, state, row.at, row.alarm_at, row.digest, ENTRY_CHARS + len(row.state or ""))


NO_ENTRY = Cached(NOT_CACHED, None, 0, None, "", 0)
"""Stands for a stream that is not cached, in the version that a store is asked with."""


class StateCache(OrderedDict[StreamId, Cached]):
    """Least recently used states leave first when the bound is passed."""

    def __init__(self, chars_max: int) -> None:
        super().__init__()
        self._chars_max = chars_max
        self._chars = 0

    def put(self, stream: StreamId, entry: Cached) -> None:
        """Keep a stream as it is now, as the one that was used last."""
        # Taken out first: an ordered mapping keeps the place of a key that is set again, and this one was used last.
        before = self.pop(stream, None)
        self._chars += entry.chars - (before.chars if before else 0)
        self[stream] = entry
        while self._chars > self._chars_max:
            self._chars -= self.popitem(last=False)[1].chars

    def drop(self, stream: StreamId) -> None:
        """Forget a stream."""
        gone = self.pop(stream, None)
        if gone:
            self._chars -= gone.chars
