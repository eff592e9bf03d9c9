"""Dry runs: a write decided by the same turn, answered as it would be, and not committed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from betimes.admin.service import NewKey
from betimes.app.routes import ROUTES
from betimes.domain.service import Caller
from betimes.engine.dry_run import ALARMS_MAX
from betimes.engine.store import LedgerQuery
from betimes.http.dry_runs import MEDIA_TYPE
from betimes.ledger.dry_run_view import DryRunView
from tests.http.served import Client, Site, site
from tests.http.stores import STORES, StoreName
from tests.http.trials import compare_dry_runs
from tests.postgres import fresh_database

TRIGGER = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"}
TRY = {"betimes_dry_run": "true"}


@asynccontextmanager
async def database(store: StoreName, folder: Path) -> AsyncIterator[str]:
    if store == "sqlite":
        yield f"sqlite:///{folder}/betimes.db"
        return
    async with fresh_database() as dsn:
        yield dsn


@pytest.mark.parametrize("store", STORES)
async def test_a_dry_run_says_what_the_write_then_does_and_changes_no_row(store: StoreName, tmp_path: Path) -> None:
    async with database(store, tmp_path) as url:
        tried = await compare_dry_runs(7, 120, url, marked_every=4)
    assert tried.differences == []
    assert tried.answered > 60
    assert tried.written > 60


async def test_dry_runs_of_every_domain_are_what_the_writes_do() -> None:
    tried = await compare_dry_runs(8, 300)
    assert tried.differences == []
    assert tried.answered > 150


async def client_with(s: Site, *scopes: Any, tenant: str = "acme") -> Client:
    made = await s.bt.for_caller(Caller(tenant)).tenants.create_key(NewKey(name="test", scopes=scopes))
    return s.with_key(made.secret or "")


async def size(s: Site) -> int:
    return len(await s.bt.engine.store.ledger(LedgerQuery(limit=1_000)))


async def test_the_answer_holds_what_would_be_written_asked_for_and_waited_for() -> None:
    async with site() as s:
        before = await size(s)
        tried = await s.client("POST", "/v1/triggers", TRIGGER, **TRY)
        assert (tried.status, tried.headers["content-type"]) == (200, MEDIA_TYPE)
        assert tried.json["status"] == 200
        assert tried.json["body"]["result"] == "ALLOW"
        report = tried.json["dry_run"]
        assert len(msgspec.convert(report, DryRunView).segments) == len(report["segments"]) == 2
        assert report["segments"][0]["segment_id"] == "account:acct-7:1"
        assert report["segments"][0]["events"][0]["type"] == "RunAllowed"
        assert {rule["outcome"] for rule in report["segments"][0]["rules"]} == {"passed"}
        assert all(rule["sentence"] for rule in report["segments"][0]["rules"])
        assert (report["at"], report["truncated"]) == ("2026-01-05T09:00:00Z", False)
        assert await size(s) == before
        assert (await s.client("GET", "/v1/triggers/sig-1")).status == 404


async def test_a_dry_run_uses_no_key_and_counts_no_verdict() -> None:
    async with site() as s:
        counted = vars(s.bt.tally).copy()
        for _ in range(2):
            tried = await s.client("POST", "/v1/triggers", TRIGGER, **TRY)
            assert tried.json["body"]["is_replay"] is False
        assert vars(s.bt.tally) == counted
        assert (await s.client("POST", "/v1/triggers", TRIGGER)).json["result"] == "ALLOW"
        again = await s.client("POST", "/v1/triggers", TRIGGER, **TRY)
        assert again.json["body"]["reason"] == "DUPLICATE_IDEMPOTENCY_KEY"


async def test_a_dry_run_needs_the_scope_to_read_and_that_to_write_does_not_do() -> None:
    async with site(dev=False) as s:
        reader, writer = await client_with(s, "runs:read"), await client_with(s, "runs:write")
        assert (await reader("POST", "/v1/triggers", TRIGGER, **TRY)).status == 200
        assert (await reader("POST", "/v1/triggers", TRIGGER)).status == 403
        assert (await writer("POST", "/v1/triggers", TRIGGER, **TRY)).status == 403
        assert (await reader("POST", "/v1/triggers", TRIGGER, betimes_dry_run="false")).status == 403
        assert (await reader("PUT", "/v1/policy", {"overrides": {}}, **TRY)).status == 403
        assert (await reader("POST", "/v1/scores", {"user_id": "u"}, **TRY)).status == 403


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.is_recorded], ids=lambda r: f"{r.method} {r.path}"
)
async def test_every_write_can_be_tried_and_changes_nothing(route: Any) -> None:
    """Whatever it answers, it is no failure and nothing is written; a key without the scope to read is refused."""
    async with site() as s:
        await s.client("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": "first"})
        before = await size(s)
        path = route.path
        for name in ("account_id", "run_id", "user_id", "event_id", "intent_id", "schedule_id", "sensor_id"):
            path = path.replace(f"{{{name}}}", "x")
        reply = await s.client(route.method, path.replace("{", "").replace("}", ""), route.example, **TRY)
        assert reply.status < 500, reply.raw
        assert await size(s) == before
        if not route.can_be_tried:
            assert reply.json["errors"][0]["path"] == "header.betimes-dry-run"


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.can_be_tried], ids=lambda r: f"{r.method} {r.path}"
)
async def test_nobody_tries_a_write_without_the_scope_to_read(route: Any) -> None:
    if route.scope in ("any key",):
        return
    async with site(dev=False) as s:
        powerless = await client_with(s, "metrics")
        reply = await powerless(route.method, route.path.replace("{", "").replace("}", ""), route.example, **TRY)
        assert reply.status == 403, reply.raw
        assert (await s.client(route.method, route.path.replace("{", "").replace("}", ""), None, **TRY)).status == 401


async def test_a_dry_run_at_another_instant_rings_what_is_due_by_then() -> None:
    async with site() as s:
        await s.client("POST", "/v1/triggers", TRIGGER)
        second = {**TRIGGER, "idempotency_key": "sig-2"}
        s.clock.advance(120)
        assert (await s.client("POST", "/v1/triggers", second, **TRY)).json["body"]["reason"] == "COOLDOWN"
        later = await s.client("POST", "/v1/triggers", second, **TRY, betimes_at="2026-01-05T09:05:00Z")
        assert later.json["body"]["result"] == "ALLOW"
        assert later.json["dry_run"]["at"] == "2026-01-05T09:05:00Z"


@pytest.mark.parametrize("store", STORES)
async def test_what_waits_rings_at_its_own_instant_before_a_dry_run_is_decided(
    store: StoreName, tmp_path: Path
) -> None:
    """Three that wait for the morning take the burst cap of the morning, not that of the instant asked for."""
    note = {"user_id": "ann", "event_type": "MESSAGE", "title": "t", "source": "chat", "channels": ["push"]}
    note |= {"priority_hint": "HIGH"}
    policy = {"notifications": {"jitter_s": 0}}
    async with database(store, tmp_path) as url, site(url=url, policy=policy) as s:
        quiet = {"timezone": "UTC", "quiet_hours": [{"start": "08:00", "end": "10:00"}]}
        await s.client("PUT", "/v1/users/ann/preferences", quiet)
        for number, text in enumerate(("lunch on Friday", "tickets are cheaper", "a parcel arrived"), start=1):
            waits = await s.client("POST", "/v1/notifications", {**note, "event_id": f"e{number}", "message": text})
            assert waits.json["outcome"] == "LATER"
        before = await size(s)
        fourth = {**note, "event_id": "e4", "message": "something else altogether"}
        tried = await s.client("POST", "/v1/notifications", fourth, **TRY, betimes_at="2026-01-05T15:00:00Z")
        at = [segment["at"] for segment in tried.json["dry_run"]["segments"]]
        assert at == ["2026-01-05T10:00:00Z"] * 3 + ["2026-01-05T15:00:00Z"]
        assert tried.json["body"]["outcome"] == "NOW"
        assert await size(s) == before


async def test_a_dry_run_far_ahead_of_many_ticks_is_decided_within_its_bound() -> None:
    async with site() as s:
        schedule = {"schedule_id": "often", "every": {"seconds": 60}, "target": {"kind": "sweep"}}
        assert (await s.client("POST", "/v1/schedules", schedule)).status == 201
        path, far = "/v1/schedules/often/trigger", "2026-02-05T09:00:00Z"
        tried = await s.client("POST", path, {}, **TRY, betimes_at=far)
        assert tried.json["status"] < 300, tried.raw
        segments = tried.json["dry_run"]["segments"]
        woken = [one["at"] for one in segments if one["command"] and one["command"]["type"] == "Wake"]
        # Of very many, those that ring on the way are the first to be left out.
        last_of_its_own = f"2026-01-05T{9 + ALARMS_MAX // 60:02}:{ALARMS_MAX % 60:02}:00Z"
        assert last_of_its_own in woken
        assert {one["at"] for one in segments} >= {last_of_its_own, far}
        assert (len(segments), tried.json["dry_run"]["truncated"]) == (200, True)


async def test_a_dry_run_under_another_policy_leaves_the_one_in_force() -> None:
    async with site() as s:
        await s.client("POST", "/v1/triggers", TRIGGER)
        s.clock.advance(120)
        second, draft = (
            {**TRIGGER, "idempotency_key": "2"},
            '{"runs":{"registry":{"SIGNAL_ARRIVED":{"cooldown_seconds":60}}}}',
        )
        tried = await s.client("POST", "/v1/triggers", second, **TRY, betimes_policy=draft)
        assert tried.json["body"]["result"] == "ALLOW"
        assert all(segment["kind"] != "tenant" for segment in tried.json["dry_run"]["segments"])
        assert tried.json["body"]["policy"] == tried.json["dry_run"]["policy"]
        assert (await s.client("GET", "/v1/policy")).json["overrides"] == {}
        assert (await s.client("POST", "/v1/triggers", second)).json["result"] == "DEFER"
    async with site(dev=False) as s:
        reader = await client_with(s, "runs:read")
        assert (await reader("POST", "/v1/triggers", TRIGGER, **TRY, betimes_policy="{}")).status == 403


@pytest.mark.parametrize(
    ("headers", "path"),
    [
        ({"betimes_dry_run": "yes"}, "header.betimes-dry-run"),
        ({**TRY, "betimes_at": "tomorrow"}, "header.betimes-at"),
        ({**TRY, "betimes_at": "2026-01-05T08:59:59Z"}, "header.betimes-at"),
        ({**TRY, "betimes_at": "2028-01-05T08:59:59Z"}, "header.betimes-at"),
        ({**TRY, "betimes_policy": "[]"}, "header.betimes-policy"),
        ({**TRY, "betimes_policy": '{"a": "' + 9_000 * "x" + '"}'}, "header.betimes-policy"),
        ({**TRY, "betimes_policy": '{"runs": {"mode": "loud"}}'}, "runs.mode"),
    ],
)
async def test_headers_that_make_no_sense_are_refused_with_their_names(headers: dict[str, str], path: str) -> None:
    async with site() as s:
        refused = await s.client("POST", "/v1/triggers", TRIGGER, **headers)
        assert refused.status == 422
        assert path in [error["path"] for error in refused.json["errors"]]


async def test_a_batch_is_tried_item_by_item_each_seeing_those_before() -> None:
    async with site() as s:
        items = [TRIGGER, {**TRIGGER, "idempotency_key": "sig-2"}, {**TRIGGER, "trigger_type": "NONE"}]
        tried = (await s.client("POST", "/v1/triggers", {"items": items}, **TRY)).json
        results = [item["body"] and item["body"]["result"] for item in tried["body"]["items"]]
        assert results == ["ALLOW", "SKIP", None]
        written = await s.client("POST", "/v1/triggers", {"items": items})
        assert written.json == tried["body"]


async def test_the_same_in_python() -> None:
    async with site() as s:
        trial = s.bt.dry_run(at="2026-01-06T09:00:00Z", policy={"runs": {"daily_run_budget": 0}})
        verdict = await trial.runs.trigger(TRIGGER)
        assert (verdict.result, verdict.reason) == ("SKIP", "BUDGET_EXHAUSTED")
        report = await trial.report()
        assert report.to_dict()["at"] == "2026-01-06T09:00:00Z"
        assert [segment.segment_id for segment in report.segments] == ["account:acct-7:1"]
        assert (await s.bt.runs.trigger(TRIGGER)).result == "ALLOW"


async def test_ringing_an_alarm_is_tried_like_any_write() -> None:
    async with site() as s:
        schedule = {"schedule_id": "brief", "cron": "0 7 * * *", "target": {"kind": "sweep"}}
        assert (await s.client("POST", "/v1/schedules", schedule)).status == 201
        s.clock.advance(23 * 3600)
        before = await size(s)
        path = "/v1/streams/schedule/brief/wake"
        tried = await s.client("POST", path, {}, **TRY)
        assert (tried.status, tried.json["body"]["rung"], await size(s)) == (200, True, before)
        real = (await s.client("POST", path, {})).json
        assert real == tried.json["body"]


async def test_what_belongs_to_a_dry_run_is_refused_on_a_write() -> None:
    body = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"}
    async with site() as s:
        for more in ({"betimes_at": "2099-01-01T00:00:00Z"}, {"betimes_policy": "{}"}):
            for asked in ({}, {"betimes_dry_run": "false"}):
                reply = await s.client("POST", "/v1/triggers", body, **more, **asked)
                assert (reply.status, reply.json["errors"][0]["message"]) == (422, "only with Betimes-Dry-Run: true")
        assert (await s.client("GET", "/v1/triggers/k")).status == 404
        assert (await s.client("GET", "/v1/meta", betimes_at="2099-01-01T00:00:00Z")).status == 200
