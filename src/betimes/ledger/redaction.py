"""Commands and events of the ledger as people may see them: instants as text, amounts in points, and no secrets.

Deciders keep values for deciding: microseconds, micro-points, secrets that sign. Everything of the ledger that
leaves the process goes through `redact`, the one place that knows which fields hold secrets.
"""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.catalogue import DOMAINS
from betimes.core.instants import render
from betimes.core.secret_fields import SECRET_FIELDS
from betimes.core.streams import EffectId, StreamId

HIDDEN = "***"
_INSTANTS = frozenset({"at", "scheduled_for", "first", "last"})
_AMOUNTS = {kind: fields for domain in DOMAINS for kind, fields in domain.render_amounts.items()}


def redact(value: Any, kind: str) -> Any:
    """Return the value as JSON for people; `kind` is that of the stream it was written to."""
    if isinstance(value, msgspec.Struct):
        return _struct(value, kind)
    if isinstance(value, StreamId):
        return {"kind": value.kind, "id": value.id}
    if isinstance(value, EffectId):
        return value.handle
    if isinstance(value, msgspec.Raw):
        return redact(msgspec.json.decode(value), kind)
    if isinstance(value, dict):
        return {name: HIDDEN if name in SECRET_FIELDS else redact(part, kind) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redact(part, kind) for part in value]
    return value


def _struct(value: msgspec.Struct, kind: str) -> dict[str, Any]:
    config = value.__struct_config__
    told: dict[str, Any] = {} if config.tag is None else {config.tag_field or "type": config.tag}
    for name, spelt in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        part = getattr(value, name)
        if part is not msgspec.UNSET:
            told[spelt] = _field(name, part, kind)
    return told


def _field(name: str, value: Any, kind: str) -> Any:
    if name in SECRET_FIELDS:
        return HIDDEN if value else value
    if type(value) is int:
        if name in _INSTANTS or name.endswith("_at"):
            return render(value)
        if amount := _AMOUNTS.get(kind, {}).get(name):
            return amount(value)
    return redact(value, kind)
