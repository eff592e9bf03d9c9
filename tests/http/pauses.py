"""How long requests keep the event loop from everybody else, and bodies that are made to do so.

A pause is the processor time of the loop's own thread in one step, so that it says the same on a busy machine, and is
told as a ratio to a step of reference work that is measured between the requests. What other threads do is not in it,
though the loop stands still while one of them is inside a search or a decoder: hence the work of all threads is
measured too. All of them, in every field of every route: `python -m tests.http.pauses`; with a pattern, those whose
route and name it finds: `python -m tests.http.pauses "^PATCH .* unknown fields"`.
"""

from __future__ import annotations

import asyncio
import gc
import re
import sys
from asyncio.events import Handle
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from time import process_time, thread_time
from typing import Any, NamedTuple

import msgspec

from betimes.app.routes import ROUTES
from betimes.app.server import set_heap_aside
from betimes.http.routes import Route
from tests.http.extremes import WHOLE
from tests.http.populated import declare, populate
from tests.http.served import Client, site

BODY_BYTES = 3_900_000
RATIO_MAX = 10
"""Reference steps that one step of the loop may take; such a step takes about 5 ms on an idle machine."""
WORK_MAX = 100
"""Reference steps that all threads may take for one request: what grows faster than its body takes far more."""
ATTEMPTS_MAX = 3
"""Times a body that takes long is sent: a busy machine makes one attempt long, the body itself every one."""
FILLED = {"account_id": "a", "user_id": "u-1", "intent_id": "a", "schedule_id": "a", "sensor_id": "a", "run_id": "r"}


class Pause(NamedTuple):
    """The longest step of one request and all the work for it, in reference steps."""

    ratio: float
    work: float
    route: str
    body: str

    @property
    def is_long(self) -> bool:
        return self.ratio > RATIO_MAX or self.work > WORK_MAX


class Steps:
    """The longest step of the loop since it was last asked."""

    longest_s = 0.0

    def take(self) -> float:
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s


@contextmanager
def measure_steps() -> Iterator[Steps]:
    """Time every step of every loop of this thread."""
    steps, run = Steps(), Handle._run

    def timed(handle: Handle) -> None:
        begun_s = thread_time()
        run(handle)
        steps.longest_s = max(steps.longest_s, thread_time() - begun_s)

    setattr(Handle, "_run", timed)  # noqa: B010 — a method of the standard library
    try:
        yield steps
    finally:
        setattr(Handle, "_run", run)  # noqa: B010


@contextmanager
def heap_set_aside() -> Iterator[None]:
    """Keep the garbage collector from everything that is alive now, as `betimes serve` does when it has started."""
    set_heap_aside()
    try:
        yield
    finally:
        gc.unfreeze()


def reference_step() -> float:
    """Return the processor time of work that every machine does alike: small objects, texts, and a dictionary."""
    begun_s = thread_time()
    found: dict[str, int] = {}
    for number in range(28_000):
        name = f"name-{number % 500}"
        found[name] = found.get(name, 0) + len(name)
    return thread_time() - begun_s


