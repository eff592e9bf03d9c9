"""OpenAPI 3.1, made from the routes: every path, parameter, header, body, answer and problem, described."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from betimes.catalogue import spell_scope
from betimes.core.segments import NOTE_CHARS_MAX
from betimes.domain.hold_view import HOLD_HEADER
from betimes.http.batches import Batch, Items
from betimes.http.dry_runs import MEDIA_TYPE, DryRunAnswer
from betimes.http.field_docs import fields_of
from betimes.http.problems import TITLES, Problem
from betimes.http.routes import ANY_KEY, PUBLIC, SEGMENT_HEADER, Route
from betimes.http.schemas import Schemas

_NAMES = re.compile(r"{(\w+)}")
KEYED = ((401, "UNAUTHENTICATED"), (403, "MISSING_SCOPE"), (429, "RATE_LIMITED"))
OF_TENANT = ((403, "TENANT_REQUIRED"),)
ALWAYS = (
    (422, "INVALID"),
    (500, "INTERNAL"),
    (500, "MALFORMED_ROW"),
    (500, "NEWER_VERSION"),
    (503, "OVERLOADED"),
    (503, "STORE_UNAVAILABLE"),
    (504, "TIMEOUT"),
)
WITH_KEY = ((409, "IDEMPOTENCY_CONFLICT"),)
RECORDED = ((503, "OUTCOME_UNKNOWN"),)
WITH_BODY = ((400, "MALFORMED_JSON"), (413, "BODY_TOO_LARGE"), (415, "UNSUPPORTED_MEDIA_TYPE"))
TAGS = {
    "Runs": "May this account's expensive decision run: ALLOW, DEFER or SKIP?",
    "Notifications": "Should this user be notified: NOW, LATER or NEVER?",
    "Intents": "Which stored requests are due, which worker claims them, may they fire?",
    "Automation": "Which clock ticks and outside changes must start a run, exactly once?",
    "Scores": "How far has a neglected score decayed, and has it reached 0?",
    "Effects": "Work outside a commit: handlers, webhooks, deliveries, commands.",
    "Time and history": "Passes over due work, a virtual clock, the ledger, and explanations.",
    "Backtests": "Other policies on the recorded traffic.",
    "Administration": "A tenant's policy, keys and webhook secret.",
    "Service": "Liveness, readiness, metrics and the API description.",
}
DESCRIPTION = """\
Every status of 400 or more has an `application/problem+json` body; `errors` lists all bad fields. \
Instants are ISO 8601 in UTC with `Z`. Lists take `limit` (1–200) and `cursor`. \
`Idempotency-Key` is honoured on every POST and PATCH: the same key and request give the recorded answer."""
_ID_CHARS = 200
_ID = "^[A-Za-z0-9_+][A-Za-z0-9._~:@+|=-]*$"
_NOTE_BYTES = 12 * NOTE_CHARS_MAX
"""Of a note in a header: a character has up to four bytes, and each becomes three characters."""
_LONG_IDS = {"segment_id": 300, "effect_id": 300}
_CORRELATION = ("X-Correlation-Id", "Recorded and echoed; generated if it is not sent.", 128, "")
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
_DRY_RUN = (
    ("Betimes-Dry-Run", "`true`: decide it and commit nothing. Needs the read scope instead of the write scope.", 5),
    ("Betimes-At", "Of a dry run: another instant, at most 366 days ahead; now, by default.", 40),
    ("Betimes-Policy", "Of a dry run: overrides of the policy in force, as JSON. Needs the scope admin.", 8192),
)
_NOTE = (
    "Betimes-Note",
    "A note for the ledger, such as the reason: up to 500 characters, percent-encoded UTF-8 if it is not ASCII.",
    _NOTE_BYTES,
    "",
)
_ANSWERED = {
    SEGMENT_HEADER: "The ledger segment that this request wrote; absent if nothing was written.",
    HOLD_HEADER: "The held domains, while the tenant has a hold.",
    "Idempotency-Replayed": "`true` if the answer is the recorded one of the same key.",
    "ETag": "The version, in quotes, which `If-Match` takes.",
    "Location": "The address of what was created.",
    "X-Correlation-Id": "The id that was sent, or a generated one.",
}
_LAST_EVENT = ("Last-Event-ID", "The id of the last event seen; without it, from now on.", 25, r"^\d{1,18}\.\d{1,6}$")


def openapi(routes: Iterable[Route], version: str, report: Any = Any) -> dict[str, Any]:
    """Return the description of the API, in which a dry run reports this type."""
    listed = [*routes]
    tried = msgspec.defstruct(DryRunAnswer.__name__, [("dry_run", report)], bases=(DryRunAnswer,))
    schemas = Schemas(kind for route in listed for kind in _sent_types(route))
    paths: dict[str, Any] = {}
    versioned = {route.path for route in listed if _takes_version(route)}
    for route in listed:
        operation = _operation(route, schemas, tried)
        headers = _response_headers(route, has_version=route.path in versioned)
        for status, response in operation["responses"].items():
            if status < "400":
                operation["responses"][status] = {**response, "headers": headers}
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    tags = dict.fromkeys(route.tag for route in listed)
    return {
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
            "schemas": dict(sorted(schemas.components.items())),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "bt_<id>_<secret>"}},
        },
    }


def _sent_types(route: Route) -> Iterator[Any]:
    if route.body_shape is not None:
        yield route.body_shape
    if route.batch_body is not None:
        yield route.batch_body[1]
    if route.batch_item is not None:
        yield route.batch_item


def _operation(route: Route, schemas: Schemas, tried: type[msgspec.Struct]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "tags": [route.tag],
        "summary": route.summary,
        "description": _description(route),
        "parameters": [*_path_parameters(route), *_query_parameters(route, schemas), *_header_parameters(route)],
        "responses": _responses(route, schemas, tried),
        "security": [] if route.scope == PUBLIC else [{"key": []}],
    }
    if route.takes_body:
        operation["requestBody"] = _request_body(route, schemas)
    return operation


def operation_id(route: Route) -> str:
    names = _NAMES.findall(route.path)
    words = [route.method.lower(), *re.findall(r"[A-Za-z0-9]+", _NAMES.sub("", route.path))]
    return "_".join([*words, *(["by", *names] if names else ())])


def _description(route: Route) -> str:
    scope = {PUBLIC: "Needs no key.", ANY_KEY: "Any key."}.get(route.scope, f"Scope: {spell_scope(route.scope)}.")
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


def _query_parameters(route: Route, schemas: Schemas) -> list[dict[str, Any]]:
    said = fields_of(route.query)
    return [
        {
            "name": field.encode_name,
            "in": "query",
            "required": field.required,
            **({"description": said[field.name]} if field.name in said else {}),
            "schema": _sendable(schemas.describe(field.type), field),
        }
        for field in msgspec.structs.fields(route.query)
    ]


def _sendable(schema: dict[str, Any], field: msgspec.structs.FieldInfo) -> dict[str, Any]:
    """A parameter is left out rather than sent as null."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    plain = {**schema, **options[0]} if len(options) == 1 else schema
    if plain is not schema:
        plain.pop("anyOf", None)
    if field.default not in (msgspec.NODEFAULT, None):
        plain = {**plain, "default": field.default}
    return plain


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    headers = [_CORRELATION] if route.scope != PUBLIC else []
    if route.takes_key and route.is_recorded:
        headers.append(_IDEMPOTENCY)
    if route.is_recorded and route.scope != PUBLIC:
        headers.append(_NOTE)
    if _takes_version(route):
        headers.append(_IF_MATCH)
    if route.can_be_tried:
        headers += [(name, says, chars, "^(true|false)$" if chars == 5 else "") for name, says, chars in _DRY_RUN]
    if route.events:
        headers.append(_LAST_EVENT)
    return [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": says,
            "schema": {
                "type": "string",
                "minLength": 1,
                "maxLength": chars,
                **({"pattern": pattern} if pattern else {}),
            },
        }
        for name, says, chars, pattern in headers
    ]


