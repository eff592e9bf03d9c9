"""OpenAPI 3.1, made from the routes: every path, parameter, body, answer and problem, described, with examples."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from betimes.api.problems import TITLES, Problem
from betimes.api.routes import ANY_KEY, PUBLIC, Route

_NAMES = re.compile(r"{(\w+)}")
REF = "#/components/schemas/{name}"
ALWAYS = ((401, "UNAUTHENTICATED"), (403, "MISSING_SCOPE"), (422, "INVALID"), (500, "INTERNAL"), (503, "OVERLOADED"))


def openapi(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """The description of the API."""
    listed = [*routes]
    types = [kind for route in listed for kind in (route.body, route.reply) if kind not in (None, Any)]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=REF)
    by_type = dict(zip(map(repr, types), schemas, strict=False))
    paths: dict[str, Any] = {}
    for route in listed:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    described: dict[str, Any] = _ecma(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "betimes",
                "version": version,
                "summary": "May this happen now, later or never, and why?",
            },
            "paths": dict(sorted(paths.items())),
            "components": {
                "schemas": dict(sorted(components.items())),
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "bt_<id>_<secret>"}},
            },
        }
    )
    return described


def _operation(route: Route, by_type: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}{_NAMES.sub('', route.path).replace('/', '_')}{_suffix(route)}",
        "tags": [route.tag],
        "summary": route.summary,
        "description": _described(route),
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": _responses(route, by_type),
        "security": [] if route.scope == PUBLIC else [{"key": []}],
    }
    if route.body is not None or route.raw_body:
        operation["requestBody"] = _request_body(route, by_type)
    return operation


def _suffix(route: Route) -> str:
    names = _NAMES.findall(route.path)
    return f"_by_{'_'.join(names)}" if names else ""


def _described(route: Route) -> str:
    scope = {PUBLIC: "Needs no key.", ANY_KEY: "Any key."}.get(route.scope, f"Scope `{route.scope}`.")
    return f"{route.description} {scope}".strip()


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1, "maxLength": 200}}
        for name in _NAMES.findall(route.path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": field.encode_name,
            "in": "query",
            "required": field.required,
            "schema": msgspec.json.schema(field.type),
        }
        for field in msgspec.structs.fields(route.query)
    ]


def _request_body(route: Route, by_type: dict[str, Any]) -> dict[str, Any]:
    schema = by_type.get(repr(route.body), {})
    if route.batch:
        items = {"type": "array", "items": schema, "minItems": 1, "maxItems": 500}
        batch = {"type": "object", "required": ["items"], "properties": {"items": items}, "additionalProperties": False}
        schema = {"anyOf": [schema, batch]}
    content: dict[str, Any] = {"schema": schema}
    if route.example is not None:
        content["example"] = route.example
    return {"required": not route.body_optional, "content": {"application/json": content}}


def _responses(route: Route, by_type: dict[str, Any]) -> dict[str, Any]:
    if route.reply is None:
        responses: dict[str, Any] = {"204": {"description": "Done"}}
    else:
        content = {"application/json": {"schema": by_type.get(repr(route.reply), {})}}
        responses = {str(route.status): {"description": route.summary, "content": content}}
        if route.status == 201:
            responses["200"] = responses["201"]
    problems: dict[int, list[str]] = {}
    for status, code in (*ALWAYS, *((404, "NOT_FOUND"),) * ("{" in route.path), *route.codes):
        problems.setdefault(status, []).append(code)
    problem = {"application/problem+json": {"schema": {"$ref": REF.format(name="Problem")}}}
    for status, codes in sorted(problems.items()):
        description = f"{TITLES[status]}: {', '.join(codes)}"
        responses.setdefault(str(status), {"description": description, "content": problem})
    return responses


def _ecma(value: Any) -> Any:
    r"""Patterns as JSON Schema reads them: Python's `\Z` is `$` there."""
    if isinstance(value, dict):
        return {
            name: part.replace(r"\Z", "$") if name == "pattern" and isinstance(part, str) else _ecma(part)
            for name, part in value.items()
        }
    return [_ecma(part) for part in value] if isinstance(value, list) else value
