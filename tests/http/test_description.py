"""The description is one that clients can be generated from: every name is ours, everything is typed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from betimes.app.routes import ROUTES
from betimes.core.errors import Invalid
from betimes.http.openapi import openapi
from betimes.http.routes import PUBLIC, RequestContext, Route
from betimes.ledger.dry_run_view import DryRunView
from tests.http.served import Site, site

API: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(openapi(ROUTES, "1.0", DryRunView)))
SCHEMAS: dict[str, Any] = API["components"]["schemas"]
FREE = {
    ("AlternativeChange", "from"),
    ("AlternativeChange", "to"),
    ("DryRunAnswer", "body"),  # as the write would answer
    ("StreamDetail", "state"),
    ("SegmentView", "command"),
    ("TriedSegment", "command"),
    ("ExplanationView", "command"),
    ("PolicyCheck", "overrides"),  # also such that are not valid
    ("PolicyView", "overrides"),
    ("PolicyView", "effective"),
    ("PolicyWritten", "overrides"),
    ("PolicyWritten", "effective"),
    # Kept as it was set: an older version may lack today's fields and hold others. `GET /v1/policy/schema` has today's.
    ("PolicyVersion", "overrides"),
    ("NamedPolicy", "effective"),
    ("CandidateReport", "policy"),
    ("RunView", "result"),
    ("SensorView", "cursor"),
    ("SensorWritten", "cursor"),
    ("EvaluationView", "cursor"),
    ("EvaluationView", "cursor_before"),
    ("PolicyChange", "from"),
    ("PolicyChange", "to"),
}
"""Fields of answers that hold any JSON, by contract, besides what callers gave themselves."""


class Thing(msgspec.Struct):
    """A class of a name that another has too."""


def other_thing() -> type[msgspec.Struct]:
    return msgspec.defstruct("Thing", [("other", int)])


def nodes(value: Any, *path: str) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every object in the description, and where it is."""
    if isinstance(value, dict):
        yield path, value
        for name, part in value.items():
            yield from nodes(part, *path, name)
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from nodes(part, *path, str(place))


def described(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = API["paths"][route.path][route.method.lower()]
    return operation


def codes(route: Route, status: int) -> str:
    answer = described(route)["responses"].get(str(status), {})
    return str(answer.get("description", ""))


async def unanswered(request: RequestContext) -> None:
    raise AssertionError("nobody asks")


def test_types_have_short_names_of_their_own() -> None:
    assert [name for name in SCHEMAS if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name)] == []
    assert [name for name, schema in SCHEMAS.items() if schema["title"] != name] == []
    assert len({name.lower() for name in SCHEMAS}) == len(SCHEMAS), "files of generated clients may ignore case"


def test_two_types_of_one_name_are_refused() -> None:
    routes = [
        Route(method="GET", path=path, scope=PUBLIC, answer=unanswered, summary="x", tag="x", reply=kind)
        for path, kind in (("/a", Thing), ("/b", other_thing()))
    ]
    with pytest.raises(Invalid, match="both be described as Thing; rename one"):
        openapi(routes, "1.0")


def test_arrays_say_what_is_in_them() -> None:
    assert [path for path, node in nodes(API) if node.get("type") == "array" and "items" not in node] == []


def test_instants_are_date_times_wherever_they_are() -> None:
    names = re.compile(r".*_at|at|now|since|until|timestamp|.*_until|scheduled_for|next_check|last_(checked|executed)")
    wrong = [
        (name, field)
        for name, schema in SCHEMAS.items()
        for field, part in schema["properties"].items()
        if names.fullmatch(field) and "date-time" not in msgspec.json.encode(part).decode()
    ]
    assert wrong == []


def test_decimals_are_numbers_as_on_the_wire() -> None:
    assert [path for path, node in nodes(API) if node.get("format") == "decimal"] == []
    assert SCHEMAS["Score"]["properties"]["effective_score"]["type"] == "number"


def test_answers_are_typed_and_complete() -> None:
    for route in ROUTES:
        for status, answer in described(route)["responses"].items():
            for media_type, content in answer.get("content", {}).items():
                assert content["schema"], (route.path, status, media_type)
    for name in ("RunView", "IntentView", "TriggerVerdict", "EvaluationView", "Tick", "SweepResult", "Problem"):
        assert set(SCHEMAS[name]["required"]) == set(SCHEMAS[name]["properties"]), name


def test_fields_that_may_hold_anything_are_few_and_known() -> None:
    """An object without a shape is what a caller gave, or is on the list."""
    own = {"payload", "payloads", "metadata", "result", "trigger_data", "gate_result", "values", "event_details"}
    anything: tuple[dict[str, Any], ...] = ({}, {"type": "object", "additionalProperties": True})
    found = {
        (name, field)
        for name, schema in SCHEMAS.items()
        if schema.get("additionalProperties") is not False
        for field, part in schema["properties"].items()
        if {key: part[key] for key in part if key != "description"} in anything and field not in own
    }
    assert found <= FREE


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_problems_that_a_route_may_answer_are_named(route: Route) -> None:
    is_write = route.method != "GET" and not route.scope.endswith(":read") and not route.dry_run
    assert ("IDEMPOTENCY_CONFLICT" in codes(route, 409)) == (is_write and route.method in ("POST", "PATCH"))
    assert ("OUTCOME_UNKNOWN" in codes(route, 503)) == is_write
    assert "STORE_UNAVAILABLE" in codes(route, 503)
    assert ("MISSING_SCOPE" in codes(route, 403)) == (route.scope != PUBLIC)


