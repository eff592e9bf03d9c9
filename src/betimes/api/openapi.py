"""OpenAPI 3.1, made from the routes: every path, parameter, header, body, answer and problem, described."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from betimes.api.documented import fields_of, structs_in
from betimes.api.problems import TITLES, Problem
from betimes.api.routes import ANY_KEY, PUBLIC, Route

_NAMES = re.compile(r"{(\w+)}")
REF = "#/components/schemas/{name}"
KEYED = ((401, "UNAUTHENTICATED"), (403, "MISSING_SCOPE"))
ALWAYS = ((422, "INVALID"), (500, "INTERNAL"), (503, "OVERLOADED"), (504, "TIMEOUT"))
WITH_BODY = ((400, "MALFORMED_JSON"), (413, "BODY_TOO_LARGE"), (415, "UNSUPPORTED_MEDIA_TYPE"))
TAGS = {
    "Runs": "May this account's expensive decision run: ALLOW, DEFER or SKIP?",
    "Notifications": "Does this person hear this: NOW, LATER or NEVER?",
    "Intents": "Which stored intents are due, who works on them, may they fire?",
    "Automation": "Which clock ticks and outside changes must cause a run, exactly once?",
    "Scores": "How far has a neglected score fallen, and has it reached the floor?",
    "Effects": "What had to happen outside: handlers, webhooks, deliveries, commands.",
    "Time and history": "Passes over what is due, a virtual clock, the ledger, and why.",
    "Backtests": "What other policies would have done with the recorded traffic.",
    "Administration": "A tenant's policy, keys and webhook secret.",
    "Service": "Whether it lives and is ready, its numbers and its description.",
}
DESCRIPTION = """\
Every status of 400 or more has an `application/problem+json` body; `errors` lists all bad fields. \
Instants are ISO 8601 in UTC with `Z`. Lists take `limit` (1–200) and `cursor`. \
`Idempotency-Key` is honoured on every POST and PATCH: the same key and request give the recorded answer."""
_ID_CHARS = 200
_ID = "^[A-Za-z0-9_+][A-Za-z0-9._~:@+|=-]*$"
_LONG_IDS = {"segment_id": 300, "effect_id": 300}
_CORRELATION = ("X-Correlation-Id", "Recorded and echoed; made when it is not sent.", 128, "")
_IDEMPOTENCY = (
    "Idempotency-Key",
    "The same key and request give the recorded answer; another request is 409.",
    _ID_CHARS,
    _ID,
)
_IF_MATCH = (
    "If-Match",
    'The version it must be at, in quotes, such as `"3"`; without it the last write wins.',
    20,
    r'^"\d+"$',
)
_LAST_EVENT = ("Last-Event-ID", "The id of the last event seen; without it, from now on.", 25, r"^\d{1,18}\.\d{1,6}$")


def openapi(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """The description of the API."""
    listed = [*routes]
    types = [
        kind
        for route in listed
        for kind in (route.body_shape, route.reply, *(route.batch_body or ())[1:])
        if kind not in (None, Any)
    ]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=REF)
    by_type = dict(zip(map(repr, [*types, Problem]), schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in listed:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    tags = dict.fromkeys(route.tag for route in listed)
    described: dict[str, Any] = _ecma(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "betimes",
                "version": version,
                "summary": "May this happen now, later or never, and why?",
                "description": DESCRIPTION,
            },
            "servers": [{"url": "/"}],
            "tags": [{"name": tag, "description": TAGS.get(tag, tag)} for tag in tags],
            "paths": dict(sorted(paths.items())),
            "components": {
                "schemas": dict(sorted(_documented(components, types).items())),
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "bt_<id>_<secret>"}},
            },
        }
    )
    return described


def _documented(components: dict[str, Any], types: list[Any]) -> dict[str, Any]:
    """The schemas, with what the source says of their fields."""
    structs = structs_in(types)
    for schema in components.values():
        kind = structs.get(schema.get("title", "").partition("[")[0])
        if kind is None:
            continue
        said = {field.encode_name: fields_of(kind).get(field.name) for field in msgspec.structs.fields(kind)}
        for name, part in schema.get("properties", {}).items():
            if said.get(name):
                part.setdefault("description", said[name])
    return components


def _operation(route: Route, by_type: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "tags": [route.tag],
        "summary": route.summary,
        "description": _described(route),
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)],
        "responses": _responses(route, by_type),
        "security": [] if route.scope == PUBLIC else [{"key": []}],
    }
    if route.body is not None or route.raw_body:
        operation["requestBody"] = _request_body(route, by_type)
    return operation


def operation_id(route: Route) -> str:
    names = _NAMES.findall(route.path)
    words = [route.method.lower(), *re.findall(r"[A-Za-z0-9]+", _NAMES.sub("", route.path))]
    return "_".join([*words, *(["by", *names] if names else ())])


def _described(route: Route) -> str:
    scope = {PUBLIC: "Needs no key.", ANY_KEY: "Any key."}.get(route.scope, f"Scope `{route.scope}`.")
    return f"{route.description} {scope}".strip()


# -- what is sent


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": _LONG_IDS.get(name, _ID_CHARS), "pattern": _ID},
        }
        for name in _NAMES.findall(route.path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    said = fields_of(route.query)
    return [
        {
            "name": field.encode_name,
            "in": "query",
            "required": field.required,
            **({"description": said[field.name]} if field.name in said else {}),
            "schema": _sendable(msgspec.json.schema(field.type), field),
        }
        for field in msgspec.structs.fields(route.query)
    ]


def _sendable(schema: dict[str, Any], field: msgspec.structs.FieldInfo) -> dict[str, Any]:
    """A parameter is left out rather than sent as null."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    plain = {**schema, **options[0]} if len(options) == 1 else schema
    if plain is not schema:
        plain.pop("anyOf", None)
    if "enum" in plain:
        plain = {**plain, "enum": [value for value in plain["enum"] if value is not None]}
    if field.default not in (msgspec.NODEFAULT, None):
        plain = {**plain, "default": field.default}
    return plain


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    headers = [_CORRELATION] if route.scope != PUBLIC else []
    if _takes_key(route):
        headers.append(_IDEMPOTENCY)
    if any(status == 412 for status, _ in route.codes):
        headers.append(_IF_MATCH)
    if route.media_type == "text/event-stream":
        headers.append(_LAST_EVENT)
    return [
        {"name": name, "in": "header", "required": False, "description": says,
         "schema": {"type": "string", "minLength": 1, "maxLength": chars, **({"pattern": pattern} if pattern else {})}}
        for name, says, chars, pattern in headers
    ]  # fmt: skip


