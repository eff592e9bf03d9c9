"""Scores over HTTP, as the contract has them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.served import Site, site
from tests.http.test_auth import made

SCORE = [
    "user_id",
    "score",
    "effective_score",
    "chapter",
    "game_status",
    "last_interaction_at",
    "grace_ends_at",
    "last_decay_applied_at",
    "hours_overdue",
    "days_overdue",
    "paused_until",
    "forecast",
    "created_at",
    "updated_at",
]
DECAY = [
    "user_id",
    "decay_amount",
    "score_before",
    "score_after",
    "hours_overdue",
    "days_overdue",
    "chapter",
    "decay_rate",
    "timestamp",
    "period",
    "segment_id",
]


async def neglected(s: Site, user_id: str = "u-3", **fields: Any) -> None:
    """A score that is two hours overdue."""
    body = {"user_id": user_id, "created_at": "2026-01-01T00:00:00Z", "last_interaction_at": "2026-01-04T07:00:00Z"}
    assert (await s.client("POST", "/v1/scores", {**body, **fields})).status == 201


async def test_a_score_is_made_and_read_as_in_the_contract() -> None:
    async with site() as s:
        new = await s.client("POST", "/v1/scores", {"user_id": "u-3", "score": 50.5})
        assert (new.status, new.headers["location"]) == (201, "/v1/scores/u-3")
        assert list(new.json) == [*SCORE, "segment_id"]
        got = await s.client("GET", "/v1/scores/u-3")
        assert list(got.json) == SCORE
        assert (got.json["score"], got.json["chapter"], got.json["game_status"]) == (50.5, 1, "active")
        assert list(got.json["forecast"]) == ["thresholds", "zero_at"]
        assert list(got.json["forecast"]["thresholds"][0]) == ["name", "score", "at"]
        taken = await s.client("POST", "/v1/scores", {"user_id": "u-3"})
        assert (taken.status, taken.json["code"]) == (409, "ALREADY_EXISTS")
        assert (await s.client("GET", "/v1/scores/nobody")).status == 404


async def test_numbers_are_exact() -> None:
    async with site() as s:
        await neglected(s)
        assert b'"score":50,"effective_score":48.4,' in (await s.client("GET", "/v1/scores/u-3")).raw
        assert b'"hours_overdue":2,"days_overdue":0.083333,' in (await s.client("GET", "/v1/scores/u-3")).raw


async def test_the_bulk_import_answers_each_item_and_takes_a_key_for_each() -> None:
    async with site() as s:
        items = [{"user_id": "a", "idempotency_key": "k-a"}, {"user_id": "b", "score": 101}, {"user_id": "c"}]
        first = (await s.client("POST", "/v1/scores", {"items": items})).json["items"]
        assert [item["status"] for item in first] == [201, 422, 201]
        assert [list(item) for item in first] == [["index", "status", "body", "problem"]] * 3
        assert first[1]["problem"]["errors"][0]["path"] == "items[1].score"
        again = (await s.client("POST", "/v1/scores", {"items": items})).json["items"]
        assert [(item["status"], item["problem"] and item["problem"]["code"]) for item in again] == [
            (201, None),
            (422, "INVALID"),
            (409, "ALREADY_EXISTS"),
        ]
        assert again[0]["body"] == first[0]["body"]
        refused = await s.client("POST", "/v1/scores", {"items": items}, idempotency_key="k")
        assert (refused.status, refused.json["errors"][0]["path"]) == (422, "header.idempotency-key")


async def test_lists_are_filtered_and_paged() -> None:
    async with site() as s:
        await neglected(s, "late")
        for user_id in ("new-1", "new-2"):
            await s.client("POST", "/v1/scores", {"user_id": user_id, "chapter": 2})
        page = (await s.client("GET", "/v1/scores?limit=2")).json
        assert list(page) == ["items", "next_cursor", "unreadable"]
        rest = (await s.client("GET", f"/v1/scores?limit=2&cursor={page['next_cursor']}")).json
        assert [item["user_id"] for item in page["items"] + rest["items"]] == ["new-2", "new-1", "late"]
        for query, users in (("overdue=true", ["late"]), ("chapter=2", ["new-2", "new-1"]), ("game_status=won", [])):
            listed = (await s.client("GET", f"/v1/scores?{query}")).json["items"]
            assert [item["user_id"] for item in listed] == users
        other = await s.client("GET", f"/v1/scores?overdue=true&cursor={page['next_cursor']}")
        assert (other.status, other.json["errors"][0]["path"]) == (422, "query.cursor")


async def test_an_interaction_settles_what_is_owed_and_is_replayed_under_its_key() -> None:
    async with site() as s:
        await neglected(s)
        told = await s.client("POST", "/v1/scores/u-3/interactions", {"type": "text"}, idempotency_key="i-1")
        assert list(told.json) == ["counted", "created", "decay", *SCORE, "segment_id"]
        assert list(told.json["decay"]) == DECAY
        assert list(told.json["decay"]["period"]) == ["from", "to"]
        assert (told.json["counted"], told.json["created"], told.json["decay"]["decay_amount"]) == (True, False, 1.6)
        s.clock.advance(3600)
        again = await s.client("POST", "/v1/scores/u-3/interactions", {"type": "text"}, idempotency_key="i-1")
        assert (again.headers["idempotency-replayed"], again.json) == ("true", told.json)
        other = await s.client("POST", "/v1/scores/u-3/interactions", {"type": "voice"}, idempotency_key="i-1")
        assert (other.status, other.json["code"]) == (409, "IDEMPOTENCY_CONFLICT")
        wrong = await s.client(
            "POST", "/v1/scores/u-3/interactions", {"type": "smoke", "timestamp": "2030-01-01T00:00:00Z"}
        )
        assert (wrong.status, {error["path"] for error in wrong.json["errors"]}) == (422, {"type", "timestamp"})


async def test_a_status_may_pause_and_a_score_of_zero_cannot_be_made_active() -> None:
    async with site() as s:
        await neglected(s)
        body = {"game_status": "boss_fight", "timeout_seconds": 600}
        paused = await s.client("POST", "/v1/scores/u-3/status", body)
        assert list(paused.json) == [*SCORE, "segment_id"]
        assert (paused.json["paused_until"], paused.json["forecast"]) == ("2026-01-05T09:10:00Z", None)
        await s.client("POST", "/v1/scores/u-3/adjust", {"score": 0, "reason": "cheating"})
        floor = await s.client("POST", "/v1/scores/u-3/status", {"game_status": "active"})
        assert (floor.status, floor.json["code"]) == (409, "AT_FLOOR")


async def test_an_adjustment_is_told_as_in_the_contract() -> None:
    async with site() as s:
        await neglected(s)
        told = await s.client("POST", "/v1/scores/u-3/adjust", {"delta": -10.25, "reason": "late"})
        assert list(told.json) == ["user_id", "score_before", "score_after", "reason", "timestamp", "segment_id"]
        assert told.json["score_after"] == told.json["score_before"] - 10.25
        both = await s.client("POST", "/v1/scores/u-3/adjust", {"delta": 1, "score": 2, "reason": "x"})
        assert (both.status, both.json["errors"][0]["path"]) == (422, "delta")


async def test_the_history_is_newest_first_and_by_type() -> None:
    async with site() as s:
        await neglected(s)
        await s.client("POST", "/v1/scores/sweep")
        page = (await s.client("GET", "/v1/scores/u-3/history")).json
        assert [entry["event_type"] for entry in page["items"]] == ["decay", "created"]
        assert list(page["items"][0]) == [
            "event_type",
            "timestamp",
            "score_before",
            "score_after",
            "event_details",
            "segment_id",
        ]
        assert "thresholds_crossed" in page["items"][0]["event_details"]
        created = await s.client("GET", "/v1/scores/u-3/history?event_type=created")
        assert len(created.json["items"]) == 1
        assert (await s.client("GET", "/v1/scores/u-3/history?event_type=birth")).status == 422
        assert (await s.client("GET", "/v1/scores/nobody/history")).status == 404


async def test_a_sweep_decays_what_is_due() -> None:
    """AC-T8.1, AC-T8.3, AC-T8.4: what a cron job or an edge function calls."""
    async with site() as s:
        await neglected(s)
        tried = await s.client("POST", "/v1/scores/sweep", {"dry_run": True})
        done = await s.client("POST", "/v1/scores/sweep")
        assert list(done.json) == ["processed", "decayed", "capped", "game_overs", "skipped", "failed", "complete"]
        assert tried.json == done.json
        assert (done.json["decayed"], done.json["complete"]) == (1, True)
        assert (await s.client("POST", "/v1/scores/sweep", {"max_s": 26})).status == 422


@pytest.mark.parametrize(("tenant", "decayed"), [("acme", 1), ("*", 2)])
async def test_a_tenants_key_sweeps_that_tenant_and_the_deployments_all(tenant: str, decayed: int) -> None:
    """AC-T8.2"""
    async with site(dev=False) as s:
        for name in ("acme", "other"):
            client = s.with_key(await made(s, "scores:write", tenant=name))
            body = {"user_id": "u", "created_at": "2026-01-01T00:00:00Z"}
            assert (await client("POST", "/v1/scores", body)).status == 201
            assert (await client("POST", "/v1/scores/sweep")).status == 403
        assert (await s.with_key("nobody's")("POST", "/v1/scores/sweep")).status == 401
        swept = await s.with_key(await made(s, "sweep", tenant=tenant))("POST", "/v1/scores/sweep")
        assert swept.json["decayed"] == decayed
