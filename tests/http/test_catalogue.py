"""What holds of every route there is."""

from __future__ import annotations

import re

import msgspec
import pytest

from betimes.app.routes import ROUTES
from betimes.backtest import routes as backtests
from betimes.catalogue import SCOPES
from betimes.http.openapi import openapi
from betimes.http.routes import PUBLIC, Route
from betimes.intents import routes as intents
from betimes.notifications import routes as notifications
from betimes.schedules import routes as automation
from betimes.scores import routes as scores
from tests.http.served import site
from tests.http.test_auth import made

OF_DOMAINS = (*notifications.ROUTES, *intents.ROUTES, *automation.ROUTES, *scores.ROUTES, *backtests.ROUTES)


def name(route: Route) -> str:
    return f"{route.method} {route.path}"


def target(route: Route) -> str:
    return re.sub(r"{\w+}", "x", route.path)


@pytest.mark.parametrize("route", ROUTES, ids=name)
def test_every_route_says_what_it_is(route: Route) -> None:
    assert route.summary
    assert route.tag
    assert not route.summary.endswith(".")
    assert route.reply is not None or route.method in ("DELETE", "POST")
    assert route.scope == PUBLIC or route.scope


def test_no_two_routes_are_the_same() -> None:
    assert len({name(route) for route in ROUTES}) == len(ROUTES)


def test_all_routes_are_described_under_names_of_their_own() -> None:
    described = msgspec.json.decode(msgspec.json.encode(openapi(ROUTES, "1.0")))
    operations = [operation for path in described["paths"].values() for operation in path.values()]
    assert len(operations) == len(ROUTES)
    assert len({operation["operationId"] for operation in operations}) == len(ROUTES)
    sent = described["paths"]["/v1/intents"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert sent["$ref"].endswith("/Draft")


def test_references_in_the_description_lead_somewhere() -> None:
    text = msgspec.json.encode(openapi(ROUTES, "1.0")).decode()
    schemas = msgspec.json.decode(text)["components"]["schemas"]
    assert set(re.findall(r'"#/components/schemas/([^"]+)"', text)) <= set(schemas)


async def test_without_a_key_no_route_of_the_domains_answers() -> None:
    async with site(dev=False) as s:
        for route in OF_DOMAINS:
            reply = await s.client(route.method, target(route), {})
            assert (name(route), reply.status, reply.json["code"]) == (name(route), 401, "UNAUTHENTICATED")
            assert reply.headers["www-authenticate"] == "Bearer"


async def test_a_key_without_the_scope_is_told_which_one_it_lacks() -> None:
    async with site(dev=False) as s:
        keys: dict[str, str] = {scope: await made(s, *(set(SCOPES) - {scope, "admin"})) for scope in SCOPES}
        for route in OF_DOMAINS:
            reply = await s.with_key(keys[route.scope])(route.method, target(route), {})
            assert (name(route), reply.status, reply.json["code"]) == (name(route), 403, "MISSING_SCOPE")
            assert route.scope in reply.json["detail"]


async def test_a_key_with_the_scope_alone_gets_past_the_guard() -> None:
    async with site(dev=False) as s:
        keys: dict[str, str] = {scope: await made(s, scope) for scope in SCOPES}
        for route in OF_DOMAINS:
            reply = await s.with_key(keys[route.scope])(route.method, target(route), {})
            assert (name(route), reply.status in (401, 403)) == (name(route), False)
            assert reply.status < 500


async def test_an_id_that_nothing_can_have_is_named_by_its_place_in_the_path() -> None:
    async with site() as s:
        for route in OF_DOMAINS:
            names = [part for part in re.findall(r"{(\w+)}", route.path) if part != "incident_id"]
            if not names:
                continue
            reply = await s.client(route.method, re.sub(r"{\w+}", "a b", route.path), {})
            assert reply.status == 422
            found = [error["path"] for error in reply.json["errors"]]  # those of the body too
            assert [path for path in found if path.startswith("path.")] == [f"path.{part}" for part in names]


def test_every_operation_that_takes_a_key_says_what_another_request_under_it_is_told() -> None:
    for path, methods in openapi(ROUTES, "1")["paths"].items():
        for method, operation in methods.items():
            if "Idempotency-Key" in {parameter["name"] for parameter in operation["parameters"]}:
                conflict = operation["responses"].get("409", {"description": f"{method} {path} has none"})
                assert "IDEMPOTENCY_CONFLICT" in conflict["description"]
