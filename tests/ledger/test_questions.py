"""Questions about what was, is and comes: the same answers on every store, as the ledger itself would give."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from betimes.app import Betimes
from betimes.app.routes import ROUTES
from betimes.core.errors import NotFound
from betimes.core.instants import DAY, HOUR
from betimes.core.streams import StreamId
from betimes.domain.service import Caller
from betimes.engine.store import LedgerQuery
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.server import serve
from betimes.ledger import upcoming, verdict_list, verdict_ranges
from betimes.ledger.outcomes import outcomes_of
from tests.http.populated import QUIET, declare, populate
from tests.http.served import Client
from tests.http.stores import STORES, StoreName, application_on


@asynccontextmanager
async def asked(store: StoreName, folder: Path) -> AsyncIterator[tuple[Betimes, Client, VirtualClock]]:
    clock = VirtualClock()
    async with application_on(store, folder, clock, declare) as bt:
        client = Client(serve(bt, ROUTES, dev=True))
        await populate(client, bt, clock)
        yield bt, client, clock


async def get(client: Client, path: str) -> Any:
    reply = await client("GET", path)
    assert reply.status == 200, (path, reply.raw)
    return reply.json


async def all_pages(client: Client, path: str) -> list[Any]:
    found: list[Any] = []
    cursor = ""
    for _ in range(300):
        page = await get(client, path + cursor)
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={quote(page['next_cursor'])}"
    raise AssertionError(f"{path} does not come to an end")


async def decided(bt: Betimes) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return what the ledger holds, newest first: segment, outcome, reasons."""
    return [
        (segment.handle, outcome.outcome, outcome.reasons)
        for segment in await bt.engine.store.ledger(LedgerQuery(tenant="default", backwards=True, limit=1_000))
        for outcome in reversed(outcomes_of(bt.engine.kinds, segment))
    ]


@pytest.mark.parametrize("store", STORES)
async def test_the_word_of_an_outcome_is_the_same_in_lists_explanations_and_alternatives(
    store: StoreName, tmp_path: Path
) -> None:
    async with asked(store, tmp_path) as (_, client, _):
        listed: dict[str, list[str]] = {}
        for event in await all_pages(client, "/v1/verdicts?limit=200"):
            listed.setdefault(event["segment_id"], []).append(event["outcome"])
        compared = Counter[str]()
        for segment_id, words in listed.items():
            why = await get(client, f"/v1/explain/{segment_id}")
            if why["verdict"] is None:
                continue
            word = why["verdict"]["outcome"]
            compared[why["kind"]] += 1
            assert word in words, segment_id
            judged = "because of " if why["verdict"]["reasons"] else "without checking a rule, "
            assert why["summary"].startswith(f"{word} {judged}"), why["summary"]
            told = await get(client, f"/v1/explain/{segment_id}/alternatives")
            if why["verdict"]["reasons"]:
                assert told["answer"]["outcome"] == word
            else:
                assert told["answer"] is None, "nothing was judged"
        assert compared.keys() >= {"account", "inbox", "intent", "schedule", "sensor"}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("is_counted", [False, True])
async def test_statistics_are_those_of_the_ledger(store: StoreName, is_counted: bool, tmp_path: Path) -> None:
    async with asked(store, tmp_path) as (bt, client, _clock):
        if is_counted:
            await bt.tally_projection().catch_up()
        else:
            await bt.engine.store.reset_tally()
        expected = await decided(bt)
        for step in ("1m", "1h", "1d"):
            found = await get(client, f"/v1/stats?since=2026-01-05T00:00:00Z&step={step}&by=outcome")
            by_outcome: Counter[str] = Counter()
            for cell in found["cells"]:
                by_outcome[cell["outcome"]] += cell["count"]
            assert by_outcome == Counter(outcome for _, outcome, _ in expected)
            assert (found["total"], found["complete"]) == (len(expected), True)
        reasons = await get(client, "/v1/stats?since=2026-01-05T00:00:00Z&by=reason&step=1d")
        listed = Counter(reason for _, _, given in expected for reason in given or ("",))
        assert Counter({cell["reason"]: cell["count"] for cell in reasons["cells"]}) == listed
        one = await get(client, "/v1/stats?since=2026-01-05T00:00:00Z&domain=notifications&reason=QUIET_HOURS")
        assert one["total"] == sum("QUIET_HOURS" in given for _, _, given in expected)
        assert (await bt.ledger.stats(by="domain", step="1d")).total > 0


