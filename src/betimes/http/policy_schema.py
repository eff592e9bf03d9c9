"""The JSON Schema of a policy, for editors: every section with its fields, defaults and bounds."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from betimes.catalogue import SECTIONS
from betimes.http.schemas import REF, Schemas

DEFS = "#/$defs/{name}"


@cache
def policy_schema() -> dict[str, Any]:
    """Return the schema of overrides; every section and every field may be left out."""
    texts = {"anyOf": [{"type": "number"}, {"type": "string"}]}  # stored as texts, to be exact
    schemas = Schemas(SECTIONS.values(), decimal=texts)
    sections = {name: _section_schema(schemas, kind) for name, kind in SECTIONS.items()}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Policy",
        "type": "object",
        "properties": sections,
        "additionalProperties": False,
        "$defs": dict(sorted(schemas.components.items())),
    }
    text = msgspec.json.encode(schema).decode().replace(REF.format(name=""), DEFS.format(name=""))
    described: dict[str, Any] = msgspec.json.decode(text)
    return described


def _section_schema(schemas: Schemas, kind: type[msgspec.Struct]) -> dict[str, Any]:
    whole = schemas.describe(kind)
    if (field := getattr(kind, "listed", None)) is None:
        return whole
    listed = next(one.type for one in msgspec.structs.fields(kind) if one.name == field)
    return {"anyOf": [whole, schemas.describe(listed)]}
