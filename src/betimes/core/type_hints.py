"""Type hints as the checks read them: the type behind annotations and unions, and its bounds."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec


def plain_type(kind: Any, value: Any) -> Any:
    """Return the type without its annotations; of a union, the only member that the value can be meant as."""
    kind = strip_annotations(kind)
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    members = [plain_type(member, value) for member in get_args(kind) if member is not type(None)]
    if len(members) == 1:
        return members[0]
    meant = [member for member in members if _is_meant(member, value)]
    return meant[0] if len(meant) == 1 else kind


def metas(kind: Any) -> Iterator[msgspec.Meta]:
    """Yield the annotations of a type that may also be nothing."""
    if get_origin(kind) is Annotated:
        yield from (meta for meta in kind.__metadata__ if isinstance(meta, msgspec.Meta))
        yield from metas(get_args(kind)[0])
    elif get_origin(kind) in (Union, types.UnionType):
        members = [member for member in get_args(kind) if member is not type(None)]
        if len(members) == 1:
            yield from metas(members[0])


def strip_annotations(kind: Any) -> Any:
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return kind


def _is_meant(member: Any, value: Any) -> bool:
    """Return whether a value can be meant as this member of a union: a list, or an object that names its struct."""
    if isinstance(value, list | tuple):
        return get_origin(member) in (list, tuple)
    config = member.__struct_config__ if is_struct(member) and isinstance(value, Mapping) else None
    return config is not None and config.tag is not None and value.get(config.tag_field) == config.tag


def present_type(kind: Any) -> Any:
    """Return the type that a field has unless it is empty or left out."""
    kind = strip_annotations(kind)
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    members = [strip_annotations(one) for one in get_args(kind) if one not in (type(None), msgspec.UnsetType)]
    return members[0] if len(members) == 1 else kind


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
