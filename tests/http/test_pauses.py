"""Hostile bodies: whoever sends one keeps nobody else from the event loop."""

from __future__ import annotations

from betimes.app.routes import ROUTES
from tests.http.pauses import find_pauses, find_pauses_of_lists
from tests.http.populated import declare
from tests.http.served import site

PATHS = ("/v1/intents/check", "/v1/notifications")


async def test_no_body_keeps_the_loop_from_others() -> None:
    async with site(declare=declare) as s:
        found = await find_pauses(s.client, [route for route in ROUTES if route.path in PATHS])
    assert [pause for pause in found if pause.is_long] == []


async def test_no_list_of_heavy_rows_keeps_the_loop_from_others() -> None:
    async with site(declare=declare) as s:
        found = await find_pauses_of_lists(s.client)
    assert [pause for pause in found if pause.is_long] == []


async def test_a_page_of_heavy_rows_is_short_and_its_cursor_leads_to_the_others() -> None:
    async with site() as s:
        body = {"cron": "0 8 * * *", "payload": {"x": "x" * 50_000}, "target": {"kind": "handler", "name": "brief"}}
        for number in range(45):
            assert (await s.client("POST", "/v1/schedules", {**body, "schedule_id": f"heavy{number}"})).status == 201
        for path, name in (("/v1/schedules", "schedule_id"), ("/v1/ledger", "segment_id")):
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