def hostile_bodies(route: Route, *, each_field: bool) -> Iterator[tuple[str, bytes]]:
    """Yield bodies that cost as much as they can, each with its name; with `each_field`, also in every field."""
    whole = WHOLE.get(route.path, {})
    yield "4,000 unknown fields", msgspec.json.encode({f"f{number}": 1 for number in range(4_000)})
    yield "40,000 unknown fields", msgspec.json.encode({f"f{number}": 1 for number in range(40_000)})
    yield "3.9 MB of unknown fields", b'{"a":0' + b"".join(b',"%x":0' % number for number in range(390_000)) + b"}"
    yield "3.9 MB of one unknown field", msgspec.json.encode({**whole, "x": "x" * BODY_BYTES})
    yield "3.9 MB of nothing", b"[" + b"0," * (BODY_BYTES // 2) + b"0]"
    yield "long numbers", b'{"a":[' + b",".join([b"1" * 4_000] * 900) + b"]}"
    yield "a decimal of 3.9 MB", b'{"a":0.' + b"1" * BODY_BYTES + b"}"
    yield "runs of 300 digits", b'{"a":"' + (b"1" * 300 + b" ") * 12_900 + b'"}'
    yield "floats of 250 digits", b'{"a":[' + b",".join([b"1." + b"3" * 250 + b"e-100"] * 15_000) + b"]}"
    yield "the least floats", b'{"a":[' + b",".join([b"2.2250738585072011e-308"] * 39_000) + b"]}"
    yield "a text of quotes without an end", b"[" + b"0," * 40_001 + b'"' + rb"\"" * 60_000
    yield "texts without an end", b"[" + b"0," * 40_001 + b'"' * 3_800_001
    yield "an exponent", b'{"a":1e999999}'
    yield "deep", b'{"a":' * 200_000 + b"1" + b"}" * 200_000
    yield "broad and deep", b'{"a":[' + b",".join([b"[" * 29 + b"]" * 29] * 60_000) + b"]}"
    if route.batch:
        yield "500 empty items", msgspec.json.encode({"items": [{}] * 500})
        yield "500 wrong items", msgspec.json.encode({"items": [{f"f{n}": "x" * 100 for n in range(70)}] * 500})
        yield "500 items", msgspec.json.encode({"items": [dict(whole) for _ in range(500)]})
    for name in _names(route.body_shape) if each_field else ():
        yield f"{name}: 3.9 MB of text", msgspec.json.encode({**whole, name: "a*" * (BODY_BYTES // 2)})
        yield f"{name}: 19,000 objects", msgspec.json.encode({**whole, name: [{"a": {}}] * 19_000})
        yield f"{name}: 19,000 texts", msgspec.json.encode({**whole, name: ["2026-01-05"] * 19_000})
        yield f"{name}: an object of 19,000", msgspec.json.encode({**whole, name: {str(n): {} for n in range(19_000)}})


def _names(shape: Any) -> list[str]:
    kind = next((one for one in (shape, *getattr(shape, "__args__", ())) if isinstance(one, type)), None)
    if kind is None or not issubclass(kind, msgspec.Struct):
        return []
    return [field.encode_name for field in msgspec.structs.fields(kind)]


HEAVY_LISTS = ("/v1/schedules", "/v1/sensors", "/v1/ledger", "/openapi.json")


async def find_pauses_of_lists(client: Client) -> list[Pause]:
    """Store large definitions; return the longest step of reading each list of them.

    The garbage collector works as ever on what a page brings to life. What the process held before is kept from it, so
    that a full collection takes as long as the page makes it, and not as long as the tests that ran before.
    """
    payload = {str(number): [1.5] * 3 for number in range(2_000)}
    body = {"payload": payload, "target": {"kind": "webhook", "url": "https://example.com/x"}}
    for number in range(60):
        await client("POST", "/v1/schedules", {**body, "schedule_id": f"heavy{number}", "cron": "0 8 * * *"})
        await client("POST", "/v1/sensors", {**body, "sensor_id": f"heavy{number}", "sensor_type": "push"})
    found = []
    with measure_steps() as steps, heap_set_aside():
        for path in HEAVY_LISTS:
            asked = path if path.endswith("json") else f"{path}?limit=200"
            found.append(await least_pause(partial(client, "GET", asked), steps, (f"GET {path}", "heavy rows")))
    return sorted(found, reverse=True)


async def find_pauses(
    client: Client, routes: Iterable[Route], *, each_field: bool = False, only: str = ""
) -> list[Pause]:
    """Send every hostile body to every route that takes one; return the longest step of each, longest first.

    With `only`, those are sent whose route and name it finds. What the process held before is kept from the garbage
    collector, or a full collection during a request takes as long as the tests that ran before make it.
    """
    found = []
    headers = {"x-tenant": "default", "content-type": "application/json"}
    with measure_steps() as steps, heap_set_aside():
        for route in (route for route in routes if route.takes_body):
            path = re.sub(r"\{(\w+)\}", lambda name: FILLED.get(name[1], "x"), route.path)
            for name, raw in hostile_bodies(route, each_field=each_field):
                told = (f"{route.method} {route.path}", name)
                if not re.search(only, " ".join(told)):
                    continue
                send = partial(client.send, route.method, path, b"", headers, raw)
                found.append(await least_pause(send, steps, told))
    return sorted(found, reverse=True)


async def least_pause(send: Callable[[], Coroutine[Any, Any, Any]], steps: Steps, told: tuple[str, str]) -> Pause:
    """Return the pause of a request, the least of several attempts if the first is long."""
    least = await _measure_pause(send(), steps, told)
    for _ in range(ATTEMPTS_MAX - 1):
        if least.is_long:
            least = min(least, await _measure_pause(send(), steps, told))
    return least


async def _measure_pause(request: Coroutine[Any, Any, Any], steps: Steps, told: tuple[str, str]) -> Pause:
    """Make a request; return its longest step and all its work, both in reference steps measured right before."""
    reference_s = reference_step()
    await asyncio.sleep(0)  # so that the reference is no part of the next step
    steps.take()
    begun_s = process_time()
    await asyncio.create_task(request)
    work_s, longest_s = process_time() - begun_s, steps.take()
    return Pause(longest_s / reference_s, work_s / reference_s, *told)


def soak_pauses(only: str = "") -> int:
    """Send every hostile body in every field to every route; print the longest pauses and count those too long."""

    async def run() -> list[Pause]:
        async with site(declare=declare) as s:
            await populate(s.client, s.bt, s.clock)  # or a change finds nothing to change
            return await find_pauses(s.client, ROUTES, each_field=True, only=only)

    found = asyncio.run(run())
    reference_ms = median(reference_step() for _ in range(21)) * 1_000
    for pause in found[:20]:
        print(f"{pause.ratio:6.1f} × {reference_ms:.1f} ms  {pause.route}  {pause.body}")
    long = sum(pause.is_long for pause in found)
    longest_ms, most_ms = found[0].ratio * reference_ms, max(pause.work for pause in found) * reference_ms
    print(
        f"{len(found):,} hostile bodies, the longest pause {longest_ms:.0f} ms, the most work {most_ms:.0f} ms, "
        f"{long} over {RATIO_MAX} reference steps, or {WORK_MAX} of work"
    )
    return long


if __name__ == "__main__":
    raise SystemExit(min(soak_pauses(*sys.argv[1:]), 1))
