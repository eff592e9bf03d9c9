"""Whatever is sent, the answer is one that the description names, and never a failure of ours.

Requests are made from the description itself: such as fit it, and such as do not. Each route has a site of its own, so
that nothing one request leaves behind is in the way of the next.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import cache, partial
from typing import Any
from urllib.parse import unquote, urlencode

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from betimes.app.routes import ROUTES
from betimes.http.openapi import openapi
from betimes.http.routes import Route
from tests.http.served import Reply, Site, site

API: Any = msgspec.json.decode(msgspec.json.encode(openapi(ROUTES, "1")))
SCHEMA = cache(partial(schemathesis.openapi.from_dict, API))
"""Made where it is needed: it takes a second, and every process of a test run reads this file."""
EXAMPLES = 6
ELSEWHERE = {404, 405}
"""A path that is another path, or none, once it is taken apart."""

pytestmark = [pytest.mark.simulator, pytest.mark.filterwarnings("ignore")]


def _asked() -> Iterator[Any]:
    """Every route with requests that fit and with such that do not, where anything can be wrong."""
    for route in ROUTES:
        name = f"{route.method} {route.path}"
        yield pytest.param(route, GenerationMode.POSITIVE, id=f"{name} fitting")
        described = API["paths"][route.path][route.method.lower()]
        if described["parameters"] or "requestBody" in described:
            yield pytest.param(route, GenerationMode.NEGATIVE, id=f"{name} unfitting")


@pytest.mark.parametrize(("route", "mode"), [*_asked()])
def test_no_request_makes_it_fail(route: Route, mode: GenerationMode) -> None:
    operation = SCHEMA()[route.path][route.method]
    described = API["paths"][route.path][route.method.lower()]
    with asyncio.Runner() as runner:
        context = site()
        s = runner.run(context.__aenter__())

        @settings(
            max_examples=EXAMPLES,
            database=None,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def holds(case: Any) -> None:
            reply = runner.run(_sent(s, case))
            seen = (reply.status, reply.raw[:2_000])
            assert reply.status < 500, seen
            assert str(reply.status) in described["responses"] or reply.status in ELSEWHERE, seen
            if reply.status >= 400:
                assert reply.headers["content-type"] == "application/problem+json"
                assert reply.json["code"], seen

        try:
            holds()
        finally:
            runner.run(context.__aexit__(None, None, None))


async def _sent(s: Site, case: Any) -> Reply:
    headers = {} if isinstance(case.headers, schemathesis.core.NotSet) else dict(case.headers or {})
    raw = _raw(case.body)
    if raw:
        headers.setdefault("Content-Type", case.media_type or "application/json")
    query = {} if isinstance(case.query, schemathesis.core.NotSet) else case.query or {}
    spelt = urlencode(query, doseq=True, errors="replace").encode()
    texts = {name: str(value) for name, value in headers.items()}
    return await s.client.send(case.method, unquote(case.formatted_path), spelt, texts, raw)


def _raw(body: Any) -> bytes:
    if isinstance(body, schemathesis.core.NotSet):
        return b""
    return body if isinstance(body, bytes) else json.dumps(body).encode()