async def test_statistics_refuse_what_they_cannot_answer(tmp_path: Path) -> None:
    async with asked("sqlite", tmp_path) as (_, client, _):
        for query, path in (
            ("by=colour", "query.by"),
            ("step=2m", "query.step"),
            ("domain=weather", "query.domain"),
            ("since=2026-01-06T00:00:00Z&until=2026-01-05T00:00:00Z", "query.since"),
            ("since=2025-12-01T00:00:00Z&step=1m", "query.step"),
            ("until=3000-01-01T00:00:00Z&since=1970-01-01T00:00:00Z", "query.until"),
            ("colour=red", "query.colour"),
        ):
            reply = await client("GET", f"/v1/stats?{query}")
            assert (reply.status, reply.json["errors"][0]["path"]) == (422, path), query


@pytest.mark.parametrize("store", STORES)
async def test_verdicts_are_listed_backwards_page_by_page(
    store: StoreName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_list, "LOOKED_AT_MAX", 7)
    monkeypatch.setattr(verdict_list, "READ_MAX", 4)
    monkeypatch.setattr(verdict_ranges, "TAKEN_MAX", 2)
    monkeypatch.setattr(verdict_ranges, "OPENED_MAX", 3)
    monkeypatch.setattr(verdict_ranges, "SHORT", 0)
    async with asked(store, tmp_path) as (bt, client, _clock):
        for is_counted in (False, True):
            if is_counted:
                await bt.tally_projection().catch_up()
            expected = await decided(bt)
            found = await all_pages(client, "/v1/verdicts?limit=3")
            assert [(one["segment_id"], one["outcome"]) for one in found] == [one[:2] for one in expected]
            later = await all_pages(client, "/v1/verdicts?limit=2&reason=QUIET_HOURS")
            assert [one["segment_id"] for one in later] == [of for of, _, given in expected if "QUIET_HOURS" in given]
            for query, words in (("fired&domain=automation", {"fired"}), ("NOW,ALLOW", {"NOW", "ALLOW"})):
                some = await all_pages(client, f"/v1/verdicts?limit=5&outcome={query}")
                assert [one["segment_id"] for one in some] == [of for of, word, _ in expected if word in words]
                counted = await get(client, f"/v1/stats?outcome={query}")
                assert sum(cell["count"] for cell in counted["cells"]) == len(some)
            one = await all_pages(client, "/v1/verdicts?limit=1&id=u-8")
            assert [event["segment_id"] for event in one] == [of for of, *_ in expected if of.startswith("inbox:u-8:")]


@pytest.mark.parametrize("store", STORES)
async def test_what_comes_next_is_counted_and_listed(store: StoreName, tmp_path: Path) -> None:
    async with asked(store, tmp_path) as (_bt, client, _clock):
        view = await get(client, "/v1/upcoming?step=1h")
        rows = {row["kind"]: row["counts"] for row in view["rows"]}
        assert rows["schedule"] == [24] * 24  # two of them, every five minutes
        assert sum(rows["inbox"]) == 3
        due = (await get(client, "/v1/intents/pending"))["items"]
        assert view["late"]["count"] == (await get(client, "/v1/backlog"))["alarms_due"] + len(due)
        assert {"a", "b"} == {item["intent_id"] for item in due}
        items = await all_pages(client, "/v1/upcoming/items?limit=2")
        assert [item["at"] for item in items if not item["late"]] == sorted(
            item["at"] for item in items if not item["late"]
        )
        quiet = await all_pages(client, "/v1/upcoming/items?limit=1&reason=QUIET_HOURS")
        assert {(item["id"], item["kind"], item["reasons"][0]) for item in quiet} == {("u-8", "inbox", "QUIET_HOURS")}
        assert all(item["segment_id"].startswith("inbox:u-8:") for item in quiet)
        assert len(quiet) == len([item for item in items if item["id"] == "u-8"])


@pytest.mark.parametrize("store", STORES)
async def test_many_alarms_are_counted_by_a_sample(
    store: StoreName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upcoming, "COUNTED_MAX", 20)
    clock = VirtualClock()
    async with application_on(store, tmp_path, clock) as bt:
        client = Client(serve(bt, ROUTES, dev=True))
        for number in range(200):
            assert (await client("POST", "/v1/incidents", {"user_id": f"u-{number}"})).status == 201
        view = await get(client, "/v1/upcoming?step=1h")
        assert view["estimated"]
        assert 32 <= sum(view["rows"][0]["counts"]) <= 600


