"""Causes: what one domain does because of another is followed both ways, from the cause and from what it led to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from betimes.app.routes import ROUTES
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.server import serve
from tests.http.served import Client
from tests.http.stores import STORES, StoreName, application_on

NOTE = {
    "kind": "notification",
    "user_id": "ann",
    "event_type": "MESSAGE",
    "title": "The brief",
    "message": "Your day in one page",
    "source": "test",
    "channels": ["in_app"],
    "priority_hint": "HIGH",
}
INTENT = {
    "intent_id": "call:7",
    "user_id": "bob",
    "trigger_type": "once",
    "schedule": {"trigger_at": "2026-01-05T10:00:00Z"},
    "action_type": "notify",
    "action_context": "call your mother",
}


async def explain(client: Client, segment_id: str) -> Any:
    reply = await client("GET", f"/v1/explain/{segment_id}")
    assert reply.status == 200, reply.raw
    return reply.json


async def assert_leads_to(client: Client, cause: str, effect: str) -> None:
    """Assert that each of two segments names the other."""
    assert (await explain(client, effect))["caused_by"]["segment_id"] == cause
    assert effect in (await explain(client, cause))["caused"]


async def segments_of(client: Client, kind: str) -> list[str]:
    items = (await client("GET", f"/v1/ledger?kind={kind}")).json["items"]
    return [item["segment_id"] for item in items]


@pytest.mark.parametrize("store", STORES)
async def test_what_a_schedule_a_sensor_and_an_intent_lead_to_is_followed_both_ways(
    store: StoreName, tmp_path: Path
) -> None:
    async with application_on(store, tmp_path, VirtualClock("2026-01-05T09:00:00Z")) as bt:
        client = Client(serve(bt, ROUTES, dev=True))
        run = {"kind": "trigger", "account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED"}
        defined = [
            await client("POST", "/v1/schedules", {"schedule_id": "brief", "cron": "0 10 * * *", "target": NOTE}),
            await client("POST", "/v1/sensors", {"sensor_id": "crm", "sensor_type": "push", "target": run}),
            await client("POST", "/v1/intents", INTENT),
        ]
        assert [reply.status for reply in defined] == [201, 201, 201]
        await client("POST", "/v1/sensors/crm/messages", {"message_id": "m1"})
        await bt.advance(to="2026-01-05T10:30:00Z")

        # schedule -> its run, and the notification it sent
        [tick] = [one for one in await segments_of(client, "schedule") if one != "schedule:brief:1"]
        caused = (await explain(client, tick))["caused"]
        assert {one.split(":")[0] for one in caused} == {"run", "inbox"}
        for effect in caused:
            await assert_leads_to(client, tick, effect)

        # sensor -> account -> run
        await assert_leads_to(client, "sensor:crm:2", "account:acct-7:1")
        runs = (await explain(client, "account:acct-7:1"))["caused"]
        assert [one for one in runs if one.startswith("run:")]
        for effect in runs:
            await assert_leads_to(client, "account:acct-7:1", effect)

        # intent -> notification -> message; the whole story under one correlation
        await assert_leads_to(client, "intent:call:7:2", "inbox:bob:1")
        await assert_leads_to(client, "intent:call:7:2", "intent:call:7:3")
        await assert_leads_to(client, "inbox:bob:1", "feed:bob:1")
        # the report of the worker that fired it leads to what the worker did for it
        assert (await explain(client, "intent:call:7:3"))["caused"] == ["inbox:bob:1", "owner:bob:2"]
        assert (await explain(client, "inbox:bob:1"))["caused_by"]["segment_id"] == "intent:call:7:2"
        correlation = (await explain(client, "inbox:bob:1"))["correlation_id"]
        story = (await client("GET", f"/v1/ledger?correlation_id={correlation}")).json["items"]
        assert {one["segment_id"] for one in story} >= {"inbox:bob:1", "feed:bob:1", "intent:call:7:3"}


async def test_a_key_that_may_not_read_the_other_domain_is_not_told_of_it(tmp_path: Path) -> None:
    async with application_on("sqlite", tmp_path, VirtualClock("2026-01-05T09:00:00Z")) as bt:
        client = Client(serve(bt, ROUTES, dev=True))
        await client("POST", "/v1/intents", INTENT)
        await bt.advance(to="2026-01-05T10:30:00Z")
        key = (await client("POST", "/v1/keys", {"name": "reader", "scopes": ["notifications:read"]})).json["secret"]
        reader = Client(serve(bt, ROUTES), {"authorization": f"Bearer {key}"})
        assert (await explain(reader, "inbox:bob:1"))["caused_by"] is None
        key = (await client("POST", "/v1/keys", {"name": "other", "scopes": ["intents:read"]})).json["secret"]
        other = Client(serve(bt, ROUTES), {"authorization": f"Bearer {key}"})
        assert "inbox:bob:1" not in (await explain(other, "intent:call:7:2"))["caused"]
