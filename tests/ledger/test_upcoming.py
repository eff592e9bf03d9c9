"""What comes next: intents beside alarms, frequent schedules to their end, and the window that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from betimes.app import Betimes
from betimes.app.routes import ROUTES
from betimes.core.instants import MINUTE
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.server import serve
from betimes.ledger import past_outlooks, upcoming, upcoming_items
from tests.http.populated import HANDLER, INTENT
from tests.http.served import Client
from tests.http.stores import STORES, StoreName, application_on
from tests.ledger.test_questions import all_pages, get


async def make_intents(client: Client, count: int, **more: Any) -> None:
    for number in range(count):
        body = {**INTENT, "intent_id": f"i-{number:02}", "user_id": f"u-{number % 3}", **more}
        assert (await client("POST", "/v1/intents", body)).status == 201


def serve_it(bt: Betimes) -> Client:
    return Client(serve(bt, ROUTES, dev=True))


@pytest.mark.parametrize("store", STORES)
async def test_intents_are_among_what_comes_next(store: StoreName, tmp_path: Path) -> None:
    clock = VirtualClock()
    async with application_on(store, tmp_path, clock) as bt:
        client = serve_it(bt)
        await make_intents(client, 5)
        [row] = (await get(client, "/v1/upcoming?step=1h&kinds=intent"))["rows"]
        assert (row["counts"], row["estimated"], row["truncated"]) == ([0, 5, *[0] * 22], False, False)
        items = await all_pages(client, "/v1/upcoming/items?limit=2")
        assert [(item["id"], item["what"], item["owner"], item["late"]) for item in items] == [
            (f"i-{number:02}", "notify", f"u-{number % 3}", False) for number in range(5)
        ]
        assert {item["timezone"] for item in items} == {"UTC"}
        assert await all_pages(client, "/v1/upcoming/items?limit=2&kinds=schedule") == []
        clock.advance(3_660)
        late = (await get(client, "/v1/upcoming"))["late"]
        assert (late["count"], late["oldest_at"]) == (5, items[0]["at"])
        claim = (await client("POST", "/v1/intents/i-00/claim")).json
        [held] = [item for item in await all_pages(client, "/v1/upcoming/items") if item["id"] == "i-00"]
        assert (held["at"], held["reasons"], held["late"]) == (claim["expires_at"], ["ALREADY_CLAIMED"], False)
        assert (await get(client, "/v1/upcoming"))["late"]["count"] == 4


@pytest.mark.parametrize("store", STORES)
async def test_an_intent_that_ends_is_listed_once_and_in_order(
    store: StoreName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upcoming_items, "READ_MAX", 2)
    clock = VirtualClock()
    async with application_on(store, tmp_path, clock) as bt:
        client = serve_it(bt)
        await make_intents(client, 5, expires_at="2026-01-06T06:00:00Z")
        await client("POST", "/v1/schedules", {"schedule_id": "s", "cron": "30 * * * *", "target": HANDLER})
        for number in range(3):
            await client("POST", "/v1/incidents", {"user_id": f"u-{number}"})
        for limit in (1, 2, 3, 50):
            items = await all_pages(client, f"/v1/upcoming/items?limit={limit}&to=2026-01-06T05:59:00Z")
            assert len(items) == len({(item["kind"], item["id"]) for item in items}) == 9
            assert [item["at"] for item in items] == sorted(item["at"] for item in items)
            page = (await get(client, f"/v1/upcoming/items?limit={limit}"))["items"]
            assert [item["at"] for item in page] == sorted(item["at"] for item in page)
            every = await all_pages(client, f"/v1/upcoming/items?limit={limit}")
            ends = [item["id"] for item in every if item["what"] == "intent ends"]
            assert sorted(ends) == [f"i-{number:02}" for number in range(5)]
            assert len(every) == 14
            later = await all_pages(client, f"/v1/upcoming/items?limit={limit}&from=2026-01-06T05:00:00Z")
            assert [item["id"] for item in later if item["what"] == "intent ends"] == sorted(ends)


@pytest.mark.parametrize("store", STORES)
async def test_many_intents_are_counted_by_a_sample(
    store: StoreName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upcoming, "COUNTED_MAX", 20)
    clock = VirtualClock()
    async with application_on(store, tmp_path, clock) as bt:
        client = serve_it(bt)
        for number in range(160):
            body = {**INTENT, "intent_id": f"i-{number}", "user_id": f"u-{number}"}
            assert (await client("POST", "/v1/intents", body)).status == 201
        view = await get(client, "/v1/upcoming?step=1h")
        [row] = view["rows"]
        assert (row["estimated"], view["estimated"], row["truncated"]) == (True, True, False)
        assert 32 <= sum(row["counts"]) <= 500


async def test_a_frequent_schedule_does_not_stop_early(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with application_on("sqlite", tmp_path, clock) as bt:
        client = serve_it(bt)
        timings: tuple[tuple[str, dict[str, Any]], ...] = (
            ("often", {"cron": "* * * * *"}),
            ("second", {"every": {"seconds": 1}}),
            ("several", {"cron": ["*/2 * * * *", "*/3 * * * *"]}),
            *((f"daily-{number}", {"cron": f"{number} 9 * * *"}) for number in range(40)),
        )
        for name, timing in timings:
            body = {"schedule_id": name, "target": HANDLER, **timing}
            assert (await client("POST", "/v1/schedules", body)).status == 201
        view = await get(client, "/v1/upcoming?step=1h")
        [row] = view["rows"]
        expected = 60 + 3_600 + 40
        assert [count - 40 * (number == 0) for number, count in enumerate(row["counts"])] == [expected] * 24
        assert (view["estimated"], view["truncated"], row["truncated"]) == (False, False, False)


async def test_schedules_past_the_bound_are_estimated_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upcoming, "WORK_MAX", 100)
    clock = VirtualClock()
    async with application_on("sqlite", tmp_path, clock) as bt:
        client = serve_it(bt)
        body = {"schedule_id": "several", "target": HANDLER, "cron": ["*/2 * * * *", "*/3 * * * *"]}
        assert (await client("POST", "/v1/schedules", body)).status == 201
        [row] = (await get(client, "/v1/upcoming?step=1h"))["rows"]
        assert row["estimated"]
        assert all(38 <= count <= 42 for count in row["counts"])


@pytest.mark.parametrize("store", STORES)
async def test_the_timeline_shows_what_waits_in_its_window(store: StoreName, tmp_path: Path) -> None:
    clock = VirtualClock()
    async with application_on(store, tmp_path, clock) as bt:
        client = serve_it(bt)
        await make_intents(client, 1, expires_at="2026-01-08T00:00:00Z")

        async def waiting(since: str, until: str) -> list[str]:
            day = await get(client, f"/v1/timeline?user_id=u-0&since={since}&until={until}")
            return [item["what"] for item in day["waiting"]]

        assert await waiting("2026-01-05T00:00:00Z", "2026-01-06T00:00:00Z") == ["notify"]
        assert await waiting("2026-01-07T12:00:00Z", "2026-01-08T12:00:00Z") == ["intent ends"]
        assert await waiting("2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z") == []
        clock.advance_to(clock() + 26 * 60 * MINUTE)
        assert await waiting("2026-01-06T00:00:00Z", "2026-01-07T00:00:00Z") == ["notify"]  # late, and today
        assert await waiting("2026-01-07T00:00:00Z", "2026-01-07T12:00:00Z") == []


@pytest.mark.parametrize("store", STORES)
async def test_the_bands_of_a_past_day_are_those_of_that_day(
    store: StoreName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    async with application_on(store, tmp_path, clock) as bt:
        client = serve_it(bt)

        async def put(start: str, end: str) -> None:
            hours = {"quiet_hours": [{"start": start, "end": end}], "timezone": "UTC"}
            assert (await client("PUT", "/v1/users/u/preferences", hours)).status < 300

        async def bands(day: int, name: str = "quiet_hours") -> list[tuple[str, str]]:
            span = f"since=2026-01-{day:02}T00:00:00Z&until=2026-01-{day + 1:02}T00:00:00Z"
            found = await get(client, f"/v1/timeline?user_id=u&{span}")
            exact.append(found["bands_exact"])
            return [(band["since"][8:16], band["until"][8:16]) for band in found["bands"] if band["name"] == name]

        exact: list[bool] = []
        await put("10:00", "12:00")
        assert (await client("POST", "/v1/incidents", {"user_id": "u"})).status == 201
        clock.advance_to("2026-01-06T11:00:00Z")
        await put("15:00", "16:00")
        clock.advance_to("2026-01-08T09:00:00Z")
        await put("20:00", "21:00")
        assert await bands(5) == [("05T10:00", "05T12:00")]
        assert await bands(6) == [("06T10:00", "06T11:00"), ("06T15:00", "06T16:00")]
        assert await bands(7) == [("07T15:00", "07T16:00")]
        assert await bands(8) == [("08T20:00", "08T21:00")]
        assert await bands(9) == [("09T20:00", "09T21:00")]
        [(opened, _)] = await bands(5, "incident")
        assert opened == "05T09:00"
        assert await bands(7, "incident") == []
        assert await bands(4) == [], "before there was anything"
        assert all(exact)
        monkeypatch.setattr(past_outlooks, "SEGMENTS_MAX", 2)
        assert await bands(7) == [("07T20:00", "07T21:00")]
        assert not exact[-1]