def _request_body(route: Route, schemas: Schemas) -> dict[str, Any]:
    schema = schemas.describe(route.body_shape)
    if route.batch:
        schema = {"anyOf": [schema, schemas.describe(_several(Items, route.batch_item or route.body_shape))]}
    content: dict[str, Any] = {"schema": schema}
    if route.example is not None:
        content["example"] = route.example
    described = {"application/json": content}
    if route.batch_body is not None:
        media_type, kind = route.batch_body
        described[media_type] = {"schema": schemas.describe(kind)}
    return {"required": not route.body_optional, "content": described}


def _several(generic: Any, kind: Any) -> Any:
    return generic[kind]


# -- what comes back


def _responses(route: Route, schemas: Schemas, tried: type[msgspec.Struct]) -> dict[str, Any]:
    if route.reply is None:
        responses: dict[str, Any] = {"204": {"description": "Done"}}
    else:
        schema = schemas.describe(route.reply)
        if route.batch or route.batch_body:
            schema = {"anyOf": [schema, schemas.describe(_several(Batch, route.batch_reply or route.reply))]}
        content = {route.media_type: {"schema": schema, **_events(route, schemas)}}
        responses = {str(route.status): {"description": route.summary, "content": content}}
        for status in (*((200,) if route.status == 201 else ()), *route.also):
            responses[str(status)] = responses[str(route.status)]
    if route.can_be_tried:
        plain = responses.get("200", {"description": "The result of a dry run", "content": {}})
        written = responses.get(str(route.status), {}).get("content", {}).get(route.media_type, {})
        # the body of a dry run is what the write itself would answer with
        body = {"properties": {"body": written.get("schema", {"type": "null"})}}
        envelope = {MEDIA_TYPE: {"schema": {"allOf": [schemas.describe(tried), body]}}}
        responses["200"] = {**plain, "content": {**plain["content"], **envelope}}
    problem = {"application/problem+json": {"schema": schemas.describe(Problem)}}
    for status, codes in sorted(_problems(route).items()):
        description = f"{TITLES[status]}: {', '.join(codes)}"
        responses.setdefault(str(status), {"description": description, "content": problem})
    return responses