def _takes_key(route: Route) -> bool:
    """Return whether an `Idempotency-Key` is honoured."""
    return route.method in ("POST", "PATCH") and route.scope != PUBLIC


def _request_body(route: Route, by_type: dict[str, Any]) -> dict[str, Any]:
    schema = by_type.get(repr(route.body_shape), {})
    if route.batch:
        items = {"type": "array", "items": schema, "minItems": 1, "maxItems": 500}
        batch = {"type": "object", "required": ["items"], "properties": {"items": items}, "additionalProperties": False}
        schema = {"anyOf": [schema, batch]}
    content: dict[str, Any] = {"schema": schema}
    if route.example is not None:
        content["example"] = route.example
    described = {"application/json": content}
    if route.batch_body is not None:
        media_type, kind = route.batch_body
        described[media_type] = {"schema": by_type[repr(kind)]}
    return {"required": not route.body_optional, "content": described}


# -- what comes back


def _responses(route: Route, by_type: dict[str, Any]) -> dict[str, Any]:
    if route.reply is None:
        responses: dict[str, Any] = {"204": {"description": "Done"}}
    else:
        schema = by_type.get(repr(route.reply), {})
        if route.batch or route.batch_body:
            schema = {"anyOf": [schema, _batch_answer(schema, by_type)]}
        content = {route.media_type: {"schema": schema}}
        responses = {str(route.status): {"description": route.summary, "content": content}}
        for status in (*((200,) if route.status == 201 else ()), *route.also):
            responses[str(status)] = responses[str(route.status)]
    problem = {"application/problem+json": {"schema": by_type[repr(Problem)]}}
    for status, codes in sorted(_problems(route).items()):
        description = f"{TITLES[status]}: {', '.join(codes)}"
        responses.setdefault(str(status), {"description": description, "content": problem})
    return responses


def _problems(route: Route) -> dict[int, list[str]]:
    problems: dict[int, list[str]] = {}
    codes = [
        *(KEYED if route.scope != PUBLIC else ()),
        *(WITH_BODY if route.body is not None or route.raw_body else ()),
        *(((404, "NOT_FOUND"),) if "{" in route.path else ()),
        *ALWAYS,
        *route.codes,
        *(((409, "IDEMPOTENCY_CONFLICT"),) if _takes_key(route) else ()),
    ]
    for status, code in codes:
        if code not in problems.setdefault(status, []):
            problems[status].append(code)
    return problems


def _batch_answer(schema: dict[str, Any], by_type: dict[str, Any]) -> dict[str, Any]:
    problem = {"anyOf": [by_type[repr(Problem)], {"type": "null"}]}
    item = {
        "type": "object",
        "required": ["index", "status", "body", "problem"],
        "properties": {
            "index": {"type": "integer"},
            "status": {"type": "integer"},
            "body": {"anyOf": [schema, {"type": "null"}]},
            "problem": problem,
        },
    }
    return {"type": "object", "required": ["items"], "properties": {"items": {"type": "array", "items": item}}}


def _ecma(value: Any) -> Any:
    r"""Patterns as JSON Schema reads them: Python's `\Z` is `$` there."""
    if isinstance(value, dict):
        return {
            name: part.replace(r"\Z", "$") if name == "pattern" and isinstance(part, str) else _ecma(part)
            for name, part in value.items()
        }
    return [_ecma(part) for part in value] if isinstance(value, list) else value
