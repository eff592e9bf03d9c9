"""Nothing gets in that could not be shown again, and everything that is wrong is said at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.served import site

INSTANTS = [
    "0001-01-01T00:00:00+23:00",
    "0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59.999999-00:01",
]
TRIGGER: dict[str, Any] = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"}
INTENT: dict[str, Any] = {
    "user_id": "u", "trigger_type": "interval", "schedule": {"interval_minutes": 60}, "action_type": "notify",
    "action_context": "Look.",
}  # fmt: skip


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
