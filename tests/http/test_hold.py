"""The hold over HTTP: who may set it, what it says, and that every answer says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from betimes.app import Betimes
from betimes.core.deciders import Decision
from betimes.core.instants import DAY, HOUR, parse
from betimes.engine.tenants.decide import decide_hold, fold
from betimes.engine.tenants.model import Hold, SetHold, TenantState, tenant_stream
from betimes.engine.virtual_clock import VirtualClock
from betimes.http import process
from betimes.stores.postgres import PostgresStore
from tests.http.served import Site, site
from tests.http.stores import STORES, StoreName, application_on
from tests.http.test_auth import made
from tests.http.test_sessions import browser, opened
from tests.postgres import patient_store, server_dsn

NOON = "2026-01-05T12:00:00Z"
HOLD = {"domains": ["runs", "notifications"], "until": NOON, "reason": "a wrong template"}
SAID = "notifications,runs; until=2026-01-05T12:00:00Z"
SHOWN = {**HOLD, "domains": ["notifications", "runs"], "since": "2026-01-05T09:00:00Z"}
NOTE = {
    "event_id": "e",
    "user_id": "ann",
    "event_type": "ALERT",
    "priority_hint": "HIGH",
    "source": "desk",
    "title": "News",
    "message": "of today",
    "channels": ["in_app"],
}


async def test_a_hold_is_put_shown_replaced_and_deleted() -> None:
    async with site() as s:
        assert (await s.client("GET", "/v1/hold")).json == {"held": False, "hold": None}
        put = await s.client("PUT", "/v1/hold", HOLD)
        assert (put.status, put.json) == (200, {"held": True, "hold": SHOWN})
        assert put.headers["betimes-hold"] == SAID, "the answer that sets it says so already"
        assert (await s.client("GET", "/v1/hold")).json == put.json
        everything = await s.client("PUT", "/v1/hold", {"until": "2026-01-06T09:00:00Z", "reason": "all of it"})
        domains = ["automation", "intents", "notifications", "runs", "scores"]
        assert everything.json["hold"]["domains"] == domains
        gone = await s.client("DELETE", "/v1/hold?note=done")
        assert (gone.status, "betimes-hold" in gone.headers) == (204, False)
        assert (await s.client("DELETE", "/v1/hold")).status == 204
        assert (await s.client("GET", "/v1/hold")).json == {"held": False, "hold": None}
        history = (await s.client("GET", "/v1/ledger?kind=tenant")).json["items"]
        assert [item["command"]["type"] for item in history] == ["SetHold", "SetHold", "EndHold"]


async def test_what_is_wrong_with_a_hold_is_named() -> None:
    async with site() as s:
        wrong = await s.client("PUT", "/v1/hold", {"domains": ["runs", "weather"], "until": "soon", "more": 1})
        assert wrong.status == 422
        assert sorted(error["path"] for error in wrong.json["errors"]) == ["domains[1]", "more", "reason", "until"]
        named = next(error["message"] for error in wrong.json["errors"] if error["path"] == "domains[1]")
        assert all(domain in named for domain in ("runs", "notifications", "intents", "automation", "scores"))
        late = await s.client("PUT", "/v1/hold", {**HOLD, "until": "2026-02-05T00:00:00Z"})
        assert (late.status, late.json["errors"][0]["path"]) == (422, "until")
        assert "2026-02-04T09:00:00Z" in late.json["errors"][0]["message"]


async def test_every_answer_says_that_there_is_a_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "READINESS_S", -1.0)
    async with site(dev=False) as s:
        admin, reader = s.with_key(await made(s, "admin")), s.with_key(await made(s, "runs:read"))
        before = await reader("GET", "/v1/whoami")
        assert (before.json["hold"], "betimes-hold" in before.headers) == (None, False)
        assert (await admin("PUT", "/v1/hold", HOLD)).status == 200
        for path in ("/v1/whoami", "/v1/meta", "/v1/backlog"):
            told = await reader("GET", path)
            assert (told.json["hold"], told.headers["betimes-hold"]) == (SHOWN, SAID)
        assert (await admin("POST", "/v1/notifications", NOTE)).headers["betimes-hold"] == SAID
        assert (await reader("GET", "/v1/runs/nobody")).headers["betimes-hold"] == SAID, "of a problem too"
        ready = await s.client("GET", "/readyz")
        assert (ready.status, ready.json["status"], ready.json["held_tenants"]) == (200, "ready", 1)
        assert "betimes-hold" not in (await s.client("GET", "/v1/whoami")).headers, "of nobody's"
        s.clock.advance_to(NOON)
        after = await reader("GET", "/v1/whoami")
        assert (after.json["hold"], "betimes-hold" in after.headers) == (None, False), "its time is over"
        assert (await s.client("GET", "/readyz")).json["held_tenants"] == 0


async def test_only_administrators_hold_and_sessions_only_when_they_operate() -> None:
    async with site(dev=False) as s:
        writer = s.with_key(await made(s, "runs:write", "notifications:write", "tick"))
        for method in ("GET", "PUT", "DELETE"):
            refused = await writer(method, "/v1/hold", HOLD if method == "PUT" else None)
            assert (refused.status, refused.json["code"]) == (403, "MISSING_SCOPE")
        secret = await made(s, "admin")
        page = browser(s, await opened(s, secret))
        assert (await page("PUT", "/v1/hold", HOLD)).status == 403
        assert (await page("POST", "/v1/sessions/current/operate", {"key": secret})).status == 200
        assert (await page("PUT", "/v1/hold", HOLD)).status == 200
        assert (await page("DELETE", "/v1/hold")).status == 204


async def test_another_tenant_sees_nothing_of_a_hold() -> None:
    async with site(dev=False) as s:
        ours, theirs = s.with_key(await made(s, "admin")), s.with_key(await made(s, "admin", tenant="other"))
        await ours("PUT", "/v1/hold", HOLD)
        told = await theirs("GET", "/v1/hold")
        assert (told.json, "betimes-hold" in told.headers) == ({"held": False, "hold": None}, False)
        assert (await theirs("DELETE", "/v1/hold")).status == 204
        assert (await ours("GET", "/v1/hold")).json["held"]


async def test_a_hold_can_be_tried() -> None:
    async with site() as s:
        tried = await s.client("PUT", "/v1/hold", HOLD, betimes_dry_run="true")
        assert tried.status == 200, tried.json
        assert (tried.json["body"]["hold"], tried.json["dry_run"]["alarm_at"]) == (SHOWN, NOON)
        assert [segment["events"][0]["type"] for segment in tried.json["dry_run"]["segments"]] == ["HoldSet"]
        assert not (await s.client("GET", "/v1/hold")).json["held"]
        assert "betimes-hold" not in tried.headers


async def test_nothing_is_claimed_and_a_claim_says_why() -> None:
    async with site(policy={"runs": {"registry": {"ORDER": {"debounce_seconds": 0, "cooldown_seconds": 0}}}}) as s:
        body = {"account_id": "shop", "trigger_type": "ORDER", "idempotency_key": "k"}
        run_id = (await s.client("POST", "/v1/triggers", body)).json["run_id"]
        await s.client("PUT", "/v1/hold", HOLD)
        refused = await s.client("POST", f"/v1/runs/{run_id}/claim", {"worker": "w"})
        assert (refused.status, refused.json["code"]) == (409, "HELD")
        assert "a wrong template" in refused.json["detail"]
        assert (await s.client("POST", "/v1/runs/claim", {"worker": "w"})).json["items"] == []
        rung = await s.client("POST", "/v1/streams/account/shop/wake", {})
        assert (rung.status, rung.json["rung"]) == (200, False)
        assert rung.json["why"] == "It is held until 2026-01-05T12:00:00Z: a wrong template."


async def test_the_clock_goes_past_the_end_of_a_hold() -> None:
    async with site() as s:
        await s.client("PUT", "/v1/hold", HOLD)
        await s.client("POST", "/v1/notifications", NOTE)
        assert (await inbox(s)) == []
        moved = await s.client("POST", "/v1/clock", {"advance_to": "2026-01-05T11:59:00Z"})
        assert (moved.json["complete"], moved.json["next_due_at"]) == (True, NOON)
        assert (await inbox(s)) == []
        assert (await s.client("POST", "/v1/clock", {"advance_to": "2026-01-05T13:00:00Z"})).json["complete"]
        assert (await inbox(s)) == ["News"]
        pulse = (await s.client("GET", "/v1/backlog")).json
        assert (pulse["hold"], pulse["effects_pending"]) == (None, 0)


def test_a_hold_that_takes_the_place_of_one_whose_time_is_over_begins_anew() -> None:
    noon, one = parse(NOON), Hold(("runs",), parse(NOON), "a wrong template", parse("2026-01-05T09:00:00Z"))
    tenant = TenantState(hold=one)
    command = SetHold(("runs",), noon + DAY, "another")
    decided = decide_hold(tenant_stream("acme"), tenant, command, ("runs",), noon + HOUR)
    assert isinstance(decided, Decision)
    for event in decided.events:
        tenant = fold(tenant, event)  # type: ignore[arg-type]
    assert tenant.hold == Hold(("runs",), noon + DAY, "another", since_at=noon + HOUR)
    assert tenant.released == {"runs": noon}


async def test_alarms_ring_in_a_dry_run_when_the_hold_ends() -> None:
    body = {"schedule_id": "hourly", "cron": "0 * * * *", "timezone": "UTC", "target": {"kind": "sweep"}}
    async with site() as s:
        await s.client("PUT", "/v1/schedules/hourly", body)
        await s.client("PUT", "/v1/hold", {**HOLD, "domains": ["automation"]})
        tried = await s.client(
            "POST", "/v1/schedules/hourly/trigger", {}, betimes_dry_run="true", betimes_at="2026-01-05T15:30:00Z"
        )
        assert tried.status == 200, tried.json
        ticked = [one["at"] for one in tried.json["dry_run"]["segments"] if one["kind"] == "schedule"]
        assert ticked[:2] == [NOON, "2026-01-05T13:00:00Z"]


async def inbox(s: Site) -> list[str]:
    return [item["title"] for item in (await s.client("GET", "/v1/users/ann/inbox")).json["items"]]


@pytest.mark.parametrize("store", STORES)
async def test_a_process_that_did_not_get_the_hold_fires_nothing_either(store: StoreName, tmp_path: Path) -> None:
    """Two processes on one database; the second learns of the hold and of its end by itself."""
    clock, called = VirtualClock("2026-01-05T09:00:00Z"), list[Any]()

    def declare(bt: Betimes) -> None:
        bt.run("SIGNAL_ARRIVED")(_noting(called))
        bt.schedule("0 * * * *", schedule_id="hourly")(_noting(called))

    async with application_on(store, tmp_path, clock, declare) as one:
        two = Betimes(f"sqlite:///{tmp_path}/betimes.db", clock=clock, workers=False)
        if isinstance(one.engine.store, PostgresStore):
            two._store = patient_store(server_dsn(), schema=one.engine.store._schema, clock=clock)
        declare(two)
        async with two:
            asked = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"}
            await two.runs.trigger(asked)
            await one.mine.tenants.set_hold({"until": NOON, "reason": "why"})
            assert await two.runs.claim_many({"worker": "w"}) == []
            clock.advance_to("2026-01-05T11:30:00Z")
            assert (await two.tick()).complete
            assert called == []
            await one.mine.tenants.end_hold()
            await two.tick()
            assert len(called) == 2, "the run, and the last tick of the schedule"


def _noting(called: list[Any]) -> Any:
    async def note(payload: Any) -> None:
        called.append(payload)

    return note
