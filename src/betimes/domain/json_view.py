"""The base of everything services return: frozen structs with a JSON form, in the words of the HTTP contract."""

from __future__ import annotations

from typing import Any

import msgspec

_encoder = msgspec.json.Encoder(decimal_format="number")


class JsonView(msgspec.Struct, frozen=True):
    """An answer for people and programs; `to_dict` is what the HTTP API sends."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain JSON values: what a web framework or `json.dumps` can write."""
        body: dict[str, Any] = msgspec.json.decode(_encoder.encode(self))
        return body
