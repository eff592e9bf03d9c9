"""Requests with extreme values in every field of every route, made from the routes and their types, from a seed.

A route that is added is covered by itself: its path, query, headers and body are read from the table of routes. Most of
a request fits and is about what earlier answers showed, so that it gets past the door; one or two of its fields hold
something extreme.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from functools import cache
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import urlencode

import msgspec

from betimes.app import Betimes
from betimes.app.routes import ROUTES
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.routes import Route
from betimes.http.server import serve
from tests.http.populated import ask, list_paths, populate, write_report
from tests.http.served import Client, Reply

INSTANTS = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:00",
    "1969-12-31T23:59:59.999999Z",
    "1970-01-01T00:00:00Z",
    "1970-01-01T00:00:00+00:01",
    "2026-01-05T09:00:00",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-23:59",
    "9998-01-01T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2025-06-01T00:00:00+14:00",
    "now",
)
NUMBERS = (
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    10**30,
    10**309,
    253402300799,
    253402300800,
    0.1,
    1e308,
    5e-324,
    -0.0,
    1e15,
    0.0000001,
)
TEXTS = (
    "",
    " ",
    "a",
    "\0",
    "a\0b",
    "NaN",
    "Infinity",
    "-inf",
    "1e999999",
    "null",
    "true",
    "../..",
    "a:b",
    "%00",
    "🕰" * 64,
    "x" * 201,
    "x" * 70_000,
    "\u202e",
    "\ufeff",
    "'; --",
    "Europe/Berlin",
    "* * * * *",
    "0 0 30 2 *",
    "https://[::1:8/x",
    "http://a",
    "1" * 5_000,
)
ODD: tuple[Any, ...] = (None, True, [], {}, [None], {"": None}, [[[]]], {"a": {"b": {"c": [1]}}}, "x", 7, 1.5)
DEEP = b'{"payload":' + b"[" * 600 + b"]" * 600 + b"}"
RAW = (b"", b"{", b"\xff\xfe", b'"\\ud800"', b'{"a":"\\ud800"}', b"nul", b"[]", b"1e999", b'{"a":1e400}', DEEP)
IDS = ("a", "u-1", "brief", "orders", "x" * 200, "account:a:1", "run:x:1", "global:1", "user:1:u-1", "account:a:1:0")
SKIPPED = frozenset({"/v1/verdicts/stream", "/v1/clock", "/openapi.json", "/docs"})
"""What does not end by itself, moves time for everybody, or is the same for all."""


SWEEP = {"kind": "sweep"}
CALM: dict[str, tuple[Any, ...]] = {
    "trigger_type": ("SIGNAL_ARRIVED",),
    "channels": (["push"], ["in_app"]),
    "timezone": ("Europe/Berlin", "UTC"),
    "user_id": ("u-1", "u-2"),
    "account_id": ("a", "b"),
    "type": ("text", "portal"),
    "kind": ("account", "score"),
    "game_status": ("active", "boss_fight"),
    "cron": ("0 7 * * *", "*/5 * * * *"),
    "target": (SWEEP,),
    "overrides": ({}, {"runs": {}}),
    "reason": ("fire",),
    "scopes": (["runs:read"],),
    "worker_id": ("w",),
    "from": ("2026-01-01T00:00:00Z",),
    "to": ("2026-01-05T00:00:00Z",),
    "at": ("2026-01-06T00:00:00Z",),
}
"""What policies and calendars know, by the name of the field; the types say what fits the others."""
NOTE = {"user_id": "u-1", "event_type": "MESSAGE", "title": "t", "message": "m", "source": "s", "channels": ["in_app"]}
INTENT = {
    "user_id": "u-1",
    "trigger_type": "interval",
    "schedule": {"interval_minutes": 60},
    "action_type": "notify",
    "action_context": "Look.",
}
WHOLE: dict[str, Any] = {
    "/v1/notifications": NOTE,
    "/v1/notifications/classify": NOTE,
    "/v1/intents": INTENT,
    "/v1/intents/check": INTENT,
    "/v1/intents/{intent_id}": INTENT,
    "/v1/schedules": {"cron": "0 7 * * *", "target": SWEEP},
    "/v1/schedules/{schedule_id}": {"cron": "0 7 * * *", "target": SWEEP},
    "/v1/schedules/preview": {"cron": "0 7 * * *"},
    "/v1/sensors": {"sensor_type": "push", "target": SWEEP},
    "/v1/sensors/{sensor_id}": {"sensor_type": "push", "target": SWEEP},
    "/v1/scores/{user_id}/adjust": {"delta": 1},
    "/v1/sensors/{sensor_id}/messages": {"message_id": "m", "data": {"a": 1}},
    "/v1/users/{user_id}/inbox/read": {"all": True},
    "/v1/backtests": {"policy": {}, "domain": "runs"},
}
"""Bodies of routes whose fields depend on each other."""
SHOWN_MAX = 50
fields_of = cache(msgspec.structs.fields)


class Extremes:
    """Makes requests; the same seed and the same answers make the same ones."""

    def __init__(self, routes: tuple[Route, ...], seed: int) -> None:
        self._random = Random(seed)
        self._routes = [route for route in routes if route.path not in SKIPPED]
        self._shown: dict[str, list[Any]] = {}
        """Ids that answers showed, by the name of their field: paths use the same names."""

    def requests(self, count: int) -> Iterator[tuple[Route, str, str, dict[str, str], bytes]]:
        """Yield that many: every route in turn."""
        for number in range(count):
            yield self._request(self._routes[number % len(self._routes)])

    def learn(self, reply: Reply) -> None:
        """Remember the ids in an answer, so that later requests are about what is there."""
        if reply.status < 300 and reply.raw[:1] in (b"{", b"["):
            self._learn(reply.json)

    def _learn(self, value: Any) -> None:
        for part in value if isinstance(value, list) else ():
            self._learn(part)
        for name, part in value.items() if isinstance(value, dict) else ():
            if isinstance(part, str | int) and name.endswith(("_id", "_key", "_token", "_version")):
                self._shown.setdefault(name, []).append(part)
                del self._shown[name][:-SHOWN_MAX]
            else:
                self._learn(part)

    def _request(self, route: Route) -> tuple[Route, str, str, dict[str, str], bytes]:
        path = route.path
        for name in [part[1:-1] for part in path.split("/") if part.startswith("{")]:
            known = [*self._shown.get(name, ()), *CALM.get(name, ())]
            id = self._pick(known) if known and not self._chance(8) else self._pick((*IDS, *TEXTS[2:12]))
            path = path.replace(f"{{{name}}}", str(id))  # a server decodes paths before the application sees them
        fields = fields_of(route.query)
        query = {field.encode_name: str(self._edge(field.type)) for field in fields if self._chance(8)}
        return route, path, urlencode(query, errors="replace"), self._headers(), self._body(route)

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        for name in ("idempotency-key", "if-match", "if-none-match", "x-correlation-id", "last-event-id"):
            if self._chance(30):
                headers[name] = str(self._pick(('"3"', "*", '"99999999999999999999"', *TEXTS[:12], "k-1")))
        return headers

    def _body(self, route: Route) -> bytes:
        shape = route.body_shape
        if shape is None:
            return b""
        if self._chance(40):
            return bytes(self._pick(RAW))
        value = self._whole(route, shape)
        if route.batch and self._chance(4):
            value = {"items": [value, self._whole(route, shape)]}
        return msgspec.json.encode(value)

    def _whole(self, route: Route, shape: Any) -> Any:
        """Return a body that fits, mostly with one or two extreme fields."""
        kind = next((one for one in (shape, *get_args(shape)) if is_struct(one)), None)
        if kind is None:
            return self._edge(shape)
        value = {**self._struct(kind), **WHOLE.get(route.path, {})}
        fields = {field.encode_name: field.type for field in fields_of(kind)}
        for name in self._random.sample(sorted(fields), k=min(self._pick((0, 1, 1, 2)), len(fields))):
            value[name] = self._edge(fields[name])
        if self._chance(60):
            value["no such field"] = 1
        return value

    def _struct(self, kind: type[msgspec.Struct]) -> dict[str, Any]:
        """Return the fields a struct needs, as they are when nothing is wrong."""
        tag = {kind.__struct_config__.tag_field: kind.__struct_config__.tag} if kind.__struct_config__.tag_field else {}
        needed = [field for field in fields_of(kind) if field.required]
        return {**tag, **{field.encode_name: self._calm(field.encode_name, field.type) for field in needed}}

    def _calm(self, name: str, kind: Any) -> Any:
        if name in self._shown and self._chance(2):
            return self._pick(self._shown[name])
        if name in CALM:
            return self._pick(CALM[name])
        kind = plain(kind)
        if is_struct(kind):
            return self._struct(kind)
        if get_origin(kind) is Literal:
            return self._pick(get_args(kind))
        if get_origin(kind) in (list, tuple):
            return [self._calm("", get_args(kind)[0])]
        calm: dict[Any, Any] = {bool: True, int: 1, float: 0.5, Decimal: 0.5, datetime: "2026-01-05T08:00:00Z"}
        return {} if get_origin(kind) is dict else calm.get(kind) or f"x-{self._random.randrange(10**9)}"

    def _edge(self, kind: Any, depth: int = 0) -> Any:
        """Return a value at the edges of the type; one in six is of another."""
        if self._chance(6):
            return self._pick((*ODD, *NUMBERS, *TEXTS, *INSTANTS))
        for meta in getattr(kind, "__metadata__", ()):
            edges = [edge for edge in (meta.ge, meta.le) if edge is not None] if isinstance(meta, msgspec.Meta) else []
            if edges:
                return self._pick((*edges, *edges, edges[0] - 1, edges[-1] + 1))
        origin = get_origin(kind)
        if origin in (Annotated, Union, types.UnionType):
            return self._edge(self._pick(get_args(kind)[: 1 if origin is Annotated else None]), depth)
        if origin is Literal:
            return self._pick(get_args(kind))
        if is_struct(kind):
            value = self._struct(kind)
            for field in fields_of(kind):
                if self._chance(2 + depth):
                    value[field.encode_name] = self._edge(field.type, depth + 1)
            return value
        if origin in (list, tuple):
            return [self._edge(get_args(kind)[0], depth + 1) for _ in range(self._random.randint(0, 2))]
        if origin is dict:
            return {self._pick(TEXTS): self._edge(get_args(kind)[1], depth + 1)}
        return self._plain_edge(kind)

    def _plain_edge(self, kind: Any) -> Any:
        if kind in (bool, type(None)):
            return self._chance(2) if kind is bool else None
        if kind is datetime:
            return self._pick(INSTANTS)
        if kind in (int, float, Decimal):
            return self._pick(NUMBERS)
        return self._pick(TEXTS if kind is str else (*ODD, *TEXTS, *NUMBERS))

    def _chance(self, one_in: int) -> bool:
        return self._random.randrange(one_in) == 0

    def _pick(self, values: Any) -> Any:
        return values[self._random.randrange(len(values))]


def plain(kind: Any) -> Any:
    """Return a type without annotations; of a union, its first member."""
    while get_origin(kind) in (Annotated, Union, types.UnionType):
        kind = get_args(kind)[0]
    return kind


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


async def send(client: Client, request: tuple[Route, str, str, dict[str, str], bytes]) -> Reply:
    route, path, query, headers, raw = request
    return await client.send(route.method, path, query.encode(), {"x-tenant": "default", **headers}, raw)


async def read_lists(client: Client, routes: tuple[Route, ...]) -> list[str]:
    """Read every list and every singleton, from its first page to its last; return what failed."""
    failed = []
    for route in routes:
        if route.method != "GET" or route.path in SKIPPED:
            continue
        for id in ("a", "u-1", "brief", "orders") if "{" in route.path else ("",):
            path = route.path
            while "{" in path:
                path = path[: path.index("{")] + id + path[path.index("}") + 1 :]
            asked = ask(path).partition("?")[2]
            reply = await client.send("GET", path, asked.encode(), {"x-tenant": "default"}, b"")
            pages = 0
            while reply.status == 200 and b'"next_cursor":"' in reply.raw and pages < 200:
                query = "&".join(filter(None, (asked, urlencode({"cursor": reply.json["next_cursor"]})))).encode()
                reply, pages = await client.send("GET", path, query, {"x-tenant": "default"}, b""), pages + 1
            if reply.status >= 500:
                failed.append(f"{reply.status} GET {path} {reply.raw[:300]!r}")
    return failed


class Findings(msgspec.Struct):
    """What a server answered to extreme requests."""

    failed: list[str]
    passed_count: int
    """Of the requests, those that got past the door: 2xx."""


async def find_failures(bt: Betimes, clock: VirtualClock, count: int, seed: int) -> Findings:
    """Send that many extreme requests, letting time pass meanwhile, then read every list."""
    client, extremes, found = Client(serve(bt, ROUTES, dev=True)), Extremes(ROUTES, seed), Findings([], 0)
    await populate(client, bt, clock)
    for path in list_paths(ROUTES, await write_report(client, bt)):
        extremes.learn(await client("GET", ask(path), x_tenant="default"))
    for number, request in enumerate(extremes.requests(count)):
        reply = await send(client, request)
        extremes.learn(reply)
        found.passed_count += reply.status < 300
        if reply.status >= 500:
            route, path, query, headers, raw = request
            found.failed.append(f"{reply.status} {route.method} {path}?{query} {headers} {raw[:500]!r}")
        if number % 200 == 0:
            clock.advance(3_600)
            await bt.tick()
    found.failed += await read_lists(client, ROUTES)
    return found


def soak_extremes(count: int, seed: int) -> int:
    """Send extreme requests to a server on SQLite; print what failed and return how many."""

    async def run(folder: str) -> Findings:
        clock = VirtualClock("2026-01-05T09:00:00Z")
        async with Betimes(f"sqlite:///{folder}/betimes.db", clock=clock, workers=False) as bt:
            return await find_failures(bt, clock, count, seed)

    with TemporaryDirectory() as folder:
        found = asyncio.run(run(folder))
    print(
        *found.failed, f"{count:,} requests, {found.passed_count:,} answered 2xx, {len(found.failed)} failed", sep="\n"
    )
    return len(found.failed)