@pytest.mark.parametrize("store", STORES)
async def test_the_day_of_a_person_has_all_domains(store: StoreName, tmp_path: Path) -> None:
    async with asked(store, tmp_path) as (_bt, client, _clock):
        day = await get(client, "/v1/timeline?user_id=u-8&since=2026-01-05T00:00:00Z&until=2026-01-06T00:00:00Z")
        assert {item["domain"] for item in day["items"]} == {"notifications"}
        assert [band["until"] for band in day["bands"] if band["name"] == "quiet_hours"] == ["2026-01-05T23:00:00Z"]
        assert len([band for band in day["bands"] if band["name"] == "digest"]) == 2
        assert {fill["name"] for fill in day["fills"]} >= {"burst", "hour", "day", "sms"}
        assert {fill["points"][0]["at"] for fill in day["fills"]} == {day["since"]}, "a line begins where the day does"
        assert day["waiting"][0]["reasons"] == ["QUIET_HOURS"]
        score = await get(client, "/v1/timeline?user_id=u-0")
        assert [band["name"] for band in score["bands"] if band["domain"] == "scores"] == ["grace"]
        assert [one["name"] for one in score["forecast"]][-1] == "zero"
        account = await get(client, "/v1/timeline?account_id=a")
        assert {item["kind"] for item in account["items"]} == {"account"}
        assert account["waiting"]
        nobody = await get(client, "/v1/timeline?user_id=nobody")
        assert (nobody["items"], nobody["bands"], nobody["truncated"]) == ([], [], False)


@pytest.mark.parametrize("store", STORES)
async def test_things_are_found_by_what_they_are_called(store: StoreName, tmp_path: Path) -> None:
    async with asked(store, tmp_path) as (bt, client, _clock):

        async def hits(q: str, more: str = "") -> list[tuple[str, str, str]]:
            found = (await get(client, f"/v1/search?q={quote(q)}{more}"))["items"]
            return [(hit["type"], hit["kind"], hit["id"]) for hit in found]

        assert ("stream", "inbox", "u-8") in await hits("u-")
        assert ("key", "account", "later-a") in await hits("later-")
        assert await hits("inbox:u-8:2") == [("segment", "inbox", "inbox:u-8:2")]
        effect = (await get(client, "/v1/effects?status=dead"))["items"][0]["effect_id"]
        name = (await get(client, "/v1/ledger?kind=inbox&id=u-8"))["items"][0]["correlation_id"]
        assert await hits(effect) == [("effect", "schedule", effect)]
        assert ("correlation", "inbox", name) in await hits(name)
        await bt.runs.trigger({"account_id": "u-8", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "of-u-8"})
        assert (await hits("u-8"))[:2] == [("stream", "inbox", "u-8"), ("stream", "account", "u-8")]
        assert await hits("u-8", "&kinds=inbox") == [("stream", "inbox", "u-8")]
        assert await hits("nothing is called so") == []
        assert all([await get(client, hit["href"]) for hit in (await get(client, "/v1/search?q=a"))["items"]])


@pytest.mark.parametrize("store", STORES)
async def test_a_key_that_has_expired_is_found_by_the_whole_of_it(store: StoreName, tmp_path: Path) -> None:
    async with asked(store, tmp_path) as (bt, client, clock):

        async def keys(q: str, more: str = "") -> list[tuple[str, str]]:
            found = (await get(client, f"/v1/search?q={quote(q)}{more}"))["items"]
            return [(hit["kind"], hit["href"]) for hit in found if hit["type"] == "key" and hit["id"] == q]

        trigger = {"account_id": "z", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "of-z"}
        await bt.runs.trigger(trigger)
        assert await keys("of-z") == [("account", "/v1/explain/account:z:1")], "in force, it is found once"
        clock.advance(30 * DAY)
        with pytest.raises(NotFound, match=r"has expired; .* betimes why account:z:1"):
            await bt.runs.trigger_status("of-z")
        assert await keys("of-z") == [("account", "/v1/explain/account:z:1")]
        assert await keys("of-z", "&kinds=inbox") == []
        elsewhere = bt.for_caller(Caller("other", "test"))
        assert (await bt.ledger_for(Caller("other", "test")).search("of-z")).items == []
        with pytest.raises(NotFound, match="never sent"):
            await elsewhere.runs.trigger_status("of-z")
        await bt.runs.trigger(trigger)
        again, first = await keys("of-z")
        assert first == ("account", "/v1/explain/account:z:1"), "the newest is the first"
        assert (await get(client, again[1]))["verdict"]


