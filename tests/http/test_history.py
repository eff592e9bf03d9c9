"""Time and history over HTTP: passes, the virtual clock, the ledger, and why."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.admin.service import NewKey, Rotation
from betimes.app import Betimes
from betimes.app.routes import ROUTES
from betimes.domain.service import Caller
from betimes.domain.targets import HandlerTarget, TriggerTarget
from betimes.engine.store import LedgerQuery
from betimes.engine.tenants.model import tenant_stream
from betimes.http.server import serve
from betimes.notifications.views import NotificationRequest
from betimes.schedules.views import ScheduleRequest
from betimes.scores.service import NewScore
from betimes.sensors.views import SensorRequest
from tests.http.served import ANY_HANDLER, Client, Site, site

TRIGGER = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"}
SEGMENT = [
    "segment_id",
    "domain",
    "kind",
    "id",
    "version",
    "at",
    "key",
    "command",
    "events",
    "verdict",
    "policy",
    "actor",
    "correlation_id",
    "note",
]


def _services(s: Site, tenant: str = "default") -> Any:
    return s.bt.for_caller(Caller(tenant))


async def _client(s: Site, *scopes: Any, tenant: str = "acme") -> Client:
    made = await _services(s, tenant).tenants.create_key(NewKey(name="test", scopes=scopes))
    return s.with_key(made.secret or "")


async def _deferred(s: Site, client: Client | None = None) -> None:
    """A trigger that was allowed, and one that waits for its cooldown."""
    client = client or s.client
    await client("POST", "/v1/triggers", TRIGGER)
    s.clock.advance(120)
    await client("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": "sig-2"}, x_correlation_id="c-2")


# -- tick


async def test_a_tick_rings_what_is_due_and_says_what_is_next() -> None:
    async with site() as s:
        await _deferred(s)
        early = (await s.client("POST", "/v1/tick")).json
        assert early == {
            "now": "2026-01-05T09:02:00Z",
            "fired": {},
            "effects": {"done": 0, "retrying": 0, "dead": 0},
            "complete": True,
            "next_due_at": "2026-01-05T09:05:00Z",
        }
        s.clock.advance(180)
        assert (await s.client("POST", "/v1/tick", {"limit": 10, "max_s": 1})).json["fired"] == {"account": 1}


async def test_a_tick_of_some_kinds_leaves_the_others() -> None:
    async with site() as s:
        await _deferred(s)
        s.clock.advance(180)
        other = (await s.client("POST", "/v1/tick", {"kinds": ["schedule"]})).json
        assert (other["fired"], other["complete"]) == ({}, True)
        assert (await s.client("POST", "/v1/tick", {"kinds": ["account"]})).json["fired"] == {"account": 1}
        unknown = await s.client("POST", "/v1/tick", {"kinds": ["account", "moon"]})
        assert (unknown.status, unknown.json["errors"][0]["path"]) == (422, "kinds[1]")


@pytest.mark.parametrize("body", [{"limit": 0}, {"limit": 10_001}, {"max_s": 0.5}, {"max_s": 26}, {"kinds": []}])
async def test_a_tick_has_bounds(body: dict[str, Any]) -> None:
    async with site() as s:
        assert (await s.client("POST", "/v1/tick", body)).status == 422


async def test_a_tenants_own_key_rings_that_tenants_alarms_alone() -> None:
    async with site(dev=False) as s:
        for tenant in ("acme", "other"):
            await _deferred(s, await _client(s, "runs:write", tenant=tenant))
        s.clock.advance(300)
        own = await _client(s, "tick")
        for fired in ({"account": 1}, {}):
            told = (await own("POST", "/v1/tick")).json
            assert (told["fired"], told["complete"]) == (fired, True), "what is due is the other tenant's"
        everybody = await _client(s, "tick", tenant="*")
        assert (await everybody("POST", "/v1/tick")).json["fired"] == {"account": 1}


async def test_a_tenants_own_key_carries_out_that_tenants_effects_alone() -> None:
    called: list[str] = []

    def declare(bt: Betimes) -> None:
        bt.handler("note")(lambda payload: called.append(payload["payload"]["of"]))

    async with site(dev=False, declare=declare, settings=ANY_HANDLER) as s:
        for tenant in ("acme", "other"):
            schedules = _services(s, tenant).schedules
            await schedules.create(
                ScheduleRequest(
                    schedule_id="hourly", cron="0 * * * *", target=HandlerTarget("note"), payload={"of": tenant}
                )
            )
            await schedules.trigger("hourly")
        told = (await (await _client(s, "tick"))("POST", "/v1/tick")).json
        assert called == ["acme"]
        assert (told["effects"]["done"], told["complete"], told["next_due_at"]) == (1, True, "2026-01-05T10:00:00Z")
        told = (await (await _client(s, "tick", tenant="idle"))("POST", "/v1/tick")).json
        assert (told["complete"], told["next_due_at"], called) == (True, None, ["acme"])
        assert (await (await _client(s, "tick", tenant="*"))("POST", "/v1/tick")).json["effects"]["done"] == 1
        assert called == ["acme", "other"]


# -- clock


async def test_the_clock_rings_every_alarm_on_the_way_in_order() -> None:
    calls: list[str] = []

    def declare(bt: Betimes) -> None:
        async def note(payload: Any) -> None:
            calls.append(payload["run_key"])

        bt.handler("note")(note)

    async with site(declare=declare) as s:
        request = ScheduleRequest(schedule_id="hourly", cron="0 * * * *", target=HandlerTarget("note"))
        await _services(s).schedules.create(request)
        at = (await s.client("GET", "/v1/clock")).json
        assert at == {"now": "2026-01-05T09:00:00Z", "virtual": True, "next_due_at": "2026-01-05T10:00:00Z"}
        moved = (await s.client("POST", "/v1/clock", {"advance_s": 3 * 3600})).json
        assert (moved["now"], moved["complete"]) == ("2026-01-05T12:00:00Z", True)
        assert (moved["fired"]["schedule"], moved["effects"]["done"], len(calls)) == (3, 3, 3)
        assert calls == sorted(calls)
        to = (await s.client("POST", "/v1/clock", {"advance_to": "2026-01-05T14:30:00+01:00"})).json
        assert (to["now"], to["fired"]) == ("2026-01-05T13:30:00Z", {"schedule": 1})


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "advance_to"),
        ({"advance_s": 1, "advance_to": "2027-01-01T00:00:00Z"}, "advance_to"),
        ({"advance_to": "2026-01-05T08:59:59Z"}, "advance_to"),
        ({"advance_to": "2027-01-07T09:00:00Z"}, "advance_to"),
        ({"advance_to": "2026-01-06T09:00:00"}, "advance_to"),
        ({"advance_s": -1}, "advance_s"),
        ({"advance_s": 366 * 86_400 + 1}, "advance_s"),
        ({"advance_s": 1e300}, "advance_s"),
    ],
)
async def test_the_clock_moves_forward_by_at_most_366_days(body: dict[str, Any], path: str) -> None:
    async with site() as s:
        refused = await s.client("POST", "/v1/clock", body)
        assert (refused.status, refused.json["errors"][0]["path"]) == (422, path)
        assert (await s.client("GET", "/v1/clock")).json["now"] == "2026-01-05T09:00:00Z"


async def test_real_time_cannot_be_moved() -> None:
    async with Betimes("memory://", workers=False) as bt:
        client = Client(serve(bt, ROUTES, dev=True))
        for method, body in (("GET", None), ("POST", {"advance_s": 1})):
            refused = await client(method, "/v1/clock", body)
            assert (refused.status, refused.json["code"]) == (404, "CLOCK_NOT_VIRTUAL")
            assert "with --app put clock=VirtualClock(…) into its Betimes" in refused.json["detail"]


async def test_the_clock_is_the_deployments() -> None:
    async with site(dev=False) as s:
        refused = await (await _client(s, "tick"))("GET", "/v1/clock")
        assert (refused.status, refused.json["code"]) == (403, "MISSING_SCOPE")
        assert (await (await _client(s, "tick", tenant="*"))("GET", "/v1/clock")).status == 200


# -- ledger


async def test_the_ledger_shows_segments_as_in_the_contract() -> None:
    async with site() as s:
        await _deferred(s)
        page = (await s.client("GET", "/v1/ledger?kind=account")).json
        assert page["next_cursor"] is None
        first, second = page["items"]
        assert list(second) == SEGMENT
        assert (second["segment_id"], second["domain"], second["key"]) == ("account:acct-7:2", "runs", "sig-2")
        assert (second["at"], second["correlation_id"], second["actor"]) == ("2026-01-05T09:02:00Z", "c-2", "dev")
        assert second["command"]["type"] == "RequestRun"
        assert (second["events"][0]["type"], second["events"][0]["v"]) == ("RunDeferred", 1)
        assert second["events"][0]["due"]["until_at"] == "2026-01-05T09:05:00Z"
        verdict = second["verdict"]
        assert (verdict["outcome"], verdict["reasons"]) == ("DEFER", ["COOLDOWN"])
        assert verdict["defer_until"] == "2026-01-05T09:05:00Z"
        assert first["verdict"]["outcome"] == "ALLOW"


async def test_the_ledger_is_filtered_and_turned_round() -> None:
    async with site() as s:
        await _deferred(s)
        await s.bt.advance(to=s.clock() + 180_000_000)

        async def found(query: str) -> list[str]:
            page = (await s.client("GET", f"/v1/ledger?kind=account&{query}")).json
            return [segment["segment_id"].rpartition(":")[2] for segment in page["items"]]

        assert await found("order=asc") == ["1", "2", "3"]
        assert await found("order=desc") == ["3", "2", "1"]
        assert await found("event_type=RunDeferred") == ["2"]
        part = await s.client("GET", "/v1/ledger?event_type=Run")
        assert (part.status, part.json["errors"][0]["path"]) == (422, "query.event_type"), "a type is named whole"
        assert await found("key=sig-1") == ["1"]
        assert await found("correlation_id=c-2") == ["2"]
        assert await found("since=2026-01-05T09:02:00Z&until=2026-01-05T09:05:00Z") == ["2"]
        assert await found("id=nobody") == []
        bad = await s.client("GET", "/v1/ledger?since=yesterday&colour=red&order=up&limit=201")
        assert sorted(error["path"] for error in bad.json["errors"]) == [
            "query.colour",
            "query.limit",
            "query.order",
            "query.since",
        ]


async def test_a_filter_no_store_could_keep_is_refused() -> None:
    async with site() as s:
        bad = await s.client("GET", "/v1/ledger?id=a%00b&key=%00")
        assert (bad.status, [error["path"] for error in bad.json["errors"]]) == (422, ["query.id", "query.key"])


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_a_reader_pages_through_and_comes_back_for_what_is_committed_later(order: str) -> None:
    async with site() as s:
        for number in range(5):
            asked = {**TRIGGER, "account_id": f"a{number}", "idempotency_key": f"k{number}"}
            await s.client("POST", "/v1/triggers", asked)
        seen: list[str] = []
        target = f"/v1/ledger?kind=account&limit=2&order={order}"
        page = (await s.client("GET", target)).json
        seen += [segment["id"] for segment in page["items"]]
        while page["next_cursor"]:
            page = (await s.client("GET", f"{target}&cursor={page['next_cursor']}")).json
            seen += [segment["id"] for segment in page["items"]]
        assert seen == sorted((f"a{number}" for number in range(5)), reverse=order == "desc")
        resume = f"/v1/ledger?kind=account&limit=2&cursor={page['resume_cursor']}"
        nothing = (await s.client("GET", resume)).json
        assert (nothing["items"], nothing["next_cursor"]) == ([], None)
        await s.client("POST", "/v1/triggers", {**TRIGGER, "account_id": "late", "idempotency_key": "late"})
        for target in (resume, f"/v1/ledger?kind=account&limit=2&cursor={nothing['resume_cursor']}"):
            assert [segment["id"] for segment in (await s.client("GET", target)).json["items"]] == ["late"]


async def test_a_key_reads_the_segments_of_its_domains_and_an_administrator_those_of_the_tenant() -> None:
    async with site(dev=False) as s:
        await _deferred(s, await _client(s, "runs:write"))
        runs, scores = await _client(s, "runs:read"), await _client(s, "scores:read")
        admin = await _client(s, "admin")
        assert {segment["domain"] for segment in (await runs("GET", "/v1/ledger")).json["items"]} == {"runs"}
        assert (await scores("GET", "/v1/ledger")).json["items"] == []
        assert (await scores("GET", "/v1/ledger?kind=account")).json["items"] == []
        assert (await runs("GET", "/v1/ledger?kind=tenant")).json["items"] == []
        assert (await admin("GET", "/v1/ledger?kind=tenant")).json["items"][0]["events"][0]["type"] == "KeyCreated"
        assert (await runs("GET", "/v1/explain/account:acct-7:1")).status == 200
        assert (await scores("GET", "/v1/explain/account:acct-7:1")).status == 404
        assert (await runs("GET", "/v1/explain/tenant:acme:1")).status == 404
        stranger = await _client(s, "admin", tenant="other")
        assert (await stranger("GET", "/v1/explain/account:acct-7:1")).status == 404


async def test_no_secret_ever_made_is_in_the_ledger_or_an_explanation() -> None:
    async with site() as s:
        services = _services(s)
        key = await services.tenants.create_key(NewKey(name="k", scopes=("admin",)))
        rotated = await services.tenants.rotate_key(key.key_id, Rotation(60))
        hooks = [(await services.tenants.rotate_webhook_secret(Rotation(60))).secret for _ in range(2)]
        secrets = [*hooks, key.secret.rpartition("_")[2], rotated.secret.rpartition("_")[2]]
        target = TriggerTarget("SIGNAL_ARRIVED", "a")
        for auth in ("signature", "token"):
            request = SensorRequest(sensor_id=auth, sensor_type="push", target=target, auth=auth)
            made = await services.sensors.create(request)
            secrets += [made.secret, (await services.sensors.rotate_secret(auth)).secret]
        stored = [*secrets]
        state = await services.runs.state(tenant_stream("default"))
        stored += [kept.secret_digest for kept in state.keys.values()]
        stored += [kept.previous_digest for kept in state.keys.values()]
        everything = await s.bt.engine.store.ledger(LedgerQuery(tenant="default", limit=1_000))
        raw = "".join(segment.events for segment in everything)
        assert all(secret in raw for secret in (*hooks, *(kept.secret_digest for kept in state.keys.values())))
        page = await s.client("GET", "/v1/ledger?limit=200")
        assert {"tenant", "sensor"} <= {segment["kind"] for segment in page.json["items"]}
        shown = page.raw.decode()
        for segment in page.json["items"]:
            shown += (await s.client("GET", f"/v1/explain/{segment['segment_id']}")).raw.decode()
        assert all(len(secret) > 20 for secret in stored)
        assert [secret for secret in stored if secret in shown] == []


async def test_amounts_are_shown_in_points() -> None:
    async with site() as s:
        await _services(s).scores.create(NewScore(user_id="ann"))
        [created] = (await s.client("GET", "/v1/ledger?kind=score")).json["items"]
        assert created["events"][0]["score"] <= 100
        assert created["events"][0]["created_at"] == "2026-01-05T09:00:00Z"


# -- explain


async def test_a_deferral_is_explained_with_its_rules_and_its_retry() -> None:
    async with site() as s:
        await _deferred(s)
        await s.bt.advance(to=s.clock() + 180_000_000)
        why = (await s.client("GET", "/v1/explain/account:acct-7:2")).json
        links = ["caused_by", "caused", "effects", "unreadable", "later", "judged", "judgements"]
        assert list(why) == [*SEGMENT, "trace", "rules", "summary", "timezone", "policy_in_force", *links]
        assert why["trace"][-1]["reason"] == "COOLDOWN"
        assert why["summary"].startswith("DEFER because of COOLDOWN, until ")
        assert why["later"] == ["account:acct-7:3"]
        again = (await s.client("GET", "/v1/explain/account:acct-7:3")).json
        assert again["later"] == []
        [judged] = why["judged"]
        assert (judged["what"], judged["key"]) == ("SIGNAL_ARRIVED", why["key"])
        assert [one["key"] for one in again["judged"]] == [why["key"]]
        story = [(one["segment_id"], one["outcome"]) for one in why["judgements"]]
        assert story == [("account:acct-7:2", "DEFER"), ("account:acct-7:3", again["verdict"]["outcome"])]
        assert again["judgements"] == why["judgements"], "whichever is looked at, the story is the same"


async def test_an_explanation_leads_to_what_caused_it_and_what_it_caused() -> None:
    async with site() as s:
        target = TriggerTarget("SIGNAL_ARRIVED", "a")
        await _services(s).schedules.create(ScheduleRequest(schedule_id="x", cron="0 * * * *", target=target))
        await _services(s).schedules.trigger("x")
        await s.bt.tick()
        why = (await s.client("GET", "/v1/explain/account:a:1")).json
        assert why["caused_by"]["effect_id"].startswith(why["caused_by"]["segment_id"])
        cause = await s.client("GET", f"/v1/explain/{why['caused_by']['segment_id']}")
        assert (cause.status, cause.json["kind"]) == (200, "schedule")
        assert "account:a:1" in cause.json["caused"]


async def test_a_notification_that_was_put_off_leads_to_its_next_judgement() -> None:
    async with site() as s:
        notifications = _services(s).notifications
        for number in range(12):
            s.clock.advance(1)
            await notifications.send(
                NotificationRequest(
                    event_id=f"e{number}",
                    user_id="ann",
                    event_type="ALERT",
                    title=f"T{number}",
                    message=f"{number} is quite another matter {number * 7919}",
                    source="x",
                    channels=("in_app",),
                )
            )
        page = (await s.client("GET", "/v1/ledger?kind=inbox&event_type=Postponed")).json["items"]
        assert page
        await s.bt.advance(to=s.clock() + 6 * 3_600_000_000)
        why = (await s.client("GET", f"/v1/explain/{page[0]['segment_id']}")).json
        assert why["verdict"]["outcome"] == "LATER"
        assert why["later"]
        last = (await s.client("GET", f"/v1/explain/{why['later'][-1]}")).json
        assert why["judged"][0] in last["judged"], "one that ends in a digest is named with its type too"
        assert last["judgements"][0]["segment_id"] == why["segment_id"]
        day = (await s.client("GET", "/v1/timeline?user_id=ann")).json["items"]
        told = [one["segment_id"] for one in day if why["judged"][0] in one["judged"]]
        assert told == [why["segment_id"], *why["later"]]


@pytest.mark.parametrize("handle", ["nonsense", "account:a:1", "moon:a:1", "account:a:x", "account::1", "account:a:-1"])
async def test_what_is_not_there_cannot_be_explained(handle: str) -> None:
    async with site() as s:
        assert (await s.client("GET", f"/v1/explain/{handle}")).status == 404
