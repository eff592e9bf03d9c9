"""Requests with extreme values in every field of every route, made from the routes and their types, from a seed.

A route that is added is covered by itself: its path, query, headers and body are read from the table of routes. Most of
a request fits, so that it gets past the door; one or two of its fields hold something extreme.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import quote, urlencode

import msgspec

from betimes.api.routes import Route
from tests.api.served import Client, Reply

INSTANTS = (
    "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:00", "1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00Z",
    "1970-01-01T00:00:00+00:01", "2026-01-05T09:00:00", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-23:59",
    "9998-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2025-06-01T00:00:00+14:00", "now",
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 10**309, 253402300799, 253402300800, 0.1, 1e308,
    5e-324, -0.0, 1e15, 0.0000001,
)  # fmt: skip
TEXTS = (
    "", " ", "a", "\0", "a\0b", "NaN", "Infinity", "-inf", "1e999999", "null", "true", "../..", "a:b", "%00", "🕰" * 64,
    "x" * 201, "x" * 70_000, "\u202e", "\ufeff", "'; --", "Europe/Berlin", "* * * * *", "0 0 30 2 *", "https://[::1:8/x",
    "http://a", "1" * 5_000,
)  # fmt: skip
ODD: tuple[Any, ...] = (None, True, [], {}, [None], {"": None}, [[[]]], {"a": {"b": {"c": [1]}}}, "x", 7, 1.5)
DEEP = b'{"payload":' + b"[" * 600 + b"]" * 600 + b"}"
RAW = (b"", b"{", b"\xff\xfe", b'"\\ud800"', b'{"a":"\\ud800"}', b"nul", b"[]", b"1e999", b'{"a":1e400}', DEEP)
IDS = ("a", "u-1", "brief", "orders", "x" * 200, "account:a:1", "run:x:1", "global:1", "user:1:u-1", "account:a:1:0")
SKIPPED = frozenset({"/v1/verdicts/stream", "/v1/clock"})
"""What does not end by itself, or moves time for everybody."""


class Extremes:
    """Makes requests; the same seed makes the same ones."""

    def __init__(self, routes: tuple[Route, ...], seed: int) -> None:
        self._random = Random(seed)
        self._routes = [route for route in routes if route.path not in SKIPPED]

    def requests(self, count: int) -> Iterator[tuple[Route, str, str, dict[str, str], bytes]]:
        """Yield that many: every route in turn."""
        for number in range(count):
            yield self._request(self._routes[number % len(self._routes)])

    def _request(self, route: Route) -> tuple[Route, str, str, dict[str, str], bytes]:
        names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
        path = route.path
        for name in names:
            path = path.replace(f"{{{name}}}", quote(self._pick((*IDS, *IDS, *TEXTS[2:12])), safe=""))
        fields = msgspec.structs.fields(route.query)
        query = {field.encode_name: str(self._value(field.type)) for field in fields if self._chance(3)}
        return route, path, urlencode(query, errors="replace"), self._headers(), self._body(route)

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        for name in ("idempotency-key", "if-match", "if-none-match", "x-correlation-id", "last-event-id"):
            if self._chance(12):
                headers[name] = str(self._pick(('"3"', "*", '"99999999999999999999"', *TEXTS[:12], "k-1")))
        return headers

    def _body(self, route: Route) -> bytes:
        shape = route.body_shape
        if shape is None or self._chance(30):
            return self._pick(RAW) if shape is not None else b""
        value = self._value(shape, wild=40)
        if route.batch and self._chance(4):
            value = {"items": [value, self._value(shape, wild=40)]}
        return msgspec.json.encode(value)

    def _value(self, kind: Any, wild: int = 4, depth: int = 0) -> Any:
        """Return a value that mostly fits the type, at its edges; one in `wild` is of another."""
        if self._chance(wild):
            return self._pick((*ODD, *NUMBERS, *TEXTS, *INSTANTS))
        origin = get_origin(kind)
        if origin is Annotated:
            return self._within(kind, depth)
        if origin in (Union, types.UnionType):
            members = [member for member in get_args(kind) if member is not type(None)]
            return self._value(self._pick(members), wild=10, depth=depth)
        if origin is Literal:
            return self._pick(get_args(kind))
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self._struct(kind, depth)
        if origin in (list, tuple):
            return [self._value(get_args(kind)[0], depth=depth + 1) for _ in range(self._random.randint(0, 2))]
        if origin is dict:
            return {self._pick(TEXTS): self._value(get_args(kind)[1], depth=depth + 1)}
        return self._plain(kind)

    def _plain(self, kind: Any) -> Any:
        if kind is bool:
            return self._chance(2)
        if kind is datetime:
            return self._pick(INSTANTS)
        if kind in (int, float, Decimal):
            return self._pick(NUMBERS)
        return self._pick(TEXTS if kind is str else (*ODD, *TEXTS, *NUMBERS))

    def _within(self, kind: Any, depth: int) -> Any:
        meta = next((meta for meta in kind.__metadata__ if isinstance(meta, msgspec.Meta)), msgspec.Meta())
        edges = [edge for edge in (meta.ge, meta.le) if edge is not None]
        if edges:
            return self._pick((*edges, edges[0] - 1, edges[-1] + 1))
        if meta.pattern is not None:
            return self._pick((*IDS[:6], "SIGNAL_ARRIVED", "brief", "07:00", "https://example.org/x", *TEXTS[:4]))
        return self._value(get_args(kind)[0], depth=depth)

    def _struct(self, kind: type[msgspec.Struct], depth: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        if kind.__struct_config__.tag_field:
            value[kind.__struct_config__.tag_field] = kind.__struct_config__.tag
        for field in msgspec.structs.fields(kind):
            if (field.required and not self._chance(50)) or self._chance(4 + 4 * depth):
                value[field.encode_name] = self._known(field.encode_name) or self._value(field.type, depth=depth + 1)
        if self._chance(40):
            value["no such field"] = 1
        return value

    def _known(self, name: str) -> Any:
        """Return a value that policies and calendars know, mostly, for fields that otherwise nothing gets past."""
        known: dict[str, tuple[Any, ...]] = {
            "trigger_type": ("SIGNAL_ARRIVED", "interval", "cron", "price"), "event_type": ("MESSAGE", "PROMO"),
            "channels": (["push"], ["email", "push"]), "cron": ("0 7 * * *", "*/5 * * * *"),
            "timezone": ("Europe/Berlin", "UTC"), "user_id": ("u-1", "u-2"), "account_id": ("a", "b"),
            "type": ("text", "portal"), "game_status": ("active", "boss_fight"), "kind": ("account", "score"),
        }  # fmt: skip
        return self._pick(known[name]) if name in known and not self._chance(3) else None

    def _chance(self, one_in: int) -> bool:
        return self._random.randrange(one_in) == 0

    def _pick(self, values: Any) -> Any:
        return values[self._random.randrange(len(values))]


async def send(client: Client, request: tuple[Route, str, str, dict[str, str], bytes]) -> Reply:
    route, path, query, headers, raw = request
    return await client.send(route.method, path, query.encode(), {"x-tenant": "default", **headers}, raw)


async def read_lists(client: Client, routes: tuple[Route, ...]) -> list[tuple[str, int, bytes]]:
    """Read every list and every singleton, from its first page to its last; return what failed."""
    failed = []
    for route in routes:
        if route.method != "GET" or route.path in SKIPPED:
            continue
        for id in ("a", "u-1", "brief", "orders") if "{" in route.path else ("",):
            path = route.path
            while "{" in path:
                path = path[: path.index("{")] + id + path[path.index("}") + 1 :]
            reply = await client.send("GET", path, b"", {"x-tenant": "default"}, b"")
            pages = 0
            while reply.status == 200 and b'"next_cursor":"' in reply.raw and pages < 200:
                query = urlencode({"cursor": reply.json["next_cursor"]}).encode()
                reply, pages = await client.send("GET", path, query, {"x-tenant": "default"}, b""), pages + 1
            if reply.status >= 500 and reply.status != 501:
                failed.append((path, reply.status, reply.raw[:300]))
    return failed