@pytest.mark.parametrize("store", STORES)
async def test_streams_are_listed_and_shown_without_secrets(store: StoreName, tmp_path: Path) -> None:
    async with asked(store, tmp_path) as (bt, client, clock):
        people = await all_pages(client, "/v1/streams?kind=inbox&limit=2")
        assert {row["id"] for row in people} == {"u-0", "u-1", "u-8", "u-9"}
        named = await all_pages(client, "/v1/streams?kind=inbox&limit=1&prefix=u-")
        assert [row["id"] for row in named] == ["u-0", "u-1", "u-8", "u-9"]
        waiting = await all_pages(client, "/v1/streams?kind=inbox&limit=1&status=waiting")
        assert [row["id"] for row in waiting] == ["u-8"]
        sensor = await get(client, "/v1/streams/sensor/a")
        assert "whsec" not in str(sensor)
        assert sensor["state"]["definition"]["sensor_type"] == "push"
        await bt.engine.store.snooze(bt.ledger.stream("inbox", "u-8"), 3, clock() + HOUR, "it broke")
        [snoozed] = await all_pages(client, "/v1/streams?snoozed=true&limit=1")
        assert (snoozed["id"], snoozed["snooze_error"]) == ("u-8", "it broke")
        assert (await get(client, "/v1/backlog"))["snoozed"] == 1
        for path in ("/v1/streams/inbox/nobody", "/v1/streams/weather/a", "/v1/streams/tenant/default"):
            assert (await client("GET", path)).status == 404


@pytest.mark.parametrize("store", STORES)
async def test_ticks_of_all_schedules_are_listed(store: StoreName, tmp_path: Path) -> None:
    async with asked(store, tmp_path) as (bt, client, _clock):
        await bt.tick()
        every = await all_pages(client, "/v1/ticks?limit=3")
        assert {tick["schedule_id"] for tick in every} == {"a", "b"}
        of_one = await all_pages(client, "/v1/schedules/a/ticks?limit=3")
        assert await all_pages(client, "/v1/ticks?limit=4&schedule_id=a") == of_one
        skipped = await all_pages(client, "/v1/ticks?limit=4&status=skipped")
        assert skipped == [tick for tick in every if tick["status"] == "skipped"]
        assert await all_pages(client, "/v1/ticks?limit=4&since=2027-01-01T00:00:00Z") == []


@pytest.mark.parametrize("store", STORES)
async def test_evaluations_of_all_sensors_are_listed(store: StoreName, tmp_path: Path) -> None:
    async with asked(store, tmp_path) as (bt, client, _clock):
        await bt.sensors.create(
            {"sensor_id": "other", "sensor_type": "push", "target": {"kind": "handler", "name": "note"}}
        )
        await bt.sensors.message("other", {"message_id": "m1", "data": {}})
        every = await all_pages(client, "/v1/evaluations?limit=1")
        assert {one["sensor_id"] for one in every} >= {"a", "other", "poll-a"}
        of_one = await all_pages(client, "/v1/sensors/a/evaluations?limit=2")
        assert await all_pages(client, "/v1/evaluations?limit=2&sensor_id=a") == of_one
        status = every[0]["status"]
        same = await all_pages(client, f"/v1/evaluations?limit=2&status={status}")
        assert same == [one for one in every if one["status"] == status]
        assert await all_pages(client, "/v1/evaluations?limit=4&since=2027-01-01T00:00:00Z") == []


