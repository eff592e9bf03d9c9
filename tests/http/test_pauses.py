"""Hostile bodies: whoever sends one keeps nobody else from the event loop."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, get_args

import msgspec

from betimes.app.routes import ROUTES
from betimes.catalogue import DECIDERS
from betimes.core.streams import StreamId
from betimes.domain.service import SLICE
from betimes.engine.codecs import Cached
from betimes.notifications.model import Delivery, InboxState
from tests.http.extremes import NOTE
from tests.http.pauses import (
    RATIO_MAX,
    find_pauses,
    find_pauses_of_lists,
    least_pause,
    measure_steps,
    reference_step,
)
from tests.http.populated import declare, populate
from tests.http.served import Site, site

PATHS = ("/v1/intents/check", "/v1/notifications")


async def test_no_body_keeps_the_loop_from_others() -> None:
    async with site(declare=declare) as s:
        found = await find_pauses(s.client, [route for route in ROUTES if route.path in PATHS])
    assert [pause for pause in found if pause.is_long] == []


async def test_no_change_and_no_message_keeps_the_loop_from_others() -> None:
    changed = "^PATCH /v1/(users|schedules).*( 40,000 unknown fields| (addresses|payload): an object of 19,000)"
    async with site(declare=declare) as s:
        await populate(s.client, s.bt, s.clock)
        found = await find_pauses(s.client, ROUTES, each_field=True, only=f"{changed}|messages the least floats")
    assert len(found) == 5
    assert [pause for pause in found if pause.is_long] == []


async def test_a_patch_of_more_fields_than_anything_has_is_refused_before_it_is_laid_over_anything() -> None:
    async with site(declare=declare) as s:
        for path in ("/v1/users/u-1/preferences", "/v1/schedules/none", "/v1/intents/none"):
            reply = await s.client("PATCH", path, {f"field{number}": 1 for number in range(101)})
            assert (reply.status, len(reply.json["errors"]), reply.json["errors_total"]) == (422, 20, 101), path
        assert (await s.client("PATCH", "/v1/schedules/none", {"field": 1})).status == 404


async def test_addresses_of_more_channels_than_there_can_be_are_one_problem() -> None:
    async with site() as s:
        body = {"addresses": {f"c{number}": "x" for number in range(65)}}
        for method in ("PATCH", "PUT"):
            reply = await s.client(method, "/v1/users/u-1/preferences", body)
            assert [(error["path"], error["message"]) for error in reply.json["errors"]] == [
                ("addresses", "at most 64; it has 65")
            ]


async def test_a_step_that_is_long_every_time_is_found_and_one_that_was_long_once_is_not() -> None:
    async def work(step_count: int) -> None:
        for _ in range(step_count):
            reference_step()

    with measure_steps() as steps:
        assert (await least_pause(lambda: work(2 * RATIO_MAX), steps, ("GET /", "always"))).is_long
        step_counts = iter((2 * RATIO_MAX, 1))
        assert not (await least_pause(lambda: work(next(step_counts)), steps, ("GET /", "once"))).is_long


async def test_no_list_of_heavy_rows_keeps_the_loop_from_others() -> None:
    async with site(declare=declare) as s:
        found = await find_pauses_of_lists(s.client)
    assert [pause for pause in found if pause.is_long] == []


async def test_what_waits_and_is_not_asked_for_is_looked_through_in_slices() -> None:
    async with site() as s:
        quiet = {"quiet_hours": [{"start": "00:00", "end": "23:59"}]}
        note = {"event_type": "MESSAGE", "title": "Hello", "message": "you", "source": "chat", "channels": ["push"]}
        for number in range(4 * SLICE):
            await s.client("PUT", f"/v1/users/u-{number}/preferences", quiet)
            await s.client("POST", "/v1/notifications", {**note, "user_id": f"u-{number}", "event_id": f"e-{number}"})
        path = "/v1/upcoming/items?reason=COOLDOWN_ACTIVE"
        nothing = await _count_turns(s, f"{path}&to=2026-01-05T09:00:01Z")
        assert await _count_turns(s, path) >= nothing + 4


async def test_a_long_history_is_looked_through_in_slices() -> None:
    async with site(declare=declare) as s:
        for account, count in (("few", 1), ("many", 4 * SLICE)):
            trigger = {"account_id": account, "trigger_type": "SIGNAL_ARRIVED", "payload": {"text": "x" * 1_000}}
            sent = [{**trigger, "idempotency_key": f"{account}-{number}"} for number in range(count)]
            assert (await s.client("POST", "/v1/triggers", {"items": sent})).status == 200
        for path in ("/v1/explain/account:{}:1", "/v1/timeline?account_id={}"):
            few, many = [await _count_turns(s, path.format(account)) for account in ("few", "many")]
            assert many >= few + 3, path


async def _count_turns(s: Site, path: str) -> int:
    """Return how often the loop came round while something was read."""
    asked, turns = asyncio.create_task(s.client("GET", path)), 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await asked).status == 200
    return turns


def _tracked_structs(kind: Any) -> set[str]:
    """Return the structs in a type, at any depth, that the garbage collector goes through."""
    found = set().union(*map(_tracked_structs, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        found |= {kind.__name__} if kind.__struct_config__.gc else set()
        found |= set().union(*(_tracked_structs(field.type) for field in msgspec.structs.fields(kind)))
    return found


def test_cached_states_do_not_make_a_full_collection_longer() -> None:
    assert {
        decider.kind: _tracked_structs(decider.state) for decider in DECIDERS if _tracked_structs(decider.state)
    } == {}


async def test_a_person_in_the_cache_is_one_object_to_the_collector() -> None:
    async with site() as s:
        before = await _objects_after(s, 0)
        assert await _objects_after(s, 400) - before < 2 * 400


async def _objects_after(s: Site, count: int) -> int:
    for number in range(count):
        body = {**NOTE, "user_id": f"person-{number}", "event_id": f"e-{number}", "channels": ["push"]}
        assert (await s.client("POST", "/v1/notifications", body)).status == 200
    kinds = (Cached, StreamId, InboxState, Delivery)
    for _ in range(2):  # the first collection finds out which tuples hold nothing to go through
        gc.collect()
    return sum(isinstance(one, kinds) for one in gc.get_objects())


async def test_a_page_of_heavy_rows_is_short_and_its_cursor_leads_to_the_others() -> None:
    async with site() as s:
        body = {"cron": "0 8 * * *", "payload": {"x": "x" * 50_000}, "target": {"kind": "handler", "name": "brief"}}
        for number in range(45):
            assert (await s.client("POST", "/v1/schedules", {**body, "schedule_id": f"heavy{number}"})).status == 201
        for path, name in (("/v1/schedules", "schedule_id"), ("/v1/ledger", "segment_id")):
            await _read_heavy_pages(s, path, name)


async def test_a_page_of_heavy_evaluations_is_short_too() -> None:
    async with site(declare=declare) as s:
        shop = {"sensor_id": "shop", "sensor_type": "push", "target": {"kind": "handler", "name": "brief"}}
        assert (await s.client("POST", "/v1/sensors", shop)).status == 201
        for number in range(45):
            message = {"message_id": f"m-{number}", "data": {"x": "x" * 50_000}}
            assert (await s.client("POST", "/v1/sensors/shop/messages", message)).status < 300
        for path in ("/v1/sensors/shop/evaluations", "/v1/evaluations"):
            await _read_heavy_pages(s, path, "message_id")


async def _read_heavy_pages(s: Site, path: str, name: str) -> None:
    """Read a list of 45 heavy rows to its end, in pages that are short, each row once."""
    seen: list[str] = []
    cursor, pages = "", 0
    while not pages or cursor:
        page = (await s.client("GET", f"{path}?limit=200{cursor and f'&cursor={cursor}'}")).json
        assert 0 < sum(len(str(item)) for item in page["items"]) < 2_100_000
        seen += [item[name] for item in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert (len(seen), len(set(seen)), pages > 2) == (45, 45, True)


async def test_bodies_of_too_many_values_or_digits_are_refused_by_name() -> None:
    async with site() as s:
        for body, told in (
            (b"[" + b"0," * 50_000 + b"0]", "more than 40,000 values"),
            (b'{"a":' + b"1" * 301 + b"}", "more than 300 digits"),
        ):
            reply = await s.client("POST", "/v1/intents/check", body)
            assert (reply.status, reply.json["code"], told in reply.json["detail"]) == (413, "BODY_TOO_LARGE", True)
        prose = {
            "user_id": "u-1",
            "event_type": "MESSAGE",
            "title": "t",
            "source": "s",
            "channels": ["push"],
            "message": "," * 500 + "1" * 400,
        }
        assert (await s.client("POST", "/v1/notifications/classify", prose)).status == 200


async def test_problems_are_counted_without_being_described() -> None:
    async with site() as s:
        reply = await s.client("POST", "/v1/scores", {f"field{number:05}": 1 for number in range(4_000)})
        assert (reply.status, len(reply.json["errors"]), reply.json["errors_total"]) == (422, 20, 4_001)
        assert len(reply.raw) < 20_000
