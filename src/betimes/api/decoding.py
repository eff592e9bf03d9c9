"""From bytes to what a handler is given: bounded, decoded, checked, with every problem named by its path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from betimes.api.problems import HttpProblem
from betimes.api.routes import Route
from betimes.core.checking import DEPTH_MAX, checked, problems, refusal, with_choices, within_depth
from betimes.core.errors import Invalid
from betimes.domains.names import Id

BODY_BYTES_MAX = 4 * 1024 * 1024
BATCH_MAX = 500
KEY_FIELD = "idempotency_key"
HANDLES = frozenset({"segment_id", "effect_id", "incident_id", "key_id"})
"""Parameters of paths that are made of ids, and checked where they are taken apart."""


def json_of(raw: bytes, content_type: str | None) -> Any:
    """The body as JSON values; 413, 415 or 400 when it cannot be."""
    if len(raw) > BODY_BYTES_MAX:
        raise HttpProblem(413, "BODY_TOO_LARGE", f"The body has {len(raw):,} bytes; at most {BODY_BYTES_MAX:,} fit.")
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise HttpProblem(415, "UNSUPPORTED_MEDIA_TYPE", "Send Content-Type: application/json.")
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise HttpProblem(400, "MALFORMED_JSON", f"The body is not JSON in UTF-8: {error}") from None
    if not within_depth(value, DEPTH_MAX):
        raise HttpProblem(400, "MALFORMED_JSON", f"The body is nested more than {DEPTH_MAX} levels deep.")
    return value


def query_of(route: Route, sent: Mapping[str, str]) -> Any:
    """The query's parameters as the route's type; texts become numbers and truths."""
    unkept = tuple((f"query.{name}", "holds a NUL, which nothing we keep does")
                   for name, value in sent.items() if "\0" in value)  # fmt: skip
    if unkept:
        raise refusal("parameter", unkept)
    try:
        return msgspec.convert(dict(sent), route.query, strict=False)
    except msgspec.ValidationError:
        found = []
        for name, value in sent.items():
            found += _query_problems(route, name, value)
        found += [(f"query.{field.encode_name}", "is required") for field in msgspec.structs.fields(route.query)
                  if field.required and field.encode_name not in sent]  # fmt: skip
        raise refusal("parameter", found) from None


def _query_problems(route: Route, name: str, value: str) -> list[tuple[str, str]]:
    field = next((field for field in msgspec.structs.fields(route.query) if field.encode_name == name), None)
    if field is None:
        return [(f"query.{name}", "no such parameter")]
    try:
        msgspec.convert(value, field.type, strict=False)
    except msgspec.ValidationError as error:
        return [(f"query.{name}", with_choices(str(error), field.type))]
    return []


class Body(msgspec.Struct, frozen=True):
    """A body as the route's type, and what it carries besides."""

    value: Any
    correlation: str | None = None
    key: str | None = None


def body_of(route: Route, value: Any, *, tenant: str, key: str | None, path: str = "") -> Body:
    """The body, checked; `key` is that of the header, if there is one."""
    correlation = None
    if isinstance(value, dict):
        value = {name: part for name, part in value.items() if name not in route.read_only}
        fields = _fields(route.body)
        if "tenant_id" in value and "tenant_id" not in fields:
            _demand_own(value.pop("tenant_id"), tenant, path)
        if "correlation_id" in value:
            correlation = value["correlation_id"] if "correlation_id" in fields else value.pop("correlation_id")
            if not isinstance(correlation, str | None) or len(correlation or "") > 128:
                raise refusal("field", [(_dotted(path, "correlation_id"), "a text of at most 128")])
        if route.key_field:
            value = _with_key(value, route.key_field, key, path)
        elif KEY_FIELD in value and KEY_FIELD not in fields and route.method in ("POST", "PATCH"):
            value = dict(_with_key(value, KEY_FIELD, key, path))
            key = checked(value.pop(KEY_FIELD), Id, _dotted(path, KEY_FIELD))
    return Body(value if route.body is Any else checked(value, route.body, path), correlation, key)


def key_of(headers: Mapping[str, str]) -> str | None:
    """The header `Idempotency-Key`."""
    key = headers.get("idempotency-key")
    return None if key is None else checked(key, Id, "header.idempotency-key")


def check_path(parameters: Mapping[str, str]) -> None:
    """Refuse ids in the path that nothing can have."""
    found = [problem for name, value in parameters.items() if name not in HANDLES
             for problem in problems(f"path.{name}", value, Id)]  # fmt: skip
    if found:
        raise refusal("parameter", found)


def _fields(kind: Any) -> set[str]:
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return {field.encode_name for field in msgspec.structs.fields(kind)} if is_struct else set()


def _demand_own(tenant_id: Any, tenant: str, path: str) -> None:
    if tenant_id != tenant:
        raise Invalid("tenant_id is not the key's tenant", ((_dotted(path, "tenant_id"), "not the key's tenant"),))


def _with_key(value: dict[str, Any], field: str, key: str | None, path: str) -> dict[str, Any]:
    """The header `Idempotency-Key` is the same thing as the key in the body."""
    if key is None:
        return value
    if value.get(field, key) != key:
        message = "differs from the header Idempotency-Key"
        raise Invalid(f"{field} {message}", ((_dotted(path, field), message),))
    return {**value, field: key}


def _dotted(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