async def test_a_key_sees_its_own_domains_only(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with application_on("sqlite", tmp_path, clock, declare) as bt:
        dev = Client(serve(bt, ROUTES, dev=True))
        await populate(dev, bt, clock)
        secret = (await dev("POST", "/v1/keys", {"name": "runs", "scopes": ["runs:read"]})).json["secret"]
        client = Client(serve(bt, ROUTES, dev=False), {"authorization": f"Bearer {secret}"})
        assert (await get(client, "/v1/meta"))["domains"] == ["runs"]
        stats = await get(client, "/v1/stats?by=domain&step=1d")
        assert {cell["domain"] for cell in stats["cells"]} == {"runs"}
        assert {one["domain"] for one in await all_pages(client, "/v1/verdicts?limit=9")} == {"runs"}
        assert {row["domain"] for row in (await get(client, "/v1/upcoming"))["rows"]} <= {"runs"}
        assert {one["domain"] for one in await all_pages(client, "/v1/upcoming/items?limit=9")} == {"runs"}
        assert {hit["domain"] for hit in (await get(client, "/v1/search?q=a"))["items"]} == {"runs"}
        assert (await client("GET", "/v1/streams/inbox/u-8")).status == 404
        assert (await get(client, "/v1/streams?kind=inbox"))["items"] == []
        assert (await get(client, "/v1/timeline?user_id=u-8"))["items"] == []
        assert (await client("GET", "/v1/processes")).status == 403
        assert (await client("GET", "/v1/ticks")).status == 403
        assert (await client("GET", "/v1/evaluations")).status == 403


async def test_another_tenant_sees_nothing(tmp_path: Path) -> None:
    async with asked("sqlite", tmp_path) as (bt, _client, _clock):
        await bt.tally_projection().catch_up()
        other = Client(serve(bt, ROUTES, dev=True), {"x-tenant": "other"})
        assert (await other("PUT", "/v1/users/x/preferences", QUIET)).status < 300
        assert (await get(other, "/v1/stats"))["total"] == 0
        for path in ("/v1/verdicts", "/v1/upcoming/items", "/v1/ticks", "/v1/evaluations", "/v1/streams?kind=account"):
            assert (await get(other, path))["items"] == [], path
        assert (await other("GET", "/v1/streams/inbox/u-8")).status == 404
        assert (await get(other, "/v1/backlog"))["alarms_due"] == 0


async def test_nothing_is_counted_twice_while_the_tally_moves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with asked("sqlite", tmp_path) as (bt, client, _clock):
        query = "/v1/stats?since=2026-01-05T00:00:00Z&step=1d"
        expected = (await get(client, query))["total"]
        counts = bt.engine.store.tally_counts

        async def count_late(*args: Any, **options: Any) -> Any:
            await bt.tally_projection().catch_up()
            return await counts(*args, **options)

        monkeypatch.setattr(bt.engine.store, "tally_counts", count_late)
        assert (await get(client, query))["total"] == expected > 0


@pytest.mark.parametrize("store", STORES)
async def test_a_stream_is_verified_and_what_is_wrong_is_named(
    store: StoreName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(store, tmp_path) as (bt, client, _clock):
        found = await get(client, "/v1/streams/inbox/u-8/verification")
        row = await get(client, "/v1/streams/inbox/u-8")
        assert (found["sound"], found["findings"], found["version"]) == (True, [], row["version"])
        read = bt.engine.store.history

        async def read_changed(stream: StreamId, after: int, limit: int) -> Any:
            kept, page = await read(stream, after, limit)
            return kept, [msgspec.structs.replace(one, actor="somebody else") for one in page]

        monkeypatch.setattr(bt.engine.store, "history", read_changed)
        found = await get(client, "/v1/streams/inbox/u-8/verification")
        assert not found["sound"]
        assert "digest does not match" in found["findings"][0]["what"]
        monkeypatch.setattr("betimes.ledger.stream_list.VERIFIED_MAX", 0)
        refused = await client("GET", "/v1/streams/inbox/u-8/verification")
        assert (refused.status, refused.json["code"]) == (409, "HISTORY_TOO_LONG")
        assert (await client("GET", "/v1/streams/inbox/nobody/verification")).status == 404


async def test_request_times_say_how_long_and_not_how_many(tmp_path: Path) -> None:
    async with asked("sqlite", tmp_path) as (_, client, _):
        told = await get(client, "/v1/request-times")
        row = next(one for one in told["items"] if one["route"] == "/v1/schedules")
        assert row.keys() == {"method", "route", "p50_ms", "p99_ms"}
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert told["batches"].keys() == {"p50", "p99"}
        assert 1 <= told["batches"]["p50"] <= told["batches"]["p99"]


async def test_meta_says_codes_in_words(tmp_path: Path) -> None:
    async with asked("sqlite", tmp_path) as (_, client, _):
        meta = await get(client, "/v1/meta")
        assert meta["words"]["condition_not_met"] == "condition not met"
        codes = [name for name in meta["outcomes"] if "_" in name]
        assert codes
        assert not {*codes, *meta["reasons"]} - meta["words"].keys() - {"adjust", "decay"}
