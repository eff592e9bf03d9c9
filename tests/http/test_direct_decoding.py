"""Bodies decoded straight into their type: whatever passes that way passes the long way too, as the same value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from betimes.app.routes import ROUTES
from betimes.core.bounds import direct_decoder
from betimes.core.checks import Examined, examine
from betimes.core.errors import Invalid
from betimes.http import request_decoder
from betimes.http.problems import HttpProblem
from betimes.http.request_decoder import body_of, decode_directly, json_of
from betimes.http.routes import Route
from tests.http.extremes import INSTANTS, NUMBERS, ODD, RAW, TEXTS, WHOLE

JSON = "application/json"
DIRECT = [route for route in ROUTES if not route.read_only and direct_decoder(route.usual_body or route.body)]
PIECES = (
    b'"\\u0000"',
    b'"\\ud800"',
    b'"\\ud83d\\ude00"',
    b'"\xed\xa0\x80"',
    b"1.0",
    b"1e2",
    b"1e400",
    b"2.2250738585072011e-308",
    b"0." + b"1" * 400,
    b'{"a":' + b"1" * 302 + b"}",
    b'{"a":"\\u0000"}',
    b'{"\\u0000":1}',
    b"[" * 31 + b"]" * 31,
    b"[" * 40 + b"]" * 40,
    b'{"a":NaN}',
)


def _bodies(route: Route) -> Iterator[bytes]:
    """Yield bodies of a route with something extreme in each of its fields, and with fields it does not know."""
    whole = dict(route.example or WHOLE.get(route.path) or {})
    pieces = [msgspec.json.encode(value) for value in (*INSTANTS, *NUMBERS, *TEXTS, *ODD)]
    for name in [field.encode_name for field in msgspec.structs.fields(route.usual_body or route.body)]:
        rest = msgspec.json.encode({other: value for other, value in whole.items() if other != name})[1:]
        for piece in (*pieces, *PIECES):
            yield b'{"%s":%s%s%s' % (name.encode(), piece, b"," if rest != b"}" else b"", rest)
    for extra in ("tenant_id", "correlation_id", "idempotency_key", "version", "nobody", "items"):
        yield msgspec.json.encode({**whole, extra: "x" * 129})
        yield msgspec.json.encode({**whole, extra: "x"})
    yield from RAW


def _the_long_way(route: Route, raw: bytes) -> Any:
    """Return the body as the checker leaves it, or `None` if it is refused."""
    try:
        found = body_of(route, json_of(raw, JSON), tenant="t", key=None).value
        sound = found.whole() if isinstance(found, Examined) else found
        return sound if route.usual_body is None else examine(sound, route.usual_body).whole()
    except (Invalid, HttpProblem):
        return None


@pytest.mark.parametrize("route", DIRECT, ids=lambda route: route.path)
def test_what_is_decoded_directly_is_what_the_checker_makes_of_it(route: Route) -> None:
    for raw in _bodies(route):
        direct = decode_directly(route, raw, JSON)
        if direct is not None:
            assert direct == _the_long_way(route, raw), raw


def test_the_door_is_as_strict_for_what_the_types_cannot_say(monkeypatch: pytest.MonkeyPatch) -> None:
    [route] = [route for route in DIRECT if route.path == "/v1/notifications"]
    passed = [raw for raw in _bodies(route) if decode_directly(route, raw, JSON)]
    assert passed
    monkeypatch.setattr(request_decoder, "is_within_bounds", lambda body: True)
    lax = [raw for raw in _bodies(route) if decode_directly(route, raw, JSON) and raw not in passed]
    assert [raw for raw in lax if _the_long_way(route, raw) is not None] == []
    assert any(b"\\u0000" in raw for raw in lax)
    assert any(b"0001-01-01" in raw for raw in lax)


@pytest.mark.parametrize("path", ["/v1/notifications", "/v1/triggers"])
def test_an_ordinary_request_is_decoded_once(path: str) -> None:
    [route] = [route for route in DIRECT if route.path == path]
    assert decode_directly(route, msgspec.json.encode(route.example), JSON) is not None
    assert decode_directly(route, msgspec.json.encode({"items": [route.example]}), JSON) is None
    assert decode_directly(route, msgspec.json.encode(route.example), "text/plain") is None
