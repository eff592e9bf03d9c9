"""The header Idempotency-Key on requests that no single command stands behind, and on those about a run."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.app import Betimes
from betimes.domain.saved_responses.model import KIND
from betimes.engine.store import StreamQuery
from tests.http.served import Site, site

TRIGGER = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED"}
INTENT = {
    "user_id": "u-1",
    "trigger_type": "once",
    "schedule": {"trigger_at": "2026-01-05T09:30:00Z"},
    "action_type": "notify",
    "action_context": "Say hello",
}


async def _runs(s: Site, *accounts: str) -> list[str]:
    """Runs that wait for a worker."""
    bodies = [{**TRIGGER, "account_id": account, "idempotency_key": account} for account in accounts]
    return [(await s.client("POST", "/v1/triggers", body)).json["run_id"] for body in bodies]


async def _due_intents(s: Site, count: int) -> None:
    for number in range(count):
        await s.client("POST", "/v1/intents", {**INTENT, "intent_id": f"i-{number}"})
    s.clock.advance(3600)


async def _twice(s: Site, path: str, body: Any, key: str = "k-1") -> tuple[Any, Any]:
    first = await s.client("POST", path, body, idempotency_key=key)
    second = await s.client("POST", path, body, idempotency_key=key)
    assert (first.status, second.status) == (200, 200)
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert second.json == first.json
    return first.json, second.json


async def test_a_bulk_claim_of_intents_is_answered_from_the_record() -> None:
    async with site() as s:
        await _due_intents(s, 4)
        first, _ = await _twice(s, "/v1/intents/claim?limit=2", {"worker": "w"})
        assert len(first["items"]) == 2
        rest = (await s.client("POST", "/v1/intents/claim", {"worker": "w"}, idempotency_key="k-2")).json
        assert len(rest["items"]) == 2, "the repeat claimed nothing"


async def test_a_bulk_claim_of_runs_is_answered_from_the_record() -> None:
    async with site() as s:
        await _runs(s, "a", "b", "c")
        first, _ = await _twice(s, "/v1/runs/claim?limit=2", {"worker": "w"})
        assert len(first["items"]) == 2
        rest = (await s.client("POST", "/v1/runs/claim", {"worker": "w"})).json
        assert len(rest["items"]) == 1, "the repeat claimed nothing"


async def test_a_sweep_is_answered_from_the_record() -> None:
    async with site() as s:
        await s.client("POST", "/v1/scores", {"user_id": "u-1"})
        s.clock.advance(3 * 86_400)
        swept, _ = await _twice(s, "/v1/scores/sweep", {})
        assert swept["decayed"] == 1
        assert (await s.client("POST", "/v1/scores/sweep", {})).json["decayed"] == 0


async def test_the_clock_moves_once_under_one_key() -> None:
    async with site() as s:
        moved, _ = await _twice(s, "/v1/clock", {"advance_s": 60})
        assert moved["now"] == "2026-01-05T09:01:00Z" == (await s.client("GET", "/v1/clock")).json["now"]
        await _twice(s, "/v1/tick", {})


async def test_a_dead_letter_is_retried_once_under_one_key() -> None:
    def declare(bt: Betimes) -> None:
        async def fail(payload: Any) -> None:
            raise RuntimeError("no toner")

        bt.handler("note")(fail)

    async with site(declare=declare) as s:
        body = {"schedule_id": "one", "cron": "0 7 * * *", "target": {"kind": "handler", "name": "note"}}
        await s.client("POST", "/v1/schedules", body)
        await s.client("POST", "/v1/schedules/one/trigger", {})
        while not (dead := (await s.client("GET", "/v1/effects?status=dead")).json["items"]):
            await s.client("POST", "/v1/clock", {"advance_s": 86_400})
        path = f"/v1/effects/{dead[0]['effect_id']}/retry"
        await _twice(s, path, None)
        assert (await s.client("POST", path)).status == 409


async def test_another_request_under_the_same_key_conflicts() -> None:
    async with site() as s:
        await _due_intents(s, 1)
        await s.client("POST", "/v1/intents/claim", {"worker": "w"}, idempotency_key="k")
        for path, body in (("/v1/intents/claim", {"worker": "other"}), ("/v1/intents", {**INTENT, "intent_id": "new"})):
            told = await s.client("POST", path, body, idempotency_key="k")
            assert (told.status, told.json["code"]) == (409, "IDEMPOTENCY_CONFLICT")
        assert (await s.client("POST", "/v1/runs/claim", {}, idempotency_key="k")).status == 200, "another collection"


async def test_a_refused_request_does_not_use_up_its_key() -> None:
    async with site() as s:
        refused = await s.client(
            "POST", "/v1/clock", {"advance_s": 1, "advance_to": "2027-01-01T00:00:00Z"}, idempotency_key="k"
        )
        assert refused.status == 422
        assert (await s.client("POST", "/v1/clock", {"advance_s": 1}, idempotency_key="k")).status == 200


async def test_actions_claim_renewal_and_completion_of_a_run_happen_once_under_one_key() -> None:
    async with site() as s:
        [run_id] = await _runs(s, "acct-7")
        counted, _ = await _twice(s, "/v1/accounts/acct-7/actions", {"count": 3})
        assert counted["actions_this_period"] == 3
        again = await s.client("POST", "/v1/accounts/acct-7/actions", {"count": 1})
        assert again.json["actions_this_period"] == 4
        claimed, _ = await _twice(s, f"/v1/runs/{run_id}/claim", {"worker": "w"}, "k-claim")
        token = {"claim_token": claimed["claim_token"]}
        await _twice(s, f"/v1/runs/{run_id}/renew", token, "k-renew")
        done, _ = await _twice(s, f"/v1/runs/{run_id}/complete", {**token, "status": "succeeded"}, "k-done")
        assert done["status"] == "succeeded"
        told = await s.client(
            "POST", f"/v1/runs/{run_id}/complete", {**token, "status": "failed"}, idempotency_key="k-done"
        )
        assert (told.status, told.json["code"]) == (409, "IDEMPOTENCY_CONFLICT")


async def test_the_key_of_a_message_is_its_id() -> None:
    def declare(bt: Betimes) -> None:
        bt.handler("note")(lambda payload: None)

    async with site(declare=declare) as s:
        sensor = {"sensor_id": "orders", "sensor_type": "push", "target": {"kind": "handler", "name": "note"}}
        await s.client("POST", "/v1/sensors", sensor)
        first = await s.client("POST", "/v1/sensors/orders/messages", {"data": {"n": 1}}, idempotency_key="m-1")
        assert (first.status, first.json["message_id"], first.json["is_replay"]) == (200, "m-1", False)
        again = await s.client("POST", "/v1/sensors/orders/messages", {"message_id": "m-1", "data": {"n": 1}})
        assert (again.json["is_replay"], again.headers["idempotency-replayed"]) == (True, "true")
        other = await s.client("POST", "/v1/sensors/orders/messages", {"message_id": "m-2"}, idempotency_key="m-1")
        assert (other.status, other.json["errors"][0]["path"]) == (422, "header.idempotency-key")


@pytest.mark.parametrize("path", ["/v1/tick", "/v1/scores/sweep"])
async def test_a_kept_answer_is_forgotten_when_nobody_can_ask_for_it(path: str) -> None:
    async with site() as s:
        await s.client("POST", path, {}, idempotency_key="k")
        assert len(await s.bt.engine.store.streams(StreamQuery(kind=KIND))) == 1
        await s.client("POST", "/v1/clock", {"advance_s": 9 * 86_400})
        assert await s.bt.engine.store.streams(StreamQuery(kind=KIND)) == []
