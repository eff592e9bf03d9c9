"""Definitions of schedules and sensors, ticks and backfills over HTTP, as the contract has them."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.app import Betimes
from betimes.sensors.model import Evaluation, RunRequest
from tests.http.served import ANY_HANDLER, site
from tests.http.test_auth import made

HANDLER = {"kind": "handler", "name": "brief"}
SCHEDULE: dict[str, Any] = {"schedule_id": "brief", "cron": "0 7 * * *", "timezone": "Europe/Berlin", "target": HANDLER}
SENSOR: dict[str, Any] = {"sensor_id": "orders", "sensor_type": "push", "target": HANDLER}
POLL: dict[str, Any] = {**SENSOR, "sensor_type": "poll", "evaluator": {"kind": "handler", "name": "orders"}}
SCHEDULE_VIEW = [
    "schedule_id",
    "cron",
    "every",
    "timezone",
    "target",
    "asset_selection",
    "partition_selection",
    "payload",
    "max_catchup_ticks",
    "catchup_window_minutes",
    "catchup_keep",
    "jitter_seconds",
    "overlap",
    "dst",
    "enabled",
    "starts_at",
    "ends_at",
    "exclude",
    "partition",
    "status",
    "recurrence_text",
    "paused_reason",
    "declared_by",
    "next_tick_at",
    "next_ticks",
    "last_scheduled_for",
    "changed_at",
    "last_error",
    "version",
    "created_at",
    "updated_at",
]
SENSOR_VIEW = [
    "sensor_id",
    "sensor_type",
    "target",
    "payload",
    "asset_selection",
    "partition_selection",
    "enabled",
    "auth",
    "evaluator",
    "interval_seconds",
    "timeout_seconds",
    "max_run_requests",
    "max_errors",
    "allowed_targets",
    "oidc",
    "status",
    "paused_reason",
    "declared_by",
    "state_version",
    "cursor",
    "next_evaluation_at",
    "last_evaluated_at",
    "consecutive_errors",
    "last_error",
    "secret",
    "push_url",
    "version",
    "created_at",
    "updated_at",
]
TICK = [
    "tick_id",
    "schedule_id",
    "status",
    "cause",
    "scheduled_for",
    "fired_at",
    "lag_ms",
    "run_key",
    "run_id",
    "definition_version",
    "asset_selection",
    "partition_selection",
    "tzdata_version",
    "reason",
    "count",
    "first",
    "last",
    "run",
    "error",
    "segment_id",
]
BACKFILL = [
    "backfill_id",
    "schedule_id",
    "from",
    "to",
    "max_concurrency",
    "status",
    "total",
    "done",
    "existing",
    "failed",
    "created_at",
    "finished_at",
]
EVALUATION = [
    "evaluation_id",
    "sensor_id",
    "cause",
    "message_id",
    "status",
    "evaluated_at",
    "duration_ms",
    "expected_state_version",
    "state_version",
    "cursor_before",
    "cursor",
    "error",
    "run_requests",
    "is_replay",
    "segment_id",
]
ON_WRITES = ["warnings", "segment_id"]


def with_evaluator(bt: Betimes) -> None:
    @bt._evaluators.evaluator("orders")
    async def orders(seen: Any, ctx: Any) -> Evaluation:
        return Evaluation((RunRequest("order-1"),), cursor=1)


# -- definitions

COLLECTIONS = [
    ("schedules", "brief", SCHEDULE, SCHEDULE_VIEW, {"payload": {"a": 1}}),
    ("sensors", "orders", SENSOR, SENSOR_VIEW, {"payload": {"a": 1}}),
]


@pytest.mark.parametrize(("collection", "id", "body", "fields", "edit"), COLLECTIONS)
async def test_a_definition_is_made_read_replaced_patched_switched_and_deleted(
    collection: str, id: str, body: dict[str, Any], fields: list[str], edit: dict[str, Any]
) -> None:
    async with site() as s:
        all_of_them, one = f"/v1/{collection}", f"/v1/{collection}/{id}"
        new = await s.client("POST", all_of_them, body)
        assert (new.status, new.headers["location"], new.headers["etag"]) == (201, one, '"1"')
        assert list(new.json) == [*fields, *ON_WRITES]
        taken = await s.client("POST", all_of_them, body)
        assert (taken.status, taken.json["code"]) == (409, "ALREADY_EXISTS")
        got = await s.client("GET", one)
        assert (list(got.json), got.headers["etag"]) == (fields, '"1"')
        put = await s.client("PUT", one, {**got.json, **edit})
        assert (put.status, put.json["version"], put.json["payload"]) == (200, 2, {"a": 1})
        assert "location" not in put.headers
        for refused in (
            await s.client("PUT", one, {**got.json, "payload": {}}),
            await s.client("PUT", one, body, if_match='"1"'),
            await s.client("PUT", one, body, if_none_match="*"),
            await s.client("PATCH", one, {"enabled": False, "version": 1}),
            await s.client("DELETE", one, if_match='"1"'),
        ):
            assert (refused.status, refused.json["code"]) == (412, "VERSION_MISMATCH")
        patched = await s.client("PATCH", one, {"payload": {"a": None, "b": 2}})
        assert (patched.status, patched.json["payload"], patched.headers["etag"]) == (200, {"b": 2}, '"3"')
        off = await s.client("POST", f"{one}/disable")
        assert (off.json["status"], off.json["enabled"], off.headers["etag"]) == ("paused", False, '"4"')
        assert (await s.client("POST", f"{one}/enable")).json["status"] == "active"
        assert (await s.client("DELETE", one)).status == 204
        assert (await s.client("GET", one)).status == 404
        again = await s.client("PUT", one, body)
        assert (again.status, again.headers["location"]) == (201, one)
        assert again.json["version"] > 5


@pytest.mark.parametrize(("collection", "id", "body", "fields", "edit"), COLLECTIONS)
async def test_a_replay_is_what_was_recorded_even_when_it_is_gone(
    collection: str, id: str, body: dict[str, Any], fields: list[str], edit: dict[str, Any]
) -> None:
    async with site() as s:
        bare = {name: value for name, value in body.items() if not name.endswith("_id")}
        new = await s.client("POST", f"/v1/{collection}", bare, idempotency_key="k")
        one = new.headers["location"]
        patched = await s.client("PATCH", one, edit, idempotency_key="p")
        await s.client("PATCH", one, {"payload": {"a": 2}})
        for _ in range(2):
            again = await s.client("POST", f"/v1/{collection}", bare, idempotency_key="k")
            assert (again.status, again.headers["idempotency-replayed"], again.json) == (201, "true", new.json)
            patched_again = await s.client("PATCH", one, edit, idempotency_key="p")
            assert (patched_again.headers["idempotency-replayed"], patched_again.json) == ("true", patched.json)
            await s.client("DELETE", one)
        other = await s.client("POST", f"/v1/{collection}", {**bare, "enabled": True}, idempotency_key="k")
        assert (other.status, other.json["code"]) == (409, "IDEMPOTENCY_CONFLICT")


@pytest.mark.parametrize(("collection", "id", "body", "fields", "edit"), COLLECTIONS)
async def test_lists_are_filtered_and_paged(
    collection: str, id: str, body: dict[str, Any], fields: list[str], edit: dict[str, Any]
) -> None:
    async with site() as s:
        for number in range(3):
            await s.client("PUT", f"/v1/{collection}/x-{number}", {**body, f"{collection[:-1]}_id": f"x-{number}"})
        await s.client("POST", f"/v1/{collection}/x-1/disable")
        page = (await s.client("GET", f"/v1/{collection}?limit=2")).json
        rest = (await s.client("GET", f"/v1/{collection}?limit=2&cursor={page['next_cursor']}")).json
        assert [item[f"{collection[:-1]}_id"] for item in page["items"] + rest["items"]] == ["x-2", "x-1", "x-0"]
        assert [list(item) for item in page["items"]] == [fields] * 2
        assert len((await s.client("GET", f"/v1/{collection}?status=active")).json["items"]) == 2
        wrong = await s.client("GET", f"/v1/{collection}?status=lost")
        assert (wrong.status, wrong.json["errors"][0]["path"]) == (422, "query.status")


@pytest.mark.parametrize(
    ("path", "body", "paths"),
    [
        ("/v1/schedules", {"schedule_id": "a:b", "cron": "x", "target": HANDLER}, {"schedule_id", "cron"}),
        (
            "/v1/schedules",
            {**SCHEDULE, "target": {"kind": "trigger", "trigger_type": "T"}},
            {"target.account_id", "target.trigger_type"},
        ),
        ("/v1/schedules", {"colour": 1}, {"cron", "target", "colour"}),
        ("/v1/sensors", {**SENSOR, "sensor_type": "poll"}, {"evaluator"}),
        ("/v1/sensors", {**POLL, "interval_seconds": 0}, {"interval_seconds"}),
    ],
)
async def test_every_bad_field_is_named(path: str, body: dict[str, Any], paths: set[str]) -> None:
    async with site() as s:
        bad = await s.client("POST", path, body)
        assert (bad.status, {error["path"] for error in bad.json["errors"]}) == (422, paths)


async def test_a_sensor_does_not_change_its_type() -> None:
    async with site() as s:
        await s.client("POST", "/v1/sensors", SENSOR)
        bad = await s.client("PUT", "/v1/sensors/orders", POLL)
        assert (bad.status, bad.json["errors"][0]["path"]) == (422, "sensor_type")
        assert (await s.client("POST", "/v1/sensors", POLL)).json["code"] == "ALREADY_EXISTS"


@pytest.mark.parametrize(
    ("target", "scope"),
    [
        ({"kind": "trigger", "account_id": "a", "trigger_type": "SIGNAL_ARRIVED"}, "runs:write"),
        (
            {
                "kind": "notification",
                "user_id": "u",
                "event_type": "ALERT",
                "title": "t",
                "message": "m",
                "source": "s",
                "channels": ["push"],
            },
            "notifications:write",
        ),
        ({"kind": "sweep"}, "sweep"),
        (
            {
                "kind": "command",
                "stream": {"kind": "score", "id": "u"},
                "command": {"type": "SetStatus", "status": "active"},
            },
            "scores:write",
        ),
    ],
)
async def test_saving_a_target_needs_the_scope_of_what_it_acts_on(target: dict[str, Any], scope: str) -> None:
    async with site(dev=False, settings=ANY_HANDLER) as s:
        plain = s.with_key(await made(s, "automation:write", "automation:read"))
        for path, body in (("/v1/schedules", SCHEDULE), ("/v1/sensors", SENSOR)):
            one = f"{path}/{body.get('schedule_id') or body.get('sensor_id')}"
            assert (await plain("POST", path, body)).status == 201
            for method, where, sent in (
                ("POST", path, {**body, "target": target}),
                ("PUT", one, {**body, "target": target}),
                ("PATCH", one, {"target": {"name": None, **target}}),
            ):
                denied = await plain(method, where, sent)
                assert (denied.status, denied.json["code"]) == (403, "MISSING_SCOPE")
                assert scope in denied.json["detail"]
            able = s.with_key(await made(s, "automation:write", scope))
            assert (await able("PUT", one, {**body, "target": target})).status == 200
            assert (await plain("PATCH", one, {"asset_selection": ["a"]})).status == 200
            denied = await plain("PATCH", one, {"payload": {"a": 1}})
            assert (denied.status, denied.json["code"]) == (403, "MISSING_SCOPE")


async def test_part_of_a_target_is_patched_by_whoever_may_save_the_whole() -> None:
    async with site(dev=False, settings=ANY_HANDLER) as s:
        admin = s.with_key(await made(s, "admin"))
        target = {"kind": "trigger", "account_id": "a", "trigger_type": "SIGNAL_ARRIVED"}
        await admin("POST", "/v1/schedules", {**SCHEDULE, "target": target})
        plain = s.with_key(await made(s, "automation:write"))
        denied = await plain("PATCH", "/v1/schedules/brief", {"target": {"account_id": "b"}})
        assert (denied.status, denied.json["code"]) == (403, "MISSING_SCOPE")


# -- schedules


async def test_a_preview_shows_the_wall_clock_and_saves_nothing() -> None:
    async with site() as s:
        body = {"cron": "0 7 * * *", "timezone": "Europe/Berlin", "from": "2026-01-05T00:00:00Z", "count": 2}
        told = await s.client("POST", "/v1/schedules/preview", body)
        assert told.json == {
            "items": [
                {"scheduled_for": "2026-01-05T06:00:00Z", "local": "2026-01-05T07:00:00+01:00"},
                {"scheduled_for": "2026-01-06T06:00:00Z", "local": "2026-01-06T07:00:00+01:00"},
            ],
            "recurrence_text": "At 07:00 every day",
        }
        long = await s.client("POST", "/v1/schedules/preview", {"cron": f"{'0,' * 600}0 * * * *"})
        assert (long.status, long.json["errors"][0]["path"]) == (422, "cron")
        bad = await s.client("POST", "/v1/schedules/preview", {"cron": "x", "timezone": "Mars/Base"})
        assert (bad.status, {error["path"] for error in bad.json["errors"]}) == (422, {"cron", "timezone"})


async def test_a_manual_tick_is_the_same_within_its_second() -> None:
    async with site() as s:
        await s.client("POST", "/v1/schedules", {**SCHEDULE, "enabled": False})
        tick = await s.client("POST", "/v1/schedules/brief/trigger", {"payload": {"n": 1}})
        assert (tick.status, list(tick.json)) == (200, TICK)
        assert (tick.json["tick_id"], tick.json["cause"]) == ("brief:manual:1767603600", "manual")
        same = await s.client("POST", "/v1/schedules/brief/trigger", {"payload": {"n": 1}})
        assert same.json["run_id"] == tick.json["run_id"]
        other = await s.client("POST", "/v1/schedules/brief/trigger", {"payload": {"n": 2}})
        assert (other.status, other.json["code"]) == (409, "RUN_KEY_CONFLICT")
        page = (await s.client("GET", "/v1/schedules/brief/ticks?status=fired")).json
        assert [(list(item), item["tick_id"]) for item in page["items"]] == [(TICK, tick.json["tick_id"])]
        assert (await s.client("GET", "/v1/schedules/none/ticks")).status == 404
        assert (await s.client("POST", "/v1/schedules/none/trigger")).status == 404
        large = await s.client("POST", "/v1/schedules/brief/trigger", {"payload": {"x": "y" * 65_536}})
        assert (large.status, large.json["errors"][0]["path"]) == (422, "payload")


async def test_a_backfill_is_started_paused_resumed_and_cancelled() -> None:
    async with site() as s:
        await s.client("POST", "/v1/schedules", SCHEDULE)
        path = "/v1/schedules/brief/backfills"
        body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-05T00:00:00Z", "max_concurrency": 1}
        new = await s.client("POST", path, body, idempotency_key="b-1")
        assert (new.status, list(new.json)) == (201, [*BACKFILL, "segment_id"])
        assert (new.headers["location"], new.json["total"]) == (f"{path}/{new.json['backfill_id']}", 4)
        again = await s.client("POST", path, body, idempotency_key="b-1")
        assert (again.status, again.headers["idempotency-replayed"], again.json) == (201, "true", new.json)
        one = new.headers["location"]
        for verb, status in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
            assert (await s.client("POST", f"{one}/{verb}")).json["status"] == status
        over = await s.client("POST", f"{one}/resume")
        assert (over.status, over.json["code"]) == (409, "WRONG_STATE")
        assert list((await s.client("GET", one)).json) == BACKFILL
        listed = (await s.client("GET", path)).json["items"]
        assert [(list(item), item["status"]) for item in listed] == [(BACKFILL, "cancelled")]
        future = await s.client("POST", path, {**body, "to": "2027-01-01T00:00:00Z"})
        assert (future.status, future.json["errors"][0]["path"]) == (422, "to")
        assert (await s.client("GET", f"/v1/schedules/other/backfills/{new.json['backfill_id']}")).status == 404