def _takes_version(route: Route) -> bool:
    return any(status == 412 for status, _ in route.codes)


def _response_headers(route: Route, *, has_version: bool) -> dict[str, Any]:
    """Return the headers that an answer may have; none is always there."""
    names = {
        "X-Correlation-Id": route.scope != PUBLIC,
        HOLD_HEADER: route.scope not in (PUBLIC, ANY_KEY) and not route.deployment,
        SEGMENT_HEADER: route.is_recorded,
        "Idempotency-Replayed": route.takes_key and route.is_recorded,
        "ETag": has_version,
        "Location": route.status == 201,
    }
    return {
        name: {"description": _ANSWERED[name], "schema": {"type": "string"}} for name, may_be in names.items() if may_be
    }


def _problems(route: Route) -> dict[int, list[str]]:
    problems: dict[int, list[str]] = {}
    codes = [
        *(KEYED if route.scope != PUBLIC else ()),
        *(OF_TENANT if route.scope not in (PUBLIC, ANY_KEY) and not route.deployment else ()),
        *(WITH_BODY if route.takes_body else ()),
        *(((404, "NOT_FOUND"),) if "{" in route.path else ()),
        *(WITH_KEY if route.takes_key and route.is_recorded else ()),
        *ALWAYS,
        *(RECORDED if route.is_recorded else ()),
        *route.codes,
    ]
    for status, code in codes:
        if code not in problems.setdefault(status, []):
            problems[status].append(code)
    return problems


def _events(route: Route, schemas: Schemas) -> dict[str, Any]:
    """Return what the data of each server-sent event is; OpenAPI 3.1 has no word for it."""
    return {"x-events": {name: schemas.describe(kind) for name, kind in route.events.items()}} if route.events else {}
