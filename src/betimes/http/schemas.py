"""JSON schemas of our types, fit to generate clients from.

Every struct is a component of its own under its class's name; `Page[RunView]` is `RunViewPage`. Two classes of one name
are refused, so that a name never depends on where in the source a class stands. Instants are `date-time`, decimals are
numbers as on the wire, arrays say what is in them. A struct that is only ever answered has all its fields, always.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias, get_args, get_origin

import msgspec
from msgspec import inspect

from betimes.core.errors import Invalid
from betimes.http.field_docs import fields_of

Schema: TypeAlias = dict[str, Any]
REF = "#/components/schemas/{name}"
_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_LENGTHS = {"string": "Length", "array": "Items", "object": "Properties"}
_PLAIN: dict[type[inspect.Type], Schema] = {
    inspect.AnyType: {},
    inspect.NoneType: {"type": "null"},
    inspect.BoolType: {"type": "boolean"},
    inspect.IntType: {"type": "integer"},
    inspect.FloatType: {"type": "number"},
    inspect.DecimalType: {"type": "number"},
    inspect.StrType: {"type": "string"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.DateType: {"type": "string", "format": "date"},
}
_TYPES = {str: "string", int: "integer", bool: "boolean"}
_encoder = msgspec.json.Encoder(decimal_format="number")


class Schemas:
    """Describes types; the structs met on the way are in `components`, by name."""

    def __init__(self, sent: Iterable[Any], *, decimal: Schema | None = None) -> None:
        self._plain = dict(_PLAIN)
        if decimal is not None:
            self._plain[inspect.DecimalType] = decimal
        self.components: dict[str, Schema] = {}
        self._classes: dict[str, Any] = {}
        self._sent: set[Any] = set()
        for kind in sent:
            _collect_structs(inspect.type_info(kind), self._sent)

    def describe(self, kind: Any) -> Schema:
        """Return the schema of a type; raise `Invalid` if two of its classes share a name."""
        return self._schema(inspect.type_info(kind))

    def _schema(self, info: inspect.Type) -> Schema:
        if isinstance(info, inspect.Metadata):
            return {**self._schema(info.type), **(info.extra_json_schema or {})}
        if isinstance(info, inspect.StructType):
            return self._reference(info)
        if isinstance(info, inspect.UnionType):
            return self._union(info.types)
        if isinstance(info, inspect.LiteralType):
            return _literal(info.values)
        if isinstance(info, inspect.CollectionType):
            return {"type": "array", "items": self._schema(info.item_type), **_bounds(info, "array")}
        if isinstance(info, inspect.DictType):
            return self._mapping(info)
        if type(info) not in _PLAIN:
            raise Invalid(f"{info!r} cannot be described; give it a schema here")
        plain = self._plain[type(info)]
        return {**plain, **_bounds(info, plain.get("type", ""))}

    def _mapping(self, info: inspect.DictType) -> Schema:
        values = self._schema(info.value_type)
        names = {name: part for name, part in self._schema(info.key_type).items() if name != "type"}
        named = {"propertyNames": names} if names else {}
        # without additionalProperties some generators read an object that has none
        return {"type": "object", "additionalProperties": values or True, **named, **_bounds(info, "object")}

    def _union(self, types: Sequence[inspect.Type]) -> Schema:
        structs = [one for one in types if isinstance(one, inspect.StructType)]
        others = [self._schema(one) for one in types if one not in structs]
        if len(structs) < 2:
            return _any_of([*map(self._schema, structs), *others])
        mapping = {str(one.tag): self._reference(one)["$ref"] for one in structs}
        tagged = {
            "oneOf": [self._reference(one) for one in structs],
            "discriminator": {"propertyName": structs[0].tag_field, "mapping": mapping},
        }
        return _any_of([tagged, *others]) if others else tagged

    def _reference(self, info: inspect.StructType) -> Schema:
        name = schema_name(info.cls)
        owner = self._classes.setdefault(name, info.cls)
        if owner != info.cls:
            raise Invalid(f"{owner!r} and {info.cls!r} would both be described as {name}; rename one of them")
        if name not in self.components:
            self.components[name] = {}  # a struct may hold itself
            self.components[name] = self._struct(name, info)
        return {"$ref": REF.format(name=name)}

    def _struct(self, name: str, info: inspect.StructType) -> Schema:
        kind = get_origin(info.cls) or info.cls
        is_complete = info.cls not in self._sent and not kind.__struct_config__.omit_defaults
        required = [field.encode_name for field in info.fields if field.required or is_complete]
        said = fields_of(kind)
        properties = {field.encode_name: self._property(field, said, is_complete) for field in info.fields}
        if info.tag_field is not None:
            required = [info.tag_field, *required]
            properties = {info.tag_field: {"type": "string", "const": info.tag}, **properties}
        return {
            "title": name,
            "type": "object",
            **({"description": kind.__doc__} if kind.__doc__ else {}),
            "properties": properties,
            **({"required": required} if required else {}),
            **({"additionalProperties": False} if info.forbid_unknown_fields else {}),
        }

    def _property(self, field: inspect.Field, said: dict[str, str], is_complete: bool) -> Schema:
        described = dict(self._schema(field.type))
        if field.name in said:
            described["description"] = said[field.name]
        default = None if is_complete else _default(field)
        return described if default is None else {**described, "default": default}


def schema_name(kind: Any) -> str:
    """Return what a class is called in the description: `RunView`, `RunViewPage` for `Page[RunView]`."""
    name: str = (get_origin(kind) or kind).__name__
    return "".join(map(schema_name, get_args(kind))) + name


def _collect_structs(info: inspect.Type, found: set[Any]) -> None:
    if isinstance(info, inspect.StructType):
        if info.cls in found:
            return
        found.add(info.cls)
    for part in _parts(info):
        _collect_structs(part, found)


def _parts(info: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(info, inspect.StructType):
        yield from (field.type for field in info.fields)
    elif isinstance(info, inspect.UnionType):
        yield from info.types
    elif isinstance(info, inspect.CollectionType):
        yield info.item_type
    elif isinstance(info, inspect.DictType):
        yield info.value_type
    elif isinstance(info, inspect.Metadata):
        yield info.type


def _literal(values: Sequence[Any]) -> Schema:
    """Return a typed enumeration; generators want `null` beside it, not in it."""
    given = [value for value in values if value is not None]
    enumeration = {"type": _TYPES[type(given[0])], "enum": given}
    return enumeration if len(given) == len(values) else _any_of([enumeration, {"type": "null"}])


def _any_of(options: list[Schema]) -> Schema:
    return options[0] if len(options) == 1 else {"anyOf": options}


def _bounds(info: inspect.Type, kind: str) -> Schema:
    found = {spelt: getattr(info, name, None) for name, spelt in _BOUNDS.items()}
    if kind in _LENGTHS:
        found |= {f"{end}{_LENGTHS[kind]}": getattr(info, f"{end}_length", None) for end in ("min", "max")}
    return {spelt: _ecma(value) for spelt, value in found.items() if value is not None}


def _ecma(value: Any) -> Any:
    r"""Return a pattern as JSON Schema reads it: Python's `\Z` is `$` there."""
    return value.replace(r"\Z", "$") if isinstance(value, str) else value


def _default(field: inspect.Field) -> Any:
    """Return the default as it would be sent; `None` if there is none, since null says no more than leaving it out."""
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.json.decode(_encoder.encode(field.default_factory()))
    return None if field.default is msgspec.NODEFAULT else msgspec.json.decode(_encoder.encode(field.default))
