"""The decoder of requests: from bytes to the values a handler is given, bounded and checked.

Every problem is named by the path of its field, and all of them are reported together.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any
from urllib.parse import unquote

import msgspec

from betimes.core.bounds import (
    INTEGER_MAX,
    NAME_CHARS_MAX,
    VALUES_MAX,
    check_cost,
    decode_json,
    direct_decoder,
    fields_of_fractions,
    has_long_number,
    is_within_bounds,
    join_path,
    scan,
    text_problem,
)
from betimes.core.checks import DEPTH_MAX, Examined, Findings, examine, problems, refusal, suggest_names, within_depth
from betimes.core.errors import Invalid
from betimes.core.names import Id
from betimes.core.problem_texts import describe_problem
from betimes.core.segments import NOTE_CHARS_MAX
from betimes.http.problems import HttpProblem
from betimes.http.routes import BODY_BYTES_MAX, Route, is_version

TOML_BYTES_MAX = 256 * 1024
TOML_LINE_DOTS_MAX = 100
"""A key with dots takes `tomllib` time by the square of their number, and every line below a table by that number."""
DIRECT_BYTES_MAX = 8 * 1024
"""Of a body that is decoded straight into its type: the decoder of types has no guard against slow numbers."""
CORRELATION_CHARS_MAX = 128
Correlation = Annotated[str, msgspec.Meta(max_length=CORRELATION_CHARS_MAX)] | None
Version = Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MAX)] | None
FIELDS_MAX = 100
"""Of a body that a service checks itself: no definition has more, and what has is refused before anybody walks it."""
KEY_FIELD = "idempotency_key"
KEY_HEADER = "header.idempotency-key"
NOTE_HEADER = "betimes-note"
HANDLES = frozenset({"segment_id", "effect_id", "incident_id", "key_id"})
"""Parameters of paths that are made of ids, and checked where they are taken apart."""


def decode_directly(route: Route, raw: bytes, content_type: str | None) -> Any:
    """Return a sound body as the route's type, decoded once; `None` for one that has to be looked at part by part.

    That is every body in which anything is wrong, and whatever it may carry besides its type: the header's key, fields
    of an answer that are sent back, the version it is conditional on, a batch. What passes here would pass
    there, and as the same value.
    """
    decoder = direct_decoder(route.usual_body or route.body)
    if decoder is None or route.read_only or (route.codes and route.is_conditional) or len(raw) > DIRECT_BYTES_MAX:
        return None
    if content_type != "application/json" or has_long_number(raw):
        return None
    try:
        body = decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError, Invalid):
        return None
    # Fractions go by way of a float elsewhere: read straight from the text, some would be another number.
    if any(getattr(body, name) is not None for name in fields_of_fractions(body.__class__)):
        return None
    is_traceable = len(getattr(body, "correlation_id", None) or "") <= CORRELATION_CHARS_MAX
    return body if is_traceable and is_within_bounds(body) else None


def json_of(raw: bytes, content_type: str | None, values_max: int = VALUES_MAX) -> Any:
    """Return the body as JSON values; raise 413, 415 or 400 if it is too large, of another type, or malformed."""
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


def is_toml(content_type: str | None) -> bool:
    return (content_type or "").partition(";")[0].strip().lower() == "application/toml"


def toml_of(raw: bytes, values_max: int = VALUES_MAX) -> Any:
    """Return a TOML document as JSON values; raise 413 if it is too large, and `Invalid` with the line if malformed."""
    if len(raw) > TOML_BYTES_MAX:
        raise HttpProblem(413, "BODY_TOO_LARGE", f"A document in TOML has at most {TOML_BYTES_MAX:,} bytes.")
    if any(line.count(b".") > TOML_LINE_DOTS_MAX for line in raw.splitlines()):
        raise HttpProblem(413, "BODY_TOO_LARGE", f"A line of TOML has at most {TOML_LINE_DOTS_MAX} dots.")
    try:
        check_cost(raw, values_max)
        value = msgspec.to_builtins(tomllib.loads(raw.decode()))
    except (tomllib.TOMLDecodeError, UnicodeError, RecursionError, OverflowError) as error:
        place = re.search(r"at line (\d+)", str(error))
        line = f"line {place[1]}" if place else "end" if "end of document" in str(error) else ""
        raise Invalid(f"the body is not TOML: {error}", ((line, str(error)),)) from None
    if not within_depth(value, DEPTH_MAX):
        raise Invalid(f"the body is nested more than {DEPTH_MAX} levels deep", (("", f"at most {DEPTH_MAX} levels"),))
    return value


def query_of(route: Route, sent: Mapping[str, str], found: Findings) -> Any:
    """Return the query's parameters as the route's type: texts become numbers and truths.

    Wrong parameters are added to the findings and left out; `None` if a required one is among them.
    """
    if not sent and (defaults := _default_query(route.query)):
        return defaults
    fields, sound = _fields(route.query), dict(sent)
    for name, value in sent.items():
        if problem := _parameter_problem(name, fields, value):
            found.add(f"query.{name[:NAME_CHARS_MAX]}", problem)
            del sound[name]
    missing = [name for name in fields if fields[name].required and name not in sound]
    found.extend((f"query.{name}", "is required") for name in missing if name not in sent)
    return None if missing else msgspec.convert(sound, route.query, strict=False)


@cache
def _default_query(kind: type[msgspec.Struct]) -> msgspec.Struct | None:
    return None if any(field.required for field in msgspec.structs.fields(kind)) else kind()


def _parameter_problem(name: str, fields: Mapping[str, msgspec.structs.FieldInfo], value: str) -> str:
    field = fields.get(name)
    if field is None:
        return f"no such parameter; {suggest_names(name, fields)}"
    try:
        converted = msgspec.convert(value, field.type, strict=False)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        return describe_problem(str(error), field.type)[1]
    return text_problem(value) or next((message for _, message in scan(converted, field.type)), "")


class Body(msgspec.Struct, frozen=True):
    """A body as the route's type, and what it carries besides."""

    value: Any
    correlation: str | None = None
    key: str | None = None