def test_all_events_of_the_live_stream_are_described() -> None:
    content = API["paths"]["/v1/verdicts/stream"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    assert content["schema"] == {"type": "string"}
    assert content["x-events"] == {
        "verdict": {"$ref": "#/components/schemas/VerdictEvent"},
        "pulse": {"$ref": "#/components/schemas/Pulse"},
        "frame": {"$ref": "#/components/schemas/PulseFrame"},
    }
    assert SCHEMAS["Pulse"]["properties"]["since"]["format"] == "date-time"


def test_a_dry_run_has_the_body_that_the_write_would_answer_with() -> None:
    post = API["paths"]["/v1/triggers"]["post"]["responses"]["200"]["content"]
    answer, body = post["application/vnd.betimes.dry-run+json"]["schema"]["allOf"]
    assert answer == {"$ref": "#/components/schemas/DryRunAnswer"}
    assert body["properties"]["body"] == post["application/json"]["schema"]
    assert SCHEMAS["DryRunAnswer"]["properties"]["dry_run"]["$ref"] == "#/components/schemas/DryRunView"
    gone = API["paths"]["/v1/schedules/{schedule_id}"]["delete"]["responses"]["200"]["content"]
    assert gone["application/vnd.betimes.dry-run+json"]["schema"]["allOf"][1]["properties"]["body"] == {"type": "null"}


def test_a_patch_may_hold_any_field_and_null() -> None:
    patch = API["paths"]["/v1/schedules/{schedule_id}"]["patch"]["requestBody"]["content"]["application/json"]["schema"]
    assert patch == {"$ref": "#/components/schemas/SchedulePatch"}
    assert "required" not in SCHEMAS["SchedulePatch"]
    assert {"type": "null"} in SCHEMAS["SchedulePatch"]["properties"]["jitter_seconds"]["anyOf"]


async def test_a_key_used_for_something_else_is_the_conflict_that_is_described() -> None:
    async with site() as s:
        for path, first, second in (
            ("/v1/accounts/a/actions", {"count": 1}, {"count": 2}),
            ("/v1/incidents", {"ttl_seconds": 60}, {"ttl_seconds": 61}),
            ("/v1/tick", {"limit": 1}, {"limit": 2}),
        ):
            assert await _conflict(s, path, first, second) == (409, "IDEMPOTENCY_CONFLICT"), path
            assert "IDEMPOTENCY_CONFLICT" in _described_conflict(path), path


async def _conflict(s: Site, path: str, first: Any, second: Any) -> tuple[int, str]:
    assert (await s.client("POST", path, first, idempotency_key="k")).status < 300
    reply = await s.client("POST", path, second, idempotency_key="k")
    return reply.status, reply.json["code"]


def _described_conflict(path: str) -> str:
    route = next(
        one for one in ROUTES if one.method == "POST" and re.fullmatch(re.sub(r"{\w+}", "[^/]+", one.path), path)
    )
    return codes(route, 409)


async def test_headers_of_answers_are_described() -> None:
    """Of one thing that is written, read, held and repeated, whatever header of ours an answer has."""
    plan = {"cron": "0 8 * * *", "target": {"kind": "handler", "name": "brief"}}
    put_it = ("PUT", "/v1/schedules/brief", plan, "put")
    requests = [
        put_it,
        put_it,
        ("GET", "/v1/schedules/brief", None, None),
        ("PUT", "/v1/hold", {"domains": ["runs"], "until": "2026-01-06T09:00:00Z", "reason": "calm"}, None),
        ("PATCH", "/v1/schedules/brief", {"cron": "0 9 * * *"}, "patch"),
        ("PATCH", "/v1/schedules/brief", {"cron": "0 9 * * *"}, "patch"),
        ("POST", "/v1/schedules/brief/trigger", {}, "now"),
        ("DELETE", "/v1/schedules/brief", None, None),
    ]
    ours = {"betimes-segment", "betimes-hold", "etag", "location", "idempotency-replayed", "x-correlation-id"}
    seen: set[str] = set()
    async with site() as at:
        for method, path, body, key in requests:
            answer = await at.client(method, path, body, **({"idempotency_key": key} if key else {}))
            operation = API["paths"][path.replace("/brief", "/{schedule_id}")][method.lower()]
            told = {name.lower() for name in operation["responses"][str(answer.status)]["headers"]}
            found = ours & {name.lower() for name in answer.headers}
            assert found <= told, (method, path)
            seen |= found
    assert seen == ours
