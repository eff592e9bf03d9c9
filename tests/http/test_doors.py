"""Nothing gets in that could not be shown again, and everything that is wrong is said at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.served import site

INSTANTS = [
    "0001-01-01T00:00:00+23:00",
    "0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59.999999-00:01",
]
TRIGGER: dict[str, Any] = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"}
INTENT: dict[str, Any] = {
    "user_id": "u",
    "trigger_type": "interval",
    "schedule": {"interval_minutes": 60},
    "action_type": "notify",
    "action_context": "Look.",
}


def paths(reply: Any) -> list[str]:
    assert reply.status == 422, reply.raw
    return sorted(error["path"] for error in reply.json["errors"])


@pytest.mark.parametrize("instant", INSTANTS)
async def test_an_instant_out_of_range_is_refused_and_every_list_goes_on(instant: str) -> None:
    async with site() as s:
        for field in ("created_at", "last_interaction_at", "last_decay_applied_at"):
            assert field in paths(await s.client("POST", "/v1/scores", {"user_id": "u", field: instant}))
        assert paths(await s.client("POST", "/v1/triggers", {**TRIGGER, "scheduled_at": instant})) == ["scheduled_at"]
        key = {"name": "k", "scopes": ["runs:read"], "expires_at": instant}
        assert paths(await s.client("POST", "/v1/keys", key)) == ["expires_at"]
        for path in ("/v1/scores", "/v1/ledger", "/v1/runs", "/v1/keys"):
            assert (await s.client("GET", path)).status == 200


async def test_the_last_instant_of_all_can_be_asked_about_and_shown() -> None:
    async with site() as s:
        asked = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "recency_last_run_epoch": 253402300799}
        assert (await s.client("POST", "/v1/gate/evaluate", asked)).status == 200
        asked["recency_last_run_epoch"] = 253402300800
        assert paths(await s.client("POST", "/v1/gate/evaluate", asked)) == ["recency_last_run_epoch"]
        late = {**TRIGGER, "scheduled_at": "9999-12-31T23:59:59.999999Z"}
        assert (await s.client("POST", "/v1/triggers", late)).status == 200
        assert (await s.client("GET", "/v1/triggers/k")).json["scheduled_at"] == "9999-12-31T23:59:59.999999Z"


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Los_Angeles"])
@pytest.mark.parametrize("last", ["9999-12-31T23:59:59.999999Z", "9999-12-31T09:00:00Z"])
async def test_an_intent_may_name_every_instant_there_is(zone: str, last: str) -> None:
    async with site() as s:
        once = {**INTENT, "trigger_type": "once", "schedule": {"trigger_at": last, "timezone": zone}}
        assert (await s.client("POST", "/v1/intents/check", once)).json["errors"] == []
        assert (await s.client("POST", "/v1/intents", once)).status == 201
        for path in ("/v1/intents", "/v1/intents/pending", "/v1/ledger"):
            assert (await s.client("GET", path)).status == 200


async def test_a_text_with_nul_is_refused_by_its_path() -> None:
    async with site() as s:
        assert "user_id" in paths(await s.client("POST", "/v1/intents", {**INTENT, "user_id": "u\0"}))
        checked = (await s.client("POST", "/v1/intents/check", {**INTENT, "user_id": "u\0"})).json
        assert [error["path"] for error in checked["errors"]] == ["user_id"]
        assert paths(await s.client("PUT", "/v1/users/u/ban", {"reason": "a\0b"})) == ["reason"]
        assert paths(await s.client("GET", "/v1/scores?game_status=%00")) == ["query.game_status"]


async def test_many_problems_are_counted_and_twenty_described() -> None:
    async with site() as s:
        unknown = {f"x{n}": n for n in range(4_000)}
        for path, body in (("/v1/triggers", TRIGGER), ("/v1/intents", INTENT), ("/v1/scores", {"user_id": "u"})):
            reply = await s.client("POST", path, {**body, **unknown})
            assert reply.status == 422
            assert len(reply.json["errors"]) == 20
            assert reply.json["errors_total"] == 4_000
            assert len(reply.raw) < 10_000


CASES: list[tuple[str, str, Any, list[str]]] = [
    (
        "PUT",
        "/v1/registry",
        {
            "entries": [
                {"trigger_type": "A", "debounce_seconds": "x", "cooldown_seconds": -1},
                {"trigger_type": "B", "debounce_seconds": 1, "cooldown_seconds": 1, "mode": "off"},
                {"trigger_type": "A", "debounce_seconds": 1, "cooldown_seconds": 1},
            ]
        },
        ["entries[0].cooldown_seconds", "entries[0].debounce_seconds", "entries[1].mode", "entries[2].trigger_type"],
    ),
    (
        "PUT",
        "/v1/users/u/preferences",
        {
            "timezone": "Mars/Base",
            "quiet_hours": [{"start": "25:00", "end": "07:00"}],
            "digest_windows": [1, "never"],
            "opt_out": {"channels": ["fax"], "all": 3},
            "addresses": {"push": "", "fax": "1"},
        },
        [
            "addresses.fax",
            "addresses.push",
            "digest_windows[0]",
            "digest_windows[1]",
            "opt_out.all",
            "opt_out.channels[0]",
            "quiet_hours[0].start",
            "timezone",
        ],
    ),
    (
        "POST",
        "/v1/schedules",
        {
            "schedule_id": "a:b",
            "cron": "61 * * * *",
            "timezone": "Mars/Base",
            "jitter_seconds": -1,
            "colour": 1,
            "target": {"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED"},
        },
        ["colour", "cron", "jitter_seconds", "schedule_id", "target.account_id", "timezone"],
    ),
    (
        "POST",
        "/v1/schedules",
        {"cron": ["0 8 * * *", "61 * * * *", 5], "timezone": "Mars/Base", "target": {"kind": "sweep"}},
        ["cron[1]", "cron[2]", "timezone"],
    ),
    (
        "POST",
        "/v1/schedules",
        {"cron": "61 * * * *", "target": {"kind": "trigger", "account_id": "a", "trigger_type": "NOBODY_KNOWS"}},
        ["cron", "target.trigger_type"],
    ),
    (
        "POST",
        "/v1/schedules",
        {
            "cron": "0 8 * * *",
            "jitter_seconds": -1,
            "target": {"kind": "webhook", "url": "https://ann:pw@example.com/"},
        },
        ["jitter_seconds", "target.url"],
    ),
    (
        "PUT",
        "/v1/sensors/orders",
        {
            "sensor_type": "push",
            "max_errors": 0,
            "target": {"kind": "webhook", "url": "https://example.com/"},
            "allowed_targets": [{"kind": "trigger", "account_id": "a", "trigger_type": "NOBODY_KNOWS"}],
        },
        ["allowed_targets[0].trigger_type", "max_errors"],
    ),
    (
        "POST",
        "/v1/schedules/preview",
        {"cron": "x", "timezone": "Mars/Base", "count": 0},
        ["count", "cron", "timezone"],
    ),
    (
        "POST",
        "/v1/schedules/preview",
        {
            "cron": 7,
            "every": {"seconds": 0},
            "timezone": "Mars/Base",
            "exclude": {"weekdays": ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]},
        },
        ["cron", "every.seconds", "exclude.weekdays", "timezone"],
    ),
    (
        "POST",
        "/v1/schedules",
        {
            "every": {"seconds": 60, "anchor": "2026-01-05T09:00:00.5Z"},
            "timezone": "Mars/Base",
            "jitter_seconds": -1,
            "target": {"kind": "sweep"},
        },
        ["every.anchor", "jitter_seconds", "timezone"],
    ),
    (
        "POST",
        "/v1/sensors",
        {
            "sensor_id": "a:b",
            "sensor_type": "poll",
            "auth": "token",
            "max_errors": 0,
            "target": {"kind": "notification", "title": "t"},
        },
        ["auth", "evaluator", "max_errors", "sensor_id"],
    ),
    (
        "POST",
        "/v1/scores",
        {"user_id": "a b", "score": 101, "chapter": 9, "game_status": "nowhere", "created_at": "2027-01-01T00:00:00Z"},
        ["chapter", "created_at", "game_status", "score", "user_id"],
    ),
    ("POST", "/v1/scores/u/interactions", {"type": "song", "timestamp": "soon"}, ["timestamp", "type"]),
    (
        "POST",
        "/v1/scores/u/status",
        {"game_status": "nowhere", "timeout_seconds": 0},
        ["game_status", "timeout_seconds"],
    ),
    (
        "POST",
        "/v1/triggers",
        {
            **TRIGGER,
            "account_id": "a b",
            "trigger_type": "NOBODY_KNOWS",
            "tenant_id": "other",
            "budget_remaining": 1.5,
            "tenant_tier": "gold",
        },
        ["account_id", "budget_remaining", "tenant_id", "tenant_tier", "trigger_type"],
    ),
    (
        "POST",
        "/v1/triggers",
        {**TRIGGER, "payload": [], "action_saturation_score": -1},
        ["action_saturation_score", "payload"],
    ),
    ("POST", "/v1/scores/u/adjust", {"delta": "x", "score": 101, "reason": ""}, ["delta", "reason", "score"]),
    (
        "POST",
        "/v1/intents/i/fire",
        {"status": "success", "trigger_data": [], "gate_result": {"text": "x" * 20_000}},
        ["gate_result", "trigger_data"],
    ),
    (
        "POST",
        "/v1/gate/evaluate",
        {"account_id": 1, "trigger_type": "NOBODY_KNOWS", "at": "0001-01-01T00:00:00Z"},
        ["account_id", "at", "trigger_type"],
    ),
    (
        "POST",
        "/v1/notifications",
        {
            "event_id": "e",
            "user_id": "a b",
            "event_type": "SONG",
            "title": "",
            "message": "m",
            "source": "s",
            "channels": ["fax", "fax"],
            "tenant_id": "other",
        },
        ["channels", "channels[0]", "channels[1]", "event_type", "tenant_id", "title", "user_id"],
    ),
    (
        "POST",
        "/v1/intents",
        {**INTENT, "user_id": 7, "schedule": {"timezone": "Mars/Base", "interval_minutes": "x"}, "colour": 1},
        ["colour", "schedule.interval_minutes", "schedule.timezone", "user_id"],
    ),
]


@pytest.mark.parametrize(("method", "path", "body", "wrong"), CASES, ids=[f"{c[0]} {c[1]}" for c in CASES])
async def test_shape_and_rules_are_told_in_one_answer(method: str, path: str, body: Any, wrong: list[str]) -> None:
    async with site() as s:
        found = paths(await s.client(method, path, body))
        missing = {"target.message", "target.event_type", "target.source", "target.channels", "target.user_id"}
        assert [one for one in found if one not in missing] == wrong


async def test_what_is_wrong_outside_of_the_body_is_told_with_what_is_wrong_in_it() -> None:
    bad_headers = {"idempotency_key": "a b", "if_match": "newest"}
    headers = ["header.idempotency-key", "header.if-match"]
    async with site() as s:
        claim = await s.client("POST", "/v1/runs/claim?limit=0&colour=red", {"worker": "", "lease_s": -1})
        assert paths(claim) == ["lease_s", "query.colour", "query.limit", "worker"]
        asked = {"account_id": "a b", "trigger_type": "NOBODY_KNOWS"}
        gate = await s.client("POST", "/v1/gate/evaluate?trace=perhaps", asked)
        assert paths(gate) == ["account_id", "query.trace", "trigger_type"]
        zone = {"timezone": "Mars/Base", "jitter_seconds": -1, "version": "x"}
        changed = await s.client("PATCH", "/v1/schedules/a%20b", zone, **bad_headers)
        assert paths(changed) == [*headers, "jitter_seconds", "path.schedule_id", "version"]
        replaced = await s.client("PUT", "/v1/users/u/preferences", {"timezone": "Mars/Base", "version": -1})
        assert paths(replaced) == ["timezone", "version"]
        made = await s.client(
            "PUT", "/v1/schedules/brief", {"cron": "x", "target": {"kind": "sweep"}, "version": "x"}, if_match="newest"
        )
        assert paths(made) == ["cron", "header.if-match", "version"]
        nowhere = await s.client("PUT", "/v1/schedules/a%20b", {"cron": 7, "target": {"kind": "sweep"}})
        assert paths(nowhere) == ["cron", "path.schedule_id"]
        keyed = await s.client("POST", "/v1/schedules", {"cron": 7, "target": {"kind": "sweep"}}, idempotency_key="a b")
        assert paths(keyed) == ["cron", "header.idempotency-key"]
        sound = await s.client("PUT", "/v1/users/u/preferences", {"timezone": "UTC"}, if_match="newest")
        assert paths(sound) == ["header.if-match"]
        batch = await s.client("POST", "/v1/scores?colour=red", {"items": [{"user_id": "a"}]})
        assert paths(batch) == ["query.colour"]
        assert (await s.client("GET", "/v1/scores")).json["items"] == []


async def test_a_batch_names_what_is_wrong_by_its_place() -> None:
    async with site() as s:
        sent = {"items": [{"user_id": "a"}, {"user_id": "b", "score": "x", "game_status": "nowhere"}]}
        items = (await s.client("POST", "/v1/scores", sent)).json["items"]
        assert [item["status"] for item in items] == [201, 422]
        found = [error["path"] for error in items[1]["problem"]["errors"]]
        assert found == ["items[1].score", "items[1].game_status"]


async def test_a_replay_is_answered_with_the_status_that_was_recorded() -> None:
    async with site() as s:
        for path, body in (
            ("/v1/scores", {"user_id": "u"}),
            ("/v1/intents", INTENT),
            ("/v1/incidents", {"reason": "fire"}),
            ("/v1/schedules", {"cron": "0 7 * * *", "target": {"kind": "sweep"}}),
            ("/v1/keys", {"name": "k", "scopes": ["runs:read"]}),
        ):
            first = await s.client("POST", path, body, idempotency_key="k1")
            again = await s.client("POST", path, body, idempotency_key="k1")
            assert (first.status, again.status, again.headers["idempotency-replayed"]) == (201, 201, "true"), path


async def test_the_last_instants_of_the_calendar_are_judged_and_previewed() -> None:
    note = {
        "user_id": "u-1",
        "event_type": "MESSAGE",
        "title": "t",
        "message": "m",
        "source": "s",
        "channels": ["push"],
    }
    quiet = {"timezone": "Pacific/Kiritimati", "quiet_hours": [{"start": "22:00", "end": "07:00"}]}
    async with site() as s:
        assert (await s.client("PUT", "/v1/users/u-1/preferences", quiet)).status == 200
        for at in ("9998-12-31T12:00:00Z", "9999-12-31T12:00:00Z", "9999-12-31T23:59:59.999999Z"):
            told = await s.client("POST", "/v1/notifications/classify", {**note, "at": at})
            assert (told.status, told.json["evaluated_at"]) == (200, at)
            for when in ({"cron": "* * * * *"}, {"every": {"seconds": 60}}):
                body = {**when, "timezone": "Pacific/Kiritimati", "from": at, "exclude": {"weekdays": ["FRI"]}}
                assert (await s.client("POST", "/v1/schedules/preview", body)).status == 200


async def test_the_url_of_a_handler_is_told_with_what_is_wrong_in_the_registry() -> None:
    async with site() as s:
        bad = {"trigger_type": "MINE", "handler": {"kind": "webhook", "url": "http://[::1:18780/x"}}
        sent = {"entries": [bad, {"trigger_type": "OTHER", "cooldown_seconds": "long"}]}
        found = paths(await s.client("PUT", "/v1/registry", sent))
        assert {"entries[0].handler.url", "entries[1].cooldown_seconds"} <= set(found)


async def test_the_range_of_a_backfill_is_told_with_what_is_wrong_besides() -> None:
    async with site() as s:
        made = {"schedule_id": "b", "cron": "0 8 * * *", "target": {"kind": "handler", "name": "brief"}}
        assert (await s.client("POST", "/v1/schedules", made)).status == 201
        wrong = {"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z", "max_concurrency": "x"}
        assert paths(await s.client("POST", "/v1/schedules/b/backfills", wrong)) == ["max_concurrency", "to"]
        late = {"from": "x", "to": "9000-01-01T00:00:00Z"}
        assert paths(await s.client("POST", "/v1/schedules/b/backfills", late)) == ["from", "to"]
