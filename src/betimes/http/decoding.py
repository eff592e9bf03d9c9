"""From bytes to what a handler is given: bounded, decoded, checked, with every problem named by its path."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

import msgspec

from betimes.core.bounds import NAME_CHARS_MAX, VALUES_MAX, check_cost, decode_json, dotted, scan, text_problem
from betimes.core.checks import DEPTH_MAX, Examined, Findings, examine, problems, refusal, with_choices, within_depth
from betimes.core.errors import Invalid
from betimes.core.names import Id
from betimes.http.problems import HttpProblem
from betimes.http.routes import Route

BODY_BYTES_MAX = 4 * 1024 * 1024
Correlation = Annotated[str, msgspec.Meta(max_length=128)] | None
KEY_FIELD = "idempotency_key"
HANDLES = frozenset({"segment_id", "effect_id", "incident_id", "key_id"})
"""Parameters of paths that are made of ids, and checked where they are taken apart."""


def json_of(raw: bytes, content_type: str | None, values_max: int = VALUES_MAX) -> Any:
    """The body as JSON values; 413, 415 or 400 when it cannot be."""
    if len(raw) > BODY_BYTES_MAX:
        raise HttpProblem(413, "BODY_TOO_LARGE", f"The body has {len(raw):,} bytes; at most {BODY_BYTES_MAX:,} fit.")
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise HttpProblem(415, "UNSUPPORTED_MEDIA_TYPE", "Send Content-Type: application/json.")
    try:
        check_cost(raw, values_max)
    except Invalid as error:
        raise HttpProblem(413, "BODY_TOO_LARGE", f"The body cannot be read: {error}.") from None
    try:
        value = decode_json(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise HttpProblem(400, "MALFORMED_JSON", f"The body is not JSON in UTF-8: {error}") from None
    if not within_depth(value, DEPTH_MAX):
        raise HttpProblem(400, "MALFORMED_JSON", f"The body is nested more than {DEPTH_MAX} levels deep.")
    return value


def query_of(route: Route, sent: Mapping[str, str]) -> Any:
    """The query's parameters as the route's type; texts become numbers and truths."""
    fields = _fields(route.query)
    found = Findings()
    for name, value in sent.items():
        if problem := _parameter_problem(fields.get(name), value):
            found.add(f"query.{name[:NAME_CHARS_MAX]}", problem)
    for name in fields.keys() - sent.keys():
        if fields[name].required:
            found.add(f"query.{name}", "is required")
    if found.total:
        raise found.refusal("parameter")
    return msgspec.convert(dict(sent), route.query, strict=False)


def _parameter_problem(field: msgspec.structs.FieldInfo | None, value: str) -> str:
    if field is None:
        return "no such parameter"
    try:
        converted = msgspec.convert(value, field.type, strict=False)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        return with_choices(str(error), field.type)
    return text_problem(value) or next((message for _, message in scan(converted, field.type)), "")


class Body(msgspec.Struct, frozen=True):
    """A body as the route's type, and what it carries besides."""

    value: Any
    correlation: str | None = None
    key: str | None = None


def body_of(route: Route, value: Any, *, tenant: str, key: str | None, path: str = "") -> Body:
    """The body, checked; `key` is that of the header, if there is one."""
    found, correlation = Findings(), None
    if isinstance(value, dict):
        value = {name: part for name, part in value.items() if name not in route.read_only}
        fields = _fields(route.body_shape)
        if "tenant_id" in value and "tenant_id" not in fields and value.pop("tenant_id") != tenant:
            found.add(dotted(path, "tenant_id"), "not the key's tenant")
        if "correlation_id" in value:
            correlation = value["correlation_id"] if "correlation_id" in fields else value.pop("correlation_id")
            found.extend(problems(dotted(path, "correlation_id"), correlation, Correlation))
        if route.key_field:
            value = _with_key(value, route.key_field, key, path, found)
        elif KEY_FIELD in value and KEY_FIELD not in fields and route.method in ("POST", "PATCH"):
            value = dict(_with_key(value, KEY_FIELD, key, path, found))
            key = value.pop(KEY_FIELD)
            found.extend(problems(dotted(path, KEY_FIELD), key, Id))
    return Body(_examined(route, value, path, found), correlation, key)


def _examined(route: Route, value: Any, path: str, found: Findings) -> Any:
    """The body as its type, with what is wrong besides; as far as it is sound where the handler has rules for it."""
    if route.body is Any and not found.total:
        return value
    examined: Examined[Any] = examine(value, route.body_shape if found.total else route.body, path)
    known = {place for place, _ in examined.found.first}
    examined.found.extend(problem for problem in found.first if problem[0] not in known)
    return examined if route.judges_body else examined.whole()


def key_of(headers: Mapping[str, str]) -> str | None:
    """The header `Idempotency-Key`."""
    key = headers.get("idempotency-key")
    return None if key is None else examine(key, Id, "header.idempotency-key").whole()


def check_path(parameters: Mapping[str, str]) -> None:
    """Refuse ids in the path that nothing can have."""
    found = [
        problem
        for name, value in parameters.items()
        if name not in HANDLES
        for problem in problems(f"path.{name}", value, Id)
    ]
    if found:
        raise refusal("parameter", found)


@cache
def _fields(kind: Any) -> Mapping[str, msgspec.structs.FieldInfo]:
    """Return the fields of a struct by their names on the wire; of anything else none."""
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return {field.encode_name: field for field in msgspec.structs.fields(kind)} if is_struct else {}


def _with_key(value: dict[str, Any], field: str, key: str | None, path: str, found: Findings) -> dict[str, Any]:
    """The header `Idempotency-Key` is the same thing as the key in the body."""
    if key is None:
        return value
    if value.get(field, key) != key:
        found.add(dotted(path, field), "differs from the header Idempotency-Key")
    return {**value, field: key}
