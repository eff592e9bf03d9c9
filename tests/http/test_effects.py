"""Effects over HTTP: what had to happen outside, and once more for dead letters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from betimes.admin.service import NewKey
from betimes.app import Betimes
from betimes.app.settings import Settings
from betimes.core.datetimes import moment
from betimes.domain.service import Caller
from betimes.domain.targets import HandlerTarget, WebhookTarget
from betimes.engine.effects import GiveUp
from betimes.ledger.effects import bare_url
from betimes.notifications.views import NotificationRequest
from betimes.outbound.channels import ChannelSettings
from betimes.schedules.views import ScheduleRequest
from tests.http.served import Site, site

MUTE = Settings(channels=ChannelSettings())
"""No channel is configured, so that every delivery is a dead letter."""


REPORT = HandlerTarget("report")


class Moody:
    """A handler that gives up until it is told otherwise."""

    def __init__(self) -> None:
        self.is_well = False
        self.calls: list[Any] = []

    def declare(self, bt: Betimes) -> None:
        async def report(payload: Any) -> str:
            self.calls.append(payload)
            if not self.is_well:
                raise GiveUp("no toner")
            return "printed"

        bt.handler("report")(report)


def _services(s: Site, tenant: str = "default") -> Any:
    return s.bt.for_caller(Caller(tenant))


async def _ticked(s: Site, target: Any = REPORT, tenant: str = "default") -> None:
    """A schedule that ticked once."""
    schedules = _services(s, tenant).schedules
    await schedules.create(ScheduleRequest(schedule_id="nightly", cron="0 3 * * *", target=target))
    await schedules.trigger("nightly")
    await s.bt.tick()


async def _notified(s: Site, tenant: str = "default", **more: Any) -> None:
    request = NotificationRequest(
        event_id="e-1",
        user_id="ann",
        event_type="ALERT",
        title="Late",
        message="The train is late",
        source="rail",
        channels=("push",),
        priority_hint="HIGH",
        **more,
    )
    await _services(s, tenant).notifications.send(request)
    await s.bt.tick()


async def test_a_dead_letter_is_listed_shown_and_retried_with_fresh_attempts() -> None:
    moody = Moody()
    async with site(declare=moody.declare) as s:
        await _ticked(s)
        [dead] = (await s.client("GET", "/v1/effects?status=dead")).json["items"]
        assert list(dead) == [
            "effect_id",
            "effect_kind",
            "domain",
            "stream",
            "segment_id",
            "target",
            "executor",
            "status",
            "attempts",
            "next_attempt_at",
            "last_error",
            "created_at",
            "finished_at",
            "user_id",
            "event_id",
            "channel",
        ]
        assert (dead["effect_kind"], dead["domain"], dead["target"]) == ("handler", "automation", "report")
        assert dead["stream"] == {"kind": "schedule", "id": "nightly"}
        assert (dead["status"], dead["attempts"], dead["last_error"]) == ("dead", 1, "no toner")
        assert (dead["created_at"], dead["finished_at"]) == ("2026-01-05T09:00:00Z",) * 2
        one = (await s.client("GET", f"/v1/effects/{dead['effect_id']}")).json
        assert one["payload"]["run_key"]
        [attempt] = one["history"]
        assert attempt.pop("duration_ms") >= 0
        assert attempt == {"at": "2026-01-05T09:00:00Z", "ok": False, "error": "no toner"}
        moody.is_well = True
        revived = await s.client("POST", f"/v1/effects/{dead['effect_id']}/retry")
        assert (revived.status, revived.json["status"], revived.json["attempts"]) == (200, "pending", 0)
        assert revived.json["next_attempt_at"] == "2026-01-05T09:00:00Z"
        await s.bt.tick()
        well = (await s.client("GET", f"/v1/effects/{dead['effect_id']}")).json
        assert (well["status"], [attempt["ok"] for attempt in well["history"]]) == ("done", [False, True])
        again = await s.client("POST", f"/v1/effects/{dead['effect_id']}/retry")
        assert (again.status, again.json["code"]) == (409, "NOT_RETRYABLE")


async def test_a_batch_retries_what_it_can_and_says_what_not() -> None:
    moody = Moody()
    async with site(declare=moody.declare) as s:
        await _ticked(s)
        [dead] = (await s.client("GET", "/v1/effects?status=dead")).json["items"]
        items = [{"effect_id": dead["effect_id"]}, {"effect_id": "schedule:none:1:0"}, {"effect_id": "nonsense"}, {}]
        batch = (await s.client("POST", "/v1/effects/retry", {"items": items})).json["items"]
        assert [item["status"] for item in batch] == [200, 404, 404, 422]
        assert batch[0]["body"]["status"] == "pending"
        assert batch[3]["problem"]["errors"][0]["path"] == "items[3].effect_id"


async def test_a_delivery_names_the_person_the_event_and_the_channel() -> None:
    async with site(settings=MUTE) as s:
        await _notified(s)
        [delivery] = (await s.client("GET", "/v1/effects?effect_kind=delivery")).json["items"]
        assert (delivery["user_id"], delivery["event_id"], delivery["channel"]) == ("ann", "e-1", "push")
        assert (delivery["target"], delivery["domain"], delivery["status"]) == ("push", "notifications", "dead")
        for query, count in (
            ("user_id=ann", 1),
            ("user_id=bob", 0),
            ("channel=push", 1),
            ("channel=sms", 0),
            ("status=done", 0),
            ("domain=notifications", 1),
            ("domain=runs", 0),
            ("status=pending", 0),
            ("effect_kind=webhook", 0),
        ):
            found = (await s.client("GET", f"/v1/effects?{query}")).json["items"]
            assert len(found) == count, query


async def test_an_expired_notification_is_not_retried() -> None:
    async with site(settings=MUTE) as s:
        await _notified(s, expires_at=moment(s.clock()) + timedelta(minutes=5))
        [delivery] = (await s.client("GET", "/v1/effects?status=dead")).json["items"]
        s.clock.advance(301)
        refused = await s.client("POST", f"/v1/effects/{delivery['effect_id']}/retry")
        assert (refused.status, refused.json["code"]) == (409, "NOT_RETRYABLE")
        assert "expired" in refused.json["detail"]


async def test_a_run_handler_that_failed_is_final() -> None:
    def declare(bt: Betimes) -> None:
        async def brief(detail: Any) -> None:
            raise RuntimeError("out of paper")

        bt.run("SIGNAL_ARRIVED")(brief)

    async with site(declare=declare) as s:
        trigger = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"}
        await s.client("POST", "/v1/triggers", trigger)
        await s.bt.tick()
        [failed] = (await s.client("GET", "/v1/effects?effect_kind=run_handler")).json["items"]
        assert (failed["status"], failed["target"]) == ("failed", "run.SIGNAL_ARRIVED")
        refused = await s.client("POST", f"/v1/effects/{failed['effect_id']}/retry")
        assert (refused.status, refused.json["code"]) == (409, "NOT_RETRYABLE")


async def test_an_address_is_shown_without_what_may_be_secret_in_it() -> None:
    async with site() as s:
        await _ticked(s, WebhookTarget("https://127.0.0.1:9/hook?token=hush#part"))
        [webhook] = (await s.client("GET", "/v1/effects?effect_kind=webhook")).json["items"]
        assert webhook["target"] == "https://127.0.0.1:9/hook"
        one = await s.client("GET", f"/v1/effects/{webhook['effect_id']}")
        assert b"hush" not in one.raw
        assert bare_url("https://user:pass@127.0.0.1:9/hook") == "https://127.0.0.1:9/hook"  # none is saved any more


async def test_what_a_key_may_not_read_or_write_is_not_there() -> None:
    async with site(dev=False, settings=MUTE) as s:
        await _notified(s, "acme")

        async def client(*scopes: Any, tenant: str = "acme") -> Any:
            made = await _services(s, tenant).tenants.create_key(NewKey(name="test", scopes=scopes))
            return s.with_key(made.secret or "")

        reader = await client("notifications:read")
        [delivery] = (await reader("GET", "/v1/effects")).json["items"]
        path = f"/v1/effects/{delivery['effect_id']}"
        assert (await reader("GET", path)).status == 200
        assert (await reader("POST", f"{path}/retry")).status == 403
        elsewhere = await client("runs:read", "runs:write")
        assert (await elsewhere("GET", "/v1/effects")).json["items"] == []
        assert (await elsewhere("GET", path)).status == 404
        assert (await elsewhere("POST", f"{path}/retry")).status == 404
        stranger = await client("admin", tenant="other")
        assert (await stranger("GET", "/v1/effects")).json["items"] == []
        assert (await stranger("GET", path)).status == 404
        writer = await client("notifications:write")
        assert (await writer("GET", path)).status == 403
        assert (await writer("POST", f"{path}/retry")).status == 200


async def test_pages_of_effects_hold_every_effect_once() -> None:
    moody = Moody()
    async with site(declare=moody.declare) as s:
        schedules = _services(s).schedules
        for number in range(5):
            name = f"s{number}"
            await schedules.create(ScheduleRequest(schedule_id=name, cron="0 3 * * *", target=REPORT))
            await schedules.trigger(name)
        await s.bt.tick()
        seen, cursor = [], ""
        while True:
            page = (await s.client("GET", f"/v1/effects?limit=2{cursor}")).json
            seen += [effect["stream"]["id"] for effect in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert seen == ["s4", "s3", "s2", "s1", "s0"]
        other = await s.client("GET", f"/v1/effects?status=dead{cursor}")
        assert (other.status, other.json["errors"][0]["path"]) == (422, "query.cursor")