def body_of(
    route: Route, value: Any, *, tenant: str, key: str | None, path: str = "", outside: Findings | None = None
) -> Body:
    """Return the checked body; `key` is that of the header, if there is one.

    Problems found outside of the body are reported together with those in it.
    """
    found, correlation = outside or Findings(), None
    if isinstance(value, dict):
        if route.is_conditional:
            found.extend(problems("version", value.get("version"), Version))
        # An answer may be sent back as it came: what only answers have is left out, not refused.
        value = {name: part for name, part in value.items() if name not in route.read_only}
        fields = _fields(route.body_shape)
        if "tenant_id" in value and "tenant_id" not in fields and value.pop("tenant_id") != tenant:
            found.add(join_path(path, "tenant_id"), "differs from the key's tenant")
        if "correlation_id" in value:
            correlation = value["correlation_id"] if "correlation_id" in fields else value.pop("correlation_id")
            found.extend(problems(join_path(path, "correlation_id"), correlation, Correlation))
        if route.key_field:
            value = _with_key(value, route.key_field, key, path, found)
        elif KEY_FIELD in value and KEY_FIELD not in fields and route.method in ("POST", "PATCH"):
            own = value.pop(KEY_FIELD)
            _with_key({KEY_FIELD: own}, KEY_FIELD, key, path, found)
            if key is None:
                found.extend(problems(join_path(path, KEY_FIELD), own, Id))
                key = own
    return Body(_examine_body(route, value, path, found), correlation, key)


def _examine_body(route: Route, value: Any, path: str, found: Findings) -> Any:
    """Return the body as its type; where the handler has rules of its own, as far as it is sound, with the problems."""
    if route.described_body is not None and isinstance(value, dict) and len(value) > FIELDS_MAX:
        examine(value, route.body_shape, path).whole()
    if route.body is Any and not found.total:
        return value
    is_refused = found.total and not route.judges_body  # then nobody else says what its described type does
    examined: Examined[Any] = examine(value, route.body_shape if is_refused else route.body, path)
    known = {place for place, _ in examined.found.first}
    examined.found.extend(problem for problem in found.first if problem[0] not in known)
    return examined if route.judges_body else examined.whole()


def address_problems(route: Route, parameters: Mapping[str, str], headers: Mapping[str, str]) -> Findings:
    """Return what is wrong with the ids in the path, which nothing can have, and with the headers the route reads."""
    found = Findings()
    for name, value in parameters.items():
        if name not in HANDLES:
            found.extend(problems(f"path.{name}", value, Id))
    if (key := headers.get("idempotency-key")) is not None:
        found.extend(problems(KEY_HEADER, key, Id))
    if route.codes and route.is_conditional and not is_version(headers.get("if-match", "*")):
        found.add("header.if-match", 'a version in quotes, such as "3"')
    return found


def note_of(header: str) -> str:
    """Return the note in a header: UTF-8, percent-encoded where a client can send only ASCII; raise `Invalid`."""
    try:
        # Headers come as Latin-1, whatever was sent.
        note = unquote(header.encode("latin-1").decode(), errors="strict").strip()
    except UnicodeError:
        raise refusal("header", [(f"header.{NOTE_HEADER}", "not UTF-8")]) from None
    problem = text_problem(note)
    if len(note) > NOTE_CHARS_MAX:
        problem = f"at most {NOTE_CHARS_MAX} characters, not {len(note):,}"
    if problem:
        raise refusal("header", [(f"header.{NOTE_HEADER}", problem)])
    return note


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
        found.add(join_path(path, field), "differs from the header Idempotency-Key")
    # A wrong key is named as the header's; in the body it would be named again, and without it, as missing.
    return {**value, field: "wrong" if found.touches(KEY_HEADER) else key}
