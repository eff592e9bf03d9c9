"""What every operator action carries: a key, a version where it overwrites, a note, and the segment it has left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from betimes.core.segments import NOTE_CHARS_MAX
from betimes.sensors.model import Evaluation
from tests.http.served import Reply, Site, site
from tests.http.test_effects import Moody
from tests.http.test_intents import INTENT

NOTE = "the printer's down – since 5 €"
SCHEDULE = {"schedule_id": "brief", "cron": "0 7 * * *", "target": {"kind": "handler", "name": "report"}}
RANGE = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-03T00:00:00Z"}
MESSAGE = {
    "event_id": "e-1",
    "user_id": "ann",
    "event_type": "PROMO",
    "priority_hint": "LOW",
    "source": "desk",
    "title": "News",
    "message": "of today",
    "channels": ["push"],
}
QUIET = {"quiet_hours": [{"start": "00:00", "end": "23:00"}]}
TRIGGER = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED"}


class Act(NamedTuple):
    """An action, and the beginning of the segment that it leaves."""

    method: str
    path: str
    leaves: str
    body: Any = None
    first: tuple[str, str, Any] | None = None
    """What has to be there for it."""
    is_conditional: bool = False


PAUSED = ("POST", "/v1/schedules/brief/disable", None)
ACTIONS: Mapping[str, Act] = {
    "pause a schedule": Act("POST", "/v1/schedules/brief/disable", "schedule:brief:", is_conditional=True),
    "resume a schedule": Act("POST", "/v1/schedules/brief/enable", "schedule:brief:", None, PAUSED, True),
    "pause a sensor": Act("POST", "/v1/sensors/stock/disable", "sensor:stock:", is_conditional=True),
    "pause an intent": Act("POST", "/v1/intents/i/disable", "intent:i:", is_conditional=True),
    "resume an intent": Act(
        "POST", "/v1/intents/i/enable", "intent:i:", None, ("POST", "/v1/intents/i/disable", None), True
    ),
    "delete a schedule": Act("DELETE", "/v1/schedules/brief", "schedule:brief:", is_conditional=True),
    "pause many": Act("POST", "/v1/schedules/bulk", "operation:schedules:", {"action": "disable", "filter": {}}),
    "tick now": Act("POST", "/v1/schedules/brief/trigger", "schedule:brief:", {}, None, True),
    "backfill": Act("POST", "/v1/schedules/brief/backfills", "backfill:bf_", RANGE, None, True),
    "evaluate": Act("POST", "/v1/sensors/stock/evaluate", "sensor:stock:", {}),
    "reset a cursor": Act("POST", "/v1/sensors/stock/cursor", "sensor:stock:", {"cursor": 7, "state_version": 2}),
    "cancel what waits": Act("POST", "/v1/notifications/e-1/cancel", "inbox:ann:"),
    "release what waits": Act("POST", "/v1/notifications/e-1/release", "inbox:ann:"),
    "drop a trigger": Act("POST", "/v1/triggers/second/cancel", "account:acct-7:"),
    "ban": Act("PUT", "/v1/users/ann/ban", "inbox:ann:", {"reason": "spam"}),
    "lift a ban": Act("DELETE", "/v1/users/ann/ban", "inbox:ann:", None, ("PUT", "/v1/users/ann/ban", {})),
    "open an incident": Act("POST", "/v1/incidents", "incident:", {"reason": "outage"}),
    "hold": Act("PUT", "/v1/hold", "tenant:default:", {"until": "2026-01-05T12:00:00Z", "reason": "a template"}),
    "end a hold": Act(
        "DELETE",
        "/v1/hold",
        "tenant:default:",
        None,
        ("PUT", "/v1/hold", {"until": "2026-01-05T12:00:00Z", "reason": "x"}),
    ),
    "apply a policy": Act("PUT", "/v1/policy", "tenant:default:", {"overrides": {"intents": {"claim_lease_s": 600}}}),
    "roll back": Act(
        *("POST", "/v1/policy/rollback", "tenant:default:", {}),
        ("PUT", "/v1/policy", {"overrides": {"intents": {"claim_lease_s": 600}}}),
    ),
    "retry some": Act("POST", "/v1/effects/retry", "operation:effects:", {"ids": ["schedule:dead:2:0"]}),
    "retry all": Act("POST", "/v1/effects/retry", "operation:effects:", {"filter": {}}),
    "retry one": Act("POST", "/v1/effects/schedule:dead:2:0/retry", "operation:effects:"),
    "discard some": Act("POST", "/v1/effects/discard", "operation:effects:", {"ids": ["schedule:dead:2:0"]}),
    "discard one": Act("DELETE", "/v1/effects/schedule:dead:2:0", "operation:effects:"),
    "ring": Act("POST", "/v1/streams/schedule/brief/wake", "operation:streams:", {}),
    "make a key": Act("POST", "/v1/keys", "tenant:default:", {"name": "crm", "scopes": ["runs:read"]}),
    "adjust a score": Act("POST", "/v1/scores/ann/adjust", "score:ann:", {"delta": 3, "reason": "a gift"}),
}


async def _furnish(s: Site) -> None:
    """Leave something of everything."""
    await s.client("POST", "/v1/schedules", SCHEDULE)
    await s.client("POST", "/v1/schedules", {**SCHEDULE, "schedule_id": "dead"})
    await s.client("POST", "/v1/schedules/dead/trigger")
    await s.client("POST", "/v1/intents", {**INTENT, "intent_id": "i"})
    await s.client("PUT", "/v1/users/ann/preferences", QUIET)
    assert (await s.client("POST", "/v1/notifications", MESSAGE)).json["outcome"] == "LATER"
    for key in ("first", "second"):
        await s.client("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": key})
        s.clock.advance(100)
    await s.client("POST", "/v1/scores", {"user_id": "ann", "score": 50})
    await s.bt.tick()


async def _look(cursor: Any, context: Any) -> Evaluation:
    return Evaluation(cursor={"looked": 1})


def _declare(bt: Any) -> None:
    Moody().declare(bt)
    target = {"kind": "trigger", **TRIGGER}
    bt.sensor("30m", target=target, sensor_id="stock")(_look)


async def _act(s: Site, act: Act, **headers: str) -> Reply:
    return await s.client(act.method, act.path, act.body, betimes_note=quote(NOTE), **headers)


async def _newest(s: Site, kind: str) -> Any:
    return (await s.client("GET", f"/v1/ledger?kind={kind}&order=desc&limit=1")).json["items"]


@pytest.mark.parametrize("name", ACTIONS)
async def test_every_action_records_who_and_why_and_names_its_segment(name: str) -> None:
    act = ACTIONS[name]
    async with site(declare=_declare) as s:
        await _furnish(s)
        if act.first:
            assert (await s.client(*act.first)).status < 300
        tried = await _act(s, act, betimes_dry_run="true") if name != "evaluate" else None
        assert tried is None or (tried.status, "betimes-segment" in tried.headers) == (200, False)
        if act.is_conditional:
            for version in ("99", "0"):
                stale = await _act(s, act, if_match=f'"{version}"')
                assert (stale.status, stale.json["code"]) == (412, "VERSION_MISMATCH")
        keyed = {"idempotency_key": "once"} if act.method == "POST" else {}
        done = await _act(s, act, **keyed)
        assert done.status in (200, 201, 204), done.json
        segment_id = done.headers["betimes-segment"]
        assert segment_id.startswith(act.leaves)
        shown = (await s.client("GET", f"/v1/explain/{segment_id}")).json
        assert (shown["actor"], shown["note"]) == ("dev", NOTE)
        listed = await _newest(s, shown["kind"])
        assert (listed[0]["segment_id"], listed[0]["note"]) == (segment_id, NOTE)
        again = await _act(s, act, **keyed)
        if keyed:
            assert again.headers.get("betimes-segment", segment_id) == segment_id
            assert await _newest(s, shown["kind"]) == listed, "the same key, the same segment"


async def test_a_close_of_an_incident_says_why_too() -> None:
    async with site() as s:
        opened = await s.client("POST", "/v1/incidents", {"reason": "outage"})
        closed = await s.client("DELETE", f"/v1/incidents/{opened.json['incident_id']}", betimes_note="over")
        assert closed.status == 204
        shown = (await s.client("GET", f"/v1/explain/{closed.headers['betimes-segment']}")).json
        assert (shown["command"]["type"], shown["note"]) == ("CloseIncident", "over")


async def test_changes_made_together_have_the_note_of_them_all() -> None:
    async with site(declare=_declare) as s:
        await _furnish(s)
        for headers, body, note in (({}, {"note": "moving"}, "moving"), ({"betimes_note": "back"}, {}, "back")):
            action = "disable" if body else "enable"
            done = await s.client("POST", "/v1/schedules/bulk", {"action": action, "ids": ["brief"], **body}, **headers)
            [item] = done.json["items"]
            for segment_id in (item["segment_id"], done.json["segment_id"]):
                assert (await s.client("GET", f"/v1/explain/{segment_id}")).json["note"] == note


@pytest.mark.parametrize(
    ("sent", "recorded"),
    [
        ("why", "why"),
        ("  why ", "why"),
        ("50 % off", "50 % off"),
        (quote("für 5 €"), "für 5 €"),
        ("für".encode().decode("latin-1"), "für"),
        ("n" * NOTE_CHARS_MAX, "n" * NOTE_CHARS_MAX),
        (quote("€" * NOTE_CHARS_MAX), "€" * NOTE_CHARS_MAX),
    ],
)
async def test_a_note_comes_as_text_or_percent_encoded(sent: str, recorded: str) -> None:
    async with site() as s:
        done = await s.client("PUT", "/v1/users/ann/ban", {}, betimes_note=sent)
        shown = (await s.client("GET", f"/v1/explain/{done.headers['betimes-segment']}")).json
        assert shown["note"] == recorded


@pytest.mark.parametrize("sent", ["n" * (NOTE_CHARS_MAX + 1), "a%00b", "%ff", "\xff"])
async def test_what_cannot_be_a_note_is_named_and_nothing_is_done(sent: str) -> None:
    async with site() as s:
        wrong = await s.client("PUT", "/v1/users/ann/ban", {}, betimes_note=sent)
        assert (wrong.status, wrong.json["code"]) == (422, "INVALID")
        assert [error["path"] for error in wrong.json["errors"]] == ["header.betimes-note"]
        assert (await s.client("GET", "/v1/ledger?kind=inbox")).json["items"] == []


async def test_named_dead_letters_are_one_operation_and_what_cannot_be_is_said() -> None:
    async with site(declare=_declare) as s:
        await _furnish(s)
        ids = ["schedule:dead:2:0", "schedule:nobody:1:0", "inbox:ann:1:0"]
        done = (await s.client("POST", "/v1/effects/discard", {"ids": ids}, betimes_note="old")).json
        assert (done["done"], [one["effect_id"] for one in done["skipped_first"]]) == (1, ids[1:])
        assert {one["code"] for one in done["skipped_first"]} == {"NOT_FOUND"}
        [operation] = await _newest(s, "operation")
        assert (operation["command"]["subjects"], operation["note"]) == (ids[:1], "old")
        bodies: tuple[Any, ...] = ({}, {"ids": ids, "filter": {}}, {"ids": []})
        for body in bodies:
            wrong = await s.client("POST", "/v1/effects/retry", body)
            assert (wrong.status, wrong.json["errors"][0]["path"]) == (422, "ids")
        for body, path in (
            ({"ids": ids, "cursor": "x"}, "cursor"),
            ({"ids": ids, "limit": 1}, "limit"),
            ({"ids": ["y" * 301]}, "ids[0]"),
        ):
            wrong = await s.client("POST", "/v1/effects/retry", body)
            assert (wrong.status, wrong.json["errors"][0]["path"]) == (422, path)
